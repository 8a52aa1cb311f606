"""The server's own code in this process, awaited: threads of a pool wait for its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from backhaul.targets import Target
from backhaul.transport import Reply
from backhaul.transport.aio import AsyncTransport
from backhaul_proto import codec
from backhaul_server.service.dispatch import Dispatcher, guarded, request_type
from backhaul_server.workers.call import Call, deadline_exceeded

Array = np.ndarray[Any, Any]

_THREADS: Final = 64  # calls that may be in the server at once, as in `backhaul serve`


class AsyncEmbeddedTransport(AsyncTransport):
    """A server with sessions and a worker thread of its own. To make it takes long: not in the loop."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._dispatcher = Dispatcher.local()
        self._threads = ThreadPoolExecutor(_THREADS, "backhaul-call")

    async def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        call = Call(timeout)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):  # it may wait for a thread, too
                return await loop.run_in_executor(
                    self._threads, self._answer, method, header, tensors, reply, call
                )
        except asyncio.CancelledError:
            call.cancel()
            raise
        except TimeoutError:
            call.cancel()
            raise deadline_exceeded() from None

    def _answer(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        call: Call,
    ) -> tuple[Reply, Sequence[Array]]:
        """Runs on a thread of the pool."""
        response, arrays = guarded(
            method,
            lambda: self._dispatcher.answer(
                method, codec.parse(request_type(method), header), tensors, "", call
            ),
        )
        # They may be the server's own memory.
        return codec.parse(reply, response), [array.copy() for array in arrays]

    async def _close(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._dispatcher.close)
        self._threads.shutdown(wait=False)

    def abandon(self) -> None:
        self._threads.submit(self._dispatcher.close)
        self._threads.shutdown(wait=False)
