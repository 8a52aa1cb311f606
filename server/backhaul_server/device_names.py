"""Names of devices: ``cpu``, the host, and ``cuda:0``, ``cuda:1``, ... as nvidia-smi counts them."""

from __future__ import annotations

import re
from typing import Final

from backhaul_proto.errors import make_error

HOST: Final = "cpu"
"""The name of the host, which every server has."""

_CUDA: Final = re.compile(r"cuda:(0|[1-9][0-9]{0,2})")


def cuda_number(name: str) -> int:
    """The number of a GPU from its name.

    Raises:
        InvalidArgument: UNKNOWN_DEVICE for what is no such name.
    """
    found = _CUDA.fullmatch(name)
    if found is None:
        raise make_error(
            "UNKNOWN_DEVICE",
            f"{name!r:.100} is the name of no device. Devices are {HOST} and, as nvidia-smi counts them, "
            "cuda:0, cuda:1, ...",
            device=name[:100],
        )
    return int(found[1])


def checked_names(listed: str) -> str:
    """A list of devices such as ``"cuda:0,cpu"``, as it is.

    Raises:
        ValueError: one is no device's name, or is there twice; or there is none.
    """
    names = listed.split(",")
    for each in names:
        if each != HOST and _CUDA.fullmatch(each) is None:
            raise ValueError(f"{each!r} is no device; devices are {HOST}, cuda:0, cuda:1, ...")
    if len(set(names)) != len(names):
        raise ValueError("a device is named twice")
    return listed
