"""A server with a device beside the host: array-api-strict's second one, whose traffic is counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import array_api_strict
import numpy as np
from tests.server.engine.strict import ON_HOST

from backhaul_server.accelerators import Accelerator
from backhaul_server.engine.array_api import ArrayApiNamespace
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.lanes import Lane
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

Array = np.ndarray[Any, Any]
NAME = "strict:1"


class CountedNamespace(ArrayApiNamespace):
    """The second device. From it nothing is read, and to it nothing put, but through here.

    Attributes:
        sent: shapes of what went there.
        fetched: shapes of what came back.
        lanes: made so far, each with what happened in it.
        failure: raised at the end of work in a lane, when there is one.
        no_lane: raised in place of a new lane, when there is one.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[int, ...]] = []
        self.fetched: list[tuple[int, ...]] = []
        self.lanes: list[CountedLane] = []
        self.no_lane: Exception | None = None
        self.failure: Exception | None = None
        super().__init__(array_api_strict, ON_HOST, array_api_strict.Device("device1"))

    def from_host(self, x: Array) -> Any:
        self.sent.append(x.shape)
        return super().from_host(x)

    def to_host(self, x: Any) -> Array:
        self.fetched.append(x.shape)
        return super().to_host(x)

    def lane(self) -> Lane:
        if self.no_lane is not None:
            raise self.no_lane
        self.lanes.append(CountedLane(self))
        return self.lanes[-1]


class CountedLane:
    """A lane that knows when it was entered and left.

    Attributes:
        turns: how often it was entered.
    """

    def __init__(self, xp: CountedNamespace) -> None:
        self._xp = xp
        self.turns = 0

    @contextmanager
    def around(self, within: AbstractContextManager[None]) -> Iterator[None]:
        self.turns += 1
        with within:
            yield
        failure, self._xp.failure = self._xp.failure, None
        if failure is not None:
            raise failure


class TwoDevices:
    """A server with the host and the second device.

    Attributes:
        xp: the second device's arrays.
        dispatcher: what answers.
        target: where the server is.
    """

    def __init__(
        self, *, device_memory: int = 1 << 30, address: str = "127.0.0.1:0", **settings: Any
    ) -> None:
        self.xp = CountedNamespace()
        second = Accelerator(NAME, "array-api-strict", self.xp, device_memory)
        self.dispatcher = Dispatcher(Engine(), accelerators=[second], **settings)
        self.server = Server(self.dispatcher, [address])
        self.server.start()
        self.target = self.server.targets[0]


@contextmanager
def two_devices(
    *, device_memory: int = 1 << 30, address: str = "127.0.0.1:0", **settings: Any
) -> Iterator[TwoDevices]:
    """Such a server, stopped at the end.

    Args:
        device_memory: of the second device.
        address: where it listens.
        settings: of the dispatcher.
    """
    made = TwoDevices(device_memory=device_memory, address=address, **settings)
    try:
        yield made
    finally:
        made.server.stop(None)
