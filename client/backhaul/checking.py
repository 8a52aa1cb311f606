"""Derivatives compared with finite differences, for functions and ops of one's own."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from backhaul.any_tape import AnyTape
from backhaul.connection import Connection
from backhaul.handle import Handle
from backhaul.steps import run
from backhaul.tape import Tape
from backhaul.tensor import TrackedTensor
from backhaul_proto.catalog.avals import INEXACT
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.errors import make_error

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
T = TypeVar("T")

_EACH: Final = 32
"""Real numbers in an argument up to which each is tried alone; of larger ones, so many drawn at random."""
_TOLERANCE: Final = {4: 1e-2, 8: 1e-6}
_STEP: Final = {4: 1e-2, 8: 3e-4}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One derivative, as it was computed and as finite differences have it.

    Attributes:
        what: ``gradient``, ``H·v`` or ``symmetry of H``.
        where: the argument and element that it is of, or the direction.
        computed: by backhaul.
        expected: by differences; for the symmetry, the other order of the two directions.
        error: their difference, relative to the larger of 1 and the size of all that was compared.
    """

    what: str
    where: str
    computed: float
    expected: float
    error: float


@dataclass(frozen=True, slots=True)
class GradReport:
    """What `check_grad` found. It is true when all agrees, and prints the comparisons, worst first.

    Attributes:
        ok: whether every error is within the tolerance.
        tolerance: of each `Comparison.error`.
        comparisons: worst first.
    """

    ok: bool
    tolerance: float
    comparisons: tuple[Comparison, ...]

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        wrong = [each for each in self.comparisons if not each.error <= self.tolerance]
        head = (
            f"check_grad: all {len(self.comparisons)} derivatives agree with finite differences"
            if self.ok
            else f"check_grad: {len(wrong)} of {len(self.comparisons)} derivatives are wrong"
        )
        rows = [("", "at", "computed", "differences", "error")]
        rows += [
            (
                each.what,
                each.where,
                f"{each.computed:.8g}",
                f"{each.expected:.8g}",
                f"{each.error:.1e}",
            )
            for each in (wrong or self.comparisons)[:12]
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows
        ]
        return "\n".join([f"{head} (tolerance {self.tolerance:.0e})", *map(str.rstrip, lines)])


def check_grad(
    f: Function,
    *arrays: ArrayLike,
    order: int = 2,
    tolerance: float | None = None,
    seed: int = 0,
    connection: Connection | None = None,
) -> GradReport:
    """Compare the derivatives of a function with finite differences of its values and gradients.

    Of a result of several elements, or a complex one, Re sum(conj(c) * result) is taken with random c.
    Differences are central, extrapolated from two steps (Richardson); they know nothing of kinks, so choose
    points away from them.

    Args:
        f: takes as many tensors as there are arrays, and returns a tensor; or a tuple of them, of which
            those with a gradient are checked.
        arrays: where: float or complex arrays, or what NumPy makes one of.
        order: 1 for gradients; 2 for H·v and its symmetry as well.
        tolerance: of relative errors; left out: 1e-6, and 1e-2 when an array is of single precision.
        seed: of the random directions.
        connection: where to; left out: the default one.

    Returns:
        A report: true when all agrees, with the worst comparisons in its repr.

    Raises:
        InvalidArgument: an array is of no float or complex dtype, or f returns no tensor that depends on its
            arguments.
        HvpNotSupported: f has no second derivatives here; ``order=1`` asks for gradients only.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> report = bh.check_grad(lambda x, y: bh.sum(x * x * y), np.array([1.0, 2.0]), 3.0)
        >>> assert report, report
    """
    return run(grad_check(f, arrays, order, tolerance, seed, lambda: Tape(connection)), _itself)


Checking = Generator[Any, Any, T]
"""A check that yields the questions that it asks, and what it is sent are the answers."""


def _itself(answer: Any) -> Any:
    """What a question that is waited for gives is its answer."""
    return answer


def grad_check(
    f: Function,
    arrays: Sequence[ArrayLike],
    order: int,
    tolerance: float | None,
    seed: int,
    make_tape: Callable[[], AnyTape[Any]],
) -> Checking[GradReport]:
    """The work of `check_grad`: whatever asks the server, or may, is yielded."""
    if order not in (1, 2):
        raise make_error(
            "INVALID_VALUE", f"order is {order!r:.50}; it is 1 (gradients) or 2 (H·v as well)."
        )
    points = [_point(each, i) for i, each in enumerate(arrays)]
    if not points:
        raise make_error(
            "INVALID_VALUE", "check_grad was given no array to differentiate with respect to."
        )
    width = min(each.real.itemsize for each in points)
    trial = _Trial(f, points, seed, _STEP[width], make_tape())
    yield from trial.begin()
    found = yield from trial.gradient_comparisons()
    if order == 2:
        found += yield from trial.hessian_comparisons()
    limit = _TOLERANCE[width] if tolerance is None else tolerance
    found.sort(key=lambda each: -each.error if each.error == each.error else -np.inf)
    return GradReport(all(each.error <= limit for each in found), limit, tuple(found))


def _point(given: ArrayLike, position: int) -> Array:
    array = as_array(given, what=f"argument {position} of check_grad")
    if array.dtype not in INEXACT:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"Argument {position} of check_grad is of dtype {array.dtype}, which has no gradient. Convert "
            "it to float64, or let the function close over it.",
            operand=position,
            actual=array.dtype,
        )
    return array


class _Trial:
    """A function at a point: its values and gradients beside it, each kind asked for in few trips."""

    def __init__(
        self,
        f: Function,
        points: Sequence[Array],
        seed: int,
        step: float,
        tape: Any,
    ) -> None:
        self._f = f
        self._points = points
        self._rng = np.random.default_rng(seed)
        self._tape = tape
        self._weights: list[Array] = []
        scale = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in points)])
        self._step = step * min(scale, 1e3)
        self._leaves = [self._tape.leaf(x) for x in points]
        self._loss: Any = None
        self._gradients: Any = None

    def begin(self) -> Checking[None]:
        """Take the gradients at the point."""
        self._loss = yield from self._weighted(self._leaves)
        self._gradients = yield self._tape.pullback(self._loss, wrt=self._leaves)

    def gradient_comparisons(self) -> Checking[list[Comparison]]:
        """Each element of the gradient, or many of them, and one direction through all."""
        directions = [("all arguments, along a random v", self._direction())]
        for i in range(len(self._points)):
            directions += self._elements(i)
        expected = yield from self._differenced([d for _, d in directions])
        computed = [self._along(self._gradients, d) for _, d in directions]
        return _compared("gradient", [w for w, _ in directions], computed, expected)

    def hessian_comparisons(self) -> Checking[list[Comparison]]:
        """H·v of a random v, element by element, against differenced gradients; and its symmetry."""
        u, v = self._direction(), self._direction()
        pair = [dict(zip(self._leaves, each, strict=True)) for each in (u, v)]
        along_u, along_v = yield self._tape.hvp(self._loss, tangents=pair, wrt=self._leaves)
        both = [(w, d) for i in range(len(self._points)) for w, d in self._elements(i)]
        expected = yield from self._differenced_gradients(v)
        computed = [self._along(along_v.hvp, d) for _, d in both]
        found = _compared(
            "H·v", [w for w, _ in both], computed, [_dot(expected, d) for _, d in both]
        )
        left, right = self._along(along_u.hvp, v), self._along(along_v.hvp, u)
        return found + _compared("symmetry of H", ["random u, v"], [left], [right])

    # Directions

    def _direction(self) -> list[Array]:
        return [_normal(self._rng, each) for each in self._points]

    def _elements(self, argument: int) -> list[tuple[str, list[Array]]]:
        """Directions along single elements of an argument, real and imaginary parts apart."""
        x = self._points[argument]
        parts = ["", "imaginary part of "] if x.dtype.kind == "c" else [""]
        places = [(i, part) for i in range(x.size) for part in parts]
        if len(places) > _EACH:
            chosen = self._rng.choice(len(places), _EACH, replace=False)
            places = [places[k] for k in sorted(chosen)]
        found = []
        for i, part in places:
            direction = [np.zeros_like(each) for each in self._points]
            index = np.unravel_index(i, x.shape)
            direction[argument][index] = 1j if part else 1.0
            at = f"[{', '.join(map(str, index))}]" if index else ""
            found.append((f"{part}argument {argument}{at}", direction))
        return found

    # Values and gradients elsewhere

    def _weighted(self, leaves: Sequence[TrackedTensor]) -> Checking[TrackedTensor]:
        from backhaul import real, sum

        results = yield self._f(*leaves)
        listed = list(results) if isinstance(results, tuple | list) else [results]
        listed = [
            each for each in listed if isinstance(each, Handle) and each._node_type.requires_grad
        ]
        if not listed:
            raise make_error(
                "INVALID_VALUE",
                f"The function returned {results!r:.100}: no tensor that depends on its arguments.",
            )
        if not self._weights:
            self._weights = [
                np.ones(each.shape, each.dtype)
                if each.size == 1 and each.dtype.kind != "c"
                else _normal(self._rng, np.empty(each.shape, each.dtype))
                for each in listed
            ]
        total: Any = None
        for each, weight in zip(listed, self._weights, strict=True):
            term = sum(real(each * np.conj(weight)))
            total = term if total is None else total + term
        result: TrackedTensor = total
        return result

    def _moved(self, direction: Sequence[Array], step: float) -> list[TrackedTensor]:
        return [
            self._tape.leaf(np.asarray(x + step * d).astype(x.dtype))
            for x, d in zip(self._points, direction, strict=True)
        ]

    def _differenced(self, directions: Sequence[Sequence[Array]]) -> Checking[list[float]]:
        h = self._step
        losses = []
        for direction in directions:
            for step in (h, -h, h / 2, -h / 2):
                losses.append((yield from self._weighted(self._moved(direction, step))))
        fetched = yield self._tape._fetched(*losses)
        values = np.array([float(np.reshape(each, ())) for each in fetched]).reshape(-1, 4)
        return [_extrapolated(each, h) for each in values.tolist()]

    def _differenced_gradients(self, direction: Sequence[Array]) -> Checking[list[Array]]:
        h = self._step
        found = []
        for step in (h, -h, h / 2, -h / 2):
            leaves = self._moved(direction, step)
            loss = yield from self._weighted(leaves)
            gradients = yield self._tape.pullback(loss, wrt=leaves)
            found.append([gradients[leaf] for leaf in leaves])
        return [np.asarray(_extrapolated(each, h)) for each in zip(*found, strict=True)]

    def _along(self, gradients: Any, direction: Sequence[Array]) -> float:
        return _dot([gradients[leaf] for leaf in self._leaves], direction)


def _extrapolated(values: Sequence[Any], h: float) -> Any:
    """Richardson's: the error of central differences is c h², which two steps tell.

    ``values`` are those at h, -h, h/2 and -h/2.
    """
    ahead, behind, near_ahead, near_behind = values
    return (4 * (near_ahead - near_behind) / h - (ahead - behind) / (2 * h)) / 3


def _compared(
    what: str, places: Sequence[str], computed: Sequence[float], expected: Sequence[float]
) -> list[Comparison]:
    scale = max([1.0, *(abs(each) for each in expected if np.isfinite(each))])
    return [
        Comparison(what, where, c, e, 0.0 if c == e else abs(c - e) / scale)
        for where, c, e in zip(places, computed, expected, strict=True)
    ]


def _dot(a: Sequence[Array], b: Sequence[Array]) -> float:
    """The real inner product, Re sum(conj(a) b)."""
    return float(sum(np.vdot(x, y).real for x, y in zip(a, b, strict=True)))


def _normal(rng: np.random.Generator, like: Array) -> Array:
    x: Any = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        x = x + 1j * rng.standard_normal(like.shape)
    return np.asarray(x).astype(like.dtype)
