"""Limits that a user gives."""

from __future__ import annotations

import math
import operator
from numbers import Real
from typing import Any, Final

from backhaul_proto.errors import make_error

_MAX: Final = 2**63 - 1


def byte_limit(
    given: Any, name: str = "memory_limit", left_out: str = "what the server allows"
) -> int:
    """A limit such as ``memory_limit=`` as a number of bytes.

    Args:
        given: what was given.
        name: the argument's.
        left_out: what None stands for.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    limit = _whole_number(given)
    if limit < 1:
        raise make_error(
            "INVALID_VALUE",
            f"{name} is {given!r:.100}; it is a whole number of bytes above 0, such as 256 << 20 "
            f"for 256 MiB, or None for {left_out}.",
            actual=f"{given!r:.100}",
        )
    return min(limit, _MAX)


def device_name(given: Any) -> str:
    """``device=`` as a name; which there are, the server knows.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    if not isinstance(given, str) or not given:
        raise make_error(
            "INVALID_VALUE",
            f"device is {given!r:.100}; it is the name of one of the server's devices, such as 'cpu' or "
            "'cuda:0' (connection.info().devices lists them), or None for the server's default.",
            actual=f"{given!r:.100}",
        )
    return given


def lease_seconds(given: Any) -> float:
    """``lease=`` as a number of seconds.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    seconds = float(given) if is_number else 0.0
    if not 0 < seconds < math.inf:
        raise make_error(
            "INVALID_VALUE",
            f"lease is {given!r:.100}; it is a finite number of seconds above 0, such as 30, or None for "
            "what the server allows.",
            actual=f"{given!r:.100}",
        )
    return seconds


def node_count(given: Any) -> int:
    """``max_nodes=`` as a number of nodes.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    count = _whole_number(given)
    if count < 1:
        raise make_error(
            "INVALID_VALUE",
            f"max_nodes is {given!r:.100}; it is a whole number of nodes above 0.",
            actual=f"{given!r:.100}",
        )
    return count


def _whole_number(given: Any) -> int:
    """What was given as an integer; 0 for what is none."""
    try:
        return 0 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        return 0
