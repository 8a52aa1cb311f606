"""What ``optimize=`` of an einsum takes: NumPy's and opt_einsum's names of searches for an order."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from backhaul_proto.catalog.einsum.notation import Ints
from backhaul_proto.errors import BackhaulError, make_error

AUTO: Final = "auto"
NAIVE: Final = "naive"

LIMITS: Final[Mapping[str, int | None]] = {
    AUTO: None,
    "auto-hq": None,
    NAIVE: None,
    "greedy": None,
    "random-greedy": None,
    "random-greedy-128": None,
    "branch-1": 64,
    "branch-2": 14,
    "branch-all": 7,
    "dp": 25,
    "optimal": 14,
    "cotengra": None,
}
"""The searches, and of how many operands each can take at most: a server has one thread for all."""

_ALIASES: Final[Mapping[str, str]] = {
    "eager": "greedy",
    "opportunistic": "greedy",
    "dynamic-programming": "dp",
}


def read_optimize(given: object) -> tuple[str | None, Any]:
    """The attributes ``optimize`` and ``path`` that an argument ``optimize=`` stands for.

    Args:
        given: True, False, a name, or a path as opt_einsum and NumPy (``["einsum_path", (0, 1)]``) make it.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE.
    """
    if given is None or isinstance(given, bool | np.bool_):
        return (NAIVE if given is not None and not given else None), None
    if isinstance(given, str):
        return search_name(given), None
    if isinstance(given, Sequence):
        path = list(given)
        if path and isinstance(path[0], str) and path[0] == "einsum_path":
            return None, path[1:]
        if path and isinstance(path[0], str):
            raise make_error(
                "INVALID_ATTRIBUTE",
                f"einsum: optimize={given!r:.100} limits the size of what lies between, which no search "
                f"here does. Give the name alone, optimize={path[0]!r:.40}: dear arrays are avoided anyway.",
                op="einsum",
                attribute="optimize",
            )
        return None, path
    raise make_error(
        "INVALID_ATTRIBUTE",
        f"einsum: optimize= is {given!r:.100}; it is True, False, the name of a search or a path. The order "
        "of an optimizer of your own is given as a path: optimize=opt_einsum.contract_path(...)[0].",
        op="einsum",
        attribute="optimize",
    )


def search_name(given: str) -> str:
    """The one name of a search that has several.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE, with the nearest names.
    """
    lower = given.lower()
    name = _ALIASES.get(lower, lower)
    if name in LIMITS:
        return name
    names = [*LIMITS, *_ALIASES]
    near = difflib.get_close_matches(lower, names, n=3, cutoff=0.5)
    hint = (
        f"Did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"There are {', '.join(names)}."
    )
    raise make_error(
        "INVALID_ATTRIBUTE",
        f"einsum: there is no search for an order named {given!r:.60}. {hint}",
        op="einsum",
        attribute="optimize",
        actual=f"{given:.60}",
    )


def check_search(given: str | None, groups: Iterable[Ints]) -> str | None:
    """The search for the order within these groups; None for the one that is taken by default.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE: an unknown name, or too many operands for an exhaustive search.
    """
    if given is None:
        return None
    name = search_name(given)
    most = max(map(len, groups), default=0)
    limit = LIMITS[name]
    if limit is not None and most > limit:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"einsum: optimize={name!r} tries so many orders that it takes at most {limit} operands, here "
            f"it has {most}. Leave optimize= out or take 'auto-hq'; or find a path where you are and give "
            "that.",
            op="einsum",
            attribute="optimize",
            expected=f"at most {limit}",
            actual=most,
        )
    return None if name == AUTO or most < 3 else name


def path_and_optimize() -> BackhaulError:
    """The error for two ways to say the order."""
    return make_error(
        "INVALID_ATTRIBUTE",
        "einsum: path= fixes the order and optimize= says how to find one. Leave one of them out.",
        op="einsum",
        attribute="optimize",
    )
