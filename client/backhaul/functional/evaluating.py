"""Values of functions, computed on the server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from backhaul.functional.applying import applied
from backhaul.functional.arguments import taken_apart
from backhaul.functional.goals import Function, Results, Values
from backhaul.functional.kept_programs import Programs
from backhaul.functional.pytrees import flatten
from backhaul.functional.sets import failed_sets, nan_like
from backhaul.functional.tapes import Asking, Watched, Work
from backhaul.handle import Handle
from backhaul_proto.errors import AutodiffError, make_error

Array = np.ndarray[Any, Any]


class OneCall(NamedTuple):
    """The arguments of one of several calls.

    Attributes:
        args: positional ones.
        kwargs: those by name.
        passing: ids of arrays that are of this call alone.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    passing: frozenset[int] = frozenset()


Calls = Sequence[OneCall]


def check_function(f: Any, name: str) -> None:
    """Raise InvalidArgument (INVALID_VALUE) for what cannot be called."""
    if not callable(f):
        raise make_error("INVALID_VALUE", f"{name}: {f!r:.100} is no function.")


def holds_tensor(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether there is a tensor among these arguments."""
    return any(isinstance(each, Handle) for each in flatten((tuple(args), dict(kwargs)))[0])


def nodes_of(leaves: Iterable[Any]) -> tuple[int, ...]:
    """The nodes of the tensors among these."""
    return tuple(dict.fromkeys(each._id for each in leaves if isinstance(each, Handle)))


class Fetched:
    """Values that came, by node; each is handed out as an array of the caller's own.

    Args:
        nodes: the nodes.
        values: theirs.
    """

    def __init__(self, nodes: Sequence[int], values: Sequence[Array]) -> None:
        self._values = dict(zip(nodes, values, strict=True))
        self._handed: set[int] = set()

    def of(self, leaf: Any) -> Any:
        """The value of a tensor; anything else as it is."""
        if not isinstance(leaf, Handle):
            return leaf
        value = self._values[leaf._id]
        if leaf._id in self._handed:
            return value.copy()
        self._handed.add(leaf._id)
        return value

    def outputs(self, results: Results) -> Any:
        """The result of a function."""
        return results.tree.unflatten([self.of(each) for each in results.outputs])

    def aux(self, results: Results) -> Any:
        """Its auxiliary data."""
        return results.aux_tree.unflatten([self.of(each) for each in results.aux])


class Evaluation:
    """A function that is computed on the server.

    Args:
        function: the function.
        programs: what is kept of it.
    """

    def __init__(self, function: Function, programs: Programs | None) -> None:
        self._goal = Values(function, False, getattr(function, "__name__", "jit"))
        self._programs = programs

    def work(
        self, tape: Watched[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work[Any]:
        """One call."""
        (result,) = yield from self.batch(tape, [OneCall(args, kwargs)])
        return result

    def batch(self, tape: Watched[Any], calls: Calls, *, nan: bool = False) -> Work[list[Any]]:
        """Several calls in one round trip."""
        name = self._goal.name
        recorded = [
            applied(
                tape,
                self._goal,
                self._programs,
                taken_apart((), each.args, each.kwargs, name, each.passing),
            )
            for each in calls
        ]
        found = [each.results for each in recorded]
        spent = [] if nan else [x for each in recorded for x in each.spent()]
        nodes = nodes_of(x for each in found for x in each.outputs)
        failed: set[int] = set()
        values: Sequence[Array] = ()
        if nodes:
            try:
                values = (yield Asking(nodes, None, spent)).values
            except AutodiffError as error:
                failed = failed_sets(tape, [each.outputs for each in found], error, nan=nan)
                inexact = (
                    isinstance(x, Handle) and x._node_type.aval.inexact
                    for i in failed
                    for x in found[i].outputs
                )
                if not all(inexact):
                    raise  # there is no NaN among integers
        sound = [each for i, each in enumerate(found) if i not in failed]
        if failed:
            nodes = nodes_of(x for each in sound for x in each.outputs)
            values = (yield Asking(nodes)).values if nodes else ()
        fetched = Fetched(nodes, values)
        return [
            each.tree.unflatten([nan_like(x) for x in each.outputs])
            if i in failed
            else fetched.outputs(each)
            for i, each in enumerate(found)
        ]
