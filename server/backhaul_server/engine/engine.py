"""An engine: one array namespace, the ops on it, and calls prepared for their operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from backhaul_proto.catalog import ops as catalog
from backhaul_proto.catalog.avals import FLOAT64, Aval, aval
from backhaul_proto.catalog.ops import Attributes, Op
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.kept_calls import kept_by_size
from backhaul_server.engine import ops
from backhaul_server.engine.arrays import Namespace, numpy_namespace
from backhaul_server.engine.dual import DualFunctions
from backhaul_server.engine.functions import Functions
from backhaul_server.engine.lanes import Lane
from backhaul_server.engine.memory import Need, Room, with_casts
from backhaul_server.engine.rules import RULES, Array, Rule

assert ops.__all__  # importing the package is what fills RULES


class Interruptible:
    """While this is entered a function is called between the array operations of this thread.

    A class, since a generator in its place would take a microsecond of each call.
    """

    __slots__ = ("_before", "_checkpoint", "_xp")

    def __init__(self, xp: Namespace, checkpoint: Callable[[], None]) -> None:
        self._xp = xp
        self._checkpoint = checkpoint

    def __enter__(self) -> None:
        xp = self._xp
        self._before, xp.checkpoint = xp.checkpoint, self._checkpoint

    def __exit__(self, *_: object) -> None:
        self._xp.checkpoint = self._before


@dataclass(frozen=True, slots=True, eq=False)
class PreparedCall:
    """An op with its attributes, worked out for operands of given avals: what a step runs.

    Attributes:
        name: the op's name.
        keeps: whether forward takes ``needs`` and gives a residual beside the result.
        forward: the rule's forward on the engine's namespace with these keywords.
        jvp: the rule's jvp with these keywords; None when it has none.
        cotangents: the rule's cotangents with these keywords.
        results: avals of the results.
        exact: whether cotangents have their operands' shapes and dtypes whatever the rule does.
        casts: for each operand the dtype that it is brought to first, or None; empty when none is.
        differentiable: for each result, whether it requires a gradient when an operand does.
        flows: whether any result does.
        several: whether forward gives a tuple of results.
        need: the memory that it takes.
    """

    name: str
    keeps: bool
    forward: Callable[..., Any]
    jvp: Callable[..., Any] | None
    cotangents: Callable[..., Any]
    results: tuple[Aval, ...]
    exact: bool
    casts: tuple[np.dtype | None, ...]
    differentiable: tuple[bool, ...]
    flows: bool
    several: bool
    need: Need


def _need(
    found: Rule,
    operands: tuple[Aval, ...],
    results: tuple[Aval, ...],
    casts: Sequence[np.dtype | None],
    keywords: Mapping[str, Any],
) -> Need:
    """What a rule needs, on operands that were cast first."""
    if not casts:
        return found.need(operands, results, **keywords)
    cast = tuple(
        each if dtype is None else aval(each.shape, dtype)
        for each, dtype in zip(operands, casts, strict=True)
    )
    made = sum(each.nbytes for each, dtype in zip(cast, casts, strict=True) if dtype is not None)
    return with_casts(found.need(cast, results, **keywords), made)


def _binder(keywords: Mapping[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Binds these keywords to a function; without any it is left as it is, which is faster."""

    def bind(function: Callable[..., Any]) -> Callable[..., Any]:
        return partial(function, **keywords) if keywords else function

    return bind


def _casts(entry: Op, avals: tuple[Aval, ...]) -> tuple[np.dtype | None, ...]:
    """For each operand the dtype to bring it to first; empty when there is nothing to bring.

    Among inexact dtypes the rules' own arithmetic promotes; integers and bools do not reach it.
    """
    taken = [entry.promotes_operand(i) or not entry.promotes for i in range(len(avals))]
    inside = [each for each, take in zip(avals, taken, strict=True) if take]
    if not inside or not (entry.promotes or entry.floating):
        return ()
    dtype = promote(*inside)
    if entry.floating and dtype.kind not in "fc":
        dtype = FLOAT64
    if dtype.kind not in "fc" or all(each.inexact for each in inside):
        return ()
    return tuple(
        dtype if take and not each.inexact else None
        for each, take in zip(avals, taken, strict=True)
    )


class Engine:
    """Runs and differentiates ops on one array namespace. Safe to share between threads.

    Args:
        namespace: the arrays' library; NumPy for None.
        keep_bytes: how much of an einsum's intermediates is kept for its derivatives at most; what is
            more is computed again there. None keeps all.
        work_bytes: how much an einsum may take in all; one that would take more is computed in slices.
            None computes all as a whole.

    Attributes:
        room: the two.
    """

    def __init__(
        self,
        namespace: Namespace | None = None,
        keep_bytes: int | None = None,
        work_bytes: int | None = None,
    ) -> None:
        self.xp = namespace or numpy_namespace()
        self.room = Room(keep_bytes, work_bytes)
        self.plain = Functions(self.xp)
        self.duals = DualFunctions(self.plain)
        self.prepare_bound = kept_by_size(16384, catalog.weigh_call)(self._prepare)

    def prepare(
        self, name: str, attributes: Mapping[str, Any], avals: tuple[Aval, ...]
    ) -> PreparedCall:
        """The call of a public op.

        Raises:
            InvalidArgument: no such op (UNKNOWN_OP), attributes or operands that cannot be right.
        """
        entry = catalog.get(name)
        return self.prepare_bound(entry, catalog.bind(entry, attributes), avals)

    def _prepare(self, entry: Op, attributes: Attributes, avals: tuple[Aval, ...]) -> PreparedCall:
        results = catalog.infer(entry, attributes, avals)
        casts = _casts(entry, avals)
        found, keywords = RULES[entry.name].prepare_within(self.room, avals, dict(attributes))
        with_keywords = _binder(keywords)
        return PreparedCall(
            entry.name,
            found.keeps,
            found.call(self.xp, **keywords),
            None if found.jvp is None else with_keywords(found.jvp),
            with_keywords(found.cotangents),
            results,
            all(each is results[0] for each in (*avals, *results)),
            casts,
            tuple(entry.differentiable and each.inexact for each in results),
            entry.differentiable and any(each.inexact for each in results),
            entry.several,
            _need(found, avals, results, casts, keywords),
        )

    def interruptible(
        self, checkpoint: Callable[[], None], lane: Lane | None = None
    ) -> AbstractContextManager[None]:
        """Within it, ``checkpoint`` is called between array operations, and may raise to stop the work.

        Args:
            checkpoint: called.
            lane: what the arrays of the work are bound to (`Namespace.lane`).
        """
        within = Interruptible(self.xp, checkpoint)
        return within if lane is None else lane.around(within)

    def cast(self, value: Array, dtype: np.dtype) -> Array:
        """The array in another dtype."""
        return self.xp.astype(value, dtype)

    def aval(self, value: Array) -> Aval:
        """The array's shape and dtype."""
        return aval(value.shape, self.xp.numpy_dtype(value.dtype))

    def array(self, host: np.ndarray[Any, Any]) -> Array:
        """The engine's array with the numbers of one of NumPy's; it may be the same memory."""
        return self.xp.from_host(host)

    def host(self, value: Array) -> np.ndarray[Any, Any]:
        """The array as a NumPy array in C order; it may be the engine's own memory."""
        return self.xp.to_host(value)
