"""The server's own code in this process: the same messages, no socket, arrays by reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backhaul.targets import Target
from backhaul.transport import Reply, Transport
from backhaul_proto import codec
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.workers.call import Call

Array = np.ndarray[Any, Any]


class EmbeddedTransport(Transport):
    """A server with sessions and a worker thread of its own, that ends with the connection."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._dispatcher = Dispatcher.local()

    def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        response, arrays = self._dispatcher.call(method, header, tensors, call=Call(timeout))
        # They may be the server's own memory.
        return codec.parse(reply, response), [array.copy() for array in arrays]

    def _close(self) -> None:
        self._dispatcher.close()
