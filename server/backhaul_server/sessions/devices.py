"""The devices of a server, and what sessions have of each: engines, and memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock

from backhaul_proto.errors import make_error
from backhaul_proto.messages import DeviceInfo
from backhaul_server.sessions.engines import Engines
from backhaul_server.sessions.pool import Pool


@dataclass(frozen=True, slots=True)
class Device:
    """Where sessions compute.

    Attributes:
        name: such as ``"cpu"`` or ``"cuda:0"``.
        model: what it is, for people.
        engines: what computes there, and what a session may use.
        pool: its memory.
    """

    name: str
    model: str
    engines: Engines
    pool: Pool

    def info(self) -> DeviceInfo:
        """What clients are told of it."""
        pool = self.pool
        return DeviceInfo(
            self.name,
            self.engines.backend,
            self.model,
            self.engines.limit,
            pool.limit,
            pool.used,
        )


class Devices:
    """The devices by name. Safe to use from any thread.

    Args:
        host: the host.
        others: what there is beside it.
        default: name of the one that a session gets which asks for none; empty: the host.
        more: makes a device that is not there yet; it refuses names that are none. None: there are no more.

    Raises:
        InvalidArgument: UNKNOWN_DEVICE for the default.
    """

    def __init__(
        self,
        host: Device,
        others: Sequence[Device] = (),
        default: str = "",
        more: Callable[[str], Device] | None = None,
    ) -> None:
        self.host = host
        self._lock = Lock()
        self._more = more
        self._by_name = {each.name: each for each in (host, *others)}
        self.default = self.find(default) if default else host

    def __iter__(self) -> Iterator[Device]:
        """The default, then the others in their order."""
        yield self.default
        yield from [each for each in list(self._by_name.values()) if each is not self.default]

    def find(self, name: str) -> Device:
        """The device of a name; the default for an empty one.

        Raises:
            InvalidArgument: UNKNOWN_DEVICE; DEVICE_UNAVAILABLE for one that cannot be used.
        """
        if not name:
            return self.default
        found = self._by_name.get(name)
        if found is not None:
            return found
        if self._more is None:
            names = ", ".join(self._by_name)
            raise make_error(
                "UNKNOWN_DEVICE",
                f"The server has no device {name!r:.100}; it has {names}. Ask for one of these "
                "(Tape(device=...)), or start the server with more (backhaul serve --devices cpu,cuda:0).",
                device=name[:100],
                devices=names,
            )
        with self._lock:
            if name not in self._by_name:
                self._by_name[name] = self._more(name)
        return self._by_name[name]
