"""The standard health service, on threads of its own: a server that is full still says that it lives."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from backhaul_proto.messages import SERVICE

_THREADS: Final = 4


class _Pooled:
    """A method that gRPC runs on this pool. It holds no thread longer than it takes to answer."""

    experimental_non_blocking = False

    def __init__(self, method: Callable[..., Any], pool: ThreadPoolExecutor) -> None:
        self._method = method
        self.experimental_thread_pool = pool

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._method(*arguments, **named)


class _Watching(_Pooled):
    """One that leaves its answers to a callback.

    The callback waits until gRPC has sent, and gRPC's thread, which tells it so, may just then tell the
    service that a watcher has left. The service tells its watchers under a lock that this takes too: so each
    would wait for the other. A thread of its own sends, without the lock.
    """

    experimental_non_blocking = True

    def __init__(self, method: Callable[..., Any], pool: ThreadPoolExecutor) -> None:
        super().__init__(method, pool)
        self._sender = ThreadPoolExecutor(1, "backhaul-watch")

    def __call__(self, request: Any, context: Any, send: Callable[[Any], None]) -> Any:

        def later(response: Any) -> None:
            self._sender.submit(send, response)

        return self._method(request, context, later)

    def close(self) -> None:
        """Send no more."""
        self._sender.shutdown(wait=False)


class Health:
    """What the server says of itself.

    Args:
        server: where it is to be asked.
    """

    def __init__(self, server: grpc.Server) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "backhaul-health")
        self._servicer = health.HealthServicer(experimental_thread_pool=self._pool)
        self._watch = _Watching(self._servicer.Watch, self._pool)
        methods: dict[str, _Pooled] = {"Watch": self._watch}
        for name in ("Check", "List"):  # older releases have no List
            method = getattr(self._servicer, name, None)
            if method is not None:
                methods[name] = _Pooled(method, self._pool)
        for name, pooled in methods.items():
            setattr(self._servicer, name, pooled)
        self.answer_on(server)

    def answer_on(self, server: grpc.Server) -> None:
        """Answer on a further server too."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    def serving(self) -> None:
        """It takes calls from now on."""
        for name in ("", SERVICE):
            self._servicer.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stopping(self) -> None:
        """It takes no more."""
        self._servicer.enter_graceful_shutdown()

    def close(self) -> None:
        """No more calls come."""
        self._watch.close()
        self._pool.shutdown(wait=False)
