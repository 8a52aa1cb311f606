"""The standard health service, on a port of its own for probes: in the clear, and with nothing else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc

from backhaul_proto.errors import make_error
from backhaul_server.service.health import Health

_THREADS: Final = 2
"""Checks take no time, and watches hold no thread."""


class HealthPort:
    """Answers probes on a port of its own, whatever goes on in the service.

    Args:
        health: what it tells.
        address: ``host:port``; port 0: any free one.

    Raises:
        InvalidArgument: INVALID_TARGET, an address that cannot be listened on.
    """

    def __init__(self, health: Health, address: str) -> None:
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, "backhaul-health"), options=[("grpc.so_reuseport", 0)]
        )
        health.answer_on(self._server)
        self.target = f"grpc://{address.rpartition(':')[0]}:{listen(self._server, address)}"

    def start(self) -> None:
        """Answer from now on."""
        self._server.start()

    def stop(self) -> None:
        """Answer no longer."""
        self._server.stop(None)


def listen(
    server: grpc.Server, address: str, credentials: grpc.ServerCredentials | None = None
) -> int:
    """Have a gRPC server listen, in the clear without credentials: the port, or 1 for a unix socket.

    Raises:
        InvalidArgument: INVALID_TARGET.
    """
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError:
        port = 0
    if not port:
        certificate = "; or gRPC cannot use the certificate, which it says on stderr"
        raise make_error(
            "INVALID_TARGET",
            f"Cannot listen on {address}: it is in use by another program, or is no address of this "
            f"machine{certificate if credentials else ''}. Choose another port (0 takes any free one) or "
            "host.",
            actual=address,
        )
    return port
