"""Devices beside the host, by name: opened on this machine, and made a part of a server."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from backhaul_server.device_names import HOST, cuda_number
from backhaul_server.engine.arrays import Namespace
from backhaul_server.engine.engine import Engine
from backhaul_server.sessions.accounts import Quotas
from backhaul_server.sessions.devices import Device
from backhaul_server.sessions.engines import Engines
from backhaul_server.sessions.pool import Pool

_UNBOUNDED: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device that was opened.

    Attributes:
        name: such as ``"cuda:0"``.
        model: what it is, for people.
        xp: its arrays.
        memory: bytes that all sessions may use there together.
    """

    name: str
    model: str
    xp: Namespace
    memory: int


def device_of(opened: Accelerator, session_memory: int | None, quotas: Quotas) -> Device:
    """The device as a server has it.

    Args:
        opened: the device.
        session_memory: bytes that a session may use; None: five eighths of what all may, as on the host.
        quotas: the server's. Sessions are counted by the host's pool, memory by each for itself.
    """
    own = replace(quotas, principal_sessions=_UNBOUNDED, sessions=_UNBOUNDED)
    pool = Pool(opened.memory, own, device=opened.name)
    of_one = opened.memory * 5 // 8 if session_memory is None else session_memory
    engines = Engines(Engine(opened.xp), min(of_one, pool.of_one_principal))
    return Device(opened.name, opened.model, engines, pool)


def open_accelerator(name: str, memory: int | None = None) -> Accelerator:
    """Open a device of this machine.

    Args:
        name: ``"cuda:0"``, ``"cuda:1"``, ...
        memory: bytes that all sessions may use there together; None: four fifths of what is free there.

    Raises:
        InvalidArgument: UNKNOWN_DEVICE for what is no such name; DEVICE_UNAVAILABLE when CuPy, a driver or
            the device is missing.
    """
    number = cuda_number(name)
    from backhaul_server.engine.cupy_devices import open_cuda

    opened = open_cuda(number, memory)
    return Accelerator(name, opened.model, opened.xp, opened.memory)


def open_all(names: Sequence[str], memory: int | None) -> list[Accelerator]:
    """Open the devices of these names, but for the host.

    Raises:
        InvalidArgument: DEVICE_UNAVAILABLE.
    """
    return [open_accelerator(each, memory) for each in names if each != HOST]


def host_model() -> str:
    """What the host is, for people."""
    return platform.machine()
