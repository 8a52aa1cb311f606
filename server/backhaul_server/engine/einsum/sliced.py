"""An einsum in slices: its value, its derivative forward, and its derivative backward.

The slices are run one after the other, always in the same order, so that the same bits come out each time.
Nothing is kept between them but the sums: the reverse computes a slice again, with what its derivatives
need, and then goes back through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backhaul_server.engine.dual import Dual, DualFunctions, dual, tangent_of, value_of
from backhaul_server.engine.einsum import passes
from backhaul_server.engine.einsum.plan import Plan
from backhaul_server.engine.einsum.slicing import Cuts, Slicing
from backhaul_server.engine.rules import Array, Namespace

Ranges = Sequence[slice]


class _Sum:
    """The sum of the slices' arrays; where the array is cut, they stand side by side. None is zero."""

    def __init__(self, xp: Any, shape: tuple[int, ...], cuts: Cuts) -> None:
        self._xp = xp
        self._shape = shape
        self._cuts = cuts
        self.array: Array | None = None

    def add(self, part: Array | None, ranges: Ranges) -> None:
        """Add a slice's."""
        if part is None:
            return
        if not self._cuts:
            # The first may be memory of an operand's: what is added to has to be our own.
            self.array = (
                self._xp.copy(part) if self.array is None else passes.added(self.array, part)
            )
            return
        if self.array is None:
            self.array = self._xp.zeros(self._shape, dtype=part.dtype)
        self.array[_index(self._shape, self._cuts, ranges)] += part


class _DualSum:
    """The same of values and tangents."""

    def __init__(self, xp: Any, shape: tuple[int, ...], cuts: Cuts) -> None:
        self._value = _Sum(xp, shape, cuts)
        self._tangent = _Sum(xp, shape, cuts)

    def add(self, part: Array | Dual | None, ranges: Ranges) -> None:
        """Add a slice's."""
        if part is not None:
            self._value.add(value_of(part), ranges)
            self._tangent.add(tangent_of(part), ranges)

    @property
    def array(self) -> Array | Dual | None:
        """The sum."""
        value = self._value.array
        return None if value is None else dual(value, self._tangent.array)


def evaluate(xp: Any, slicing: Slicing, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The result, of this shape."""
    total = _Sum(xp, shape, slicing.output)
    none = [False] * len(operands)
    for plan, ranges in slicing:
        xp.checkpoint()
        parts = _parts(xp, slicing, operands, ranges)
        total.add(passes.evaluate(xp, plan, parts, none)[0], ranges)
    return total.array


def push(
    F: Namespace,
    slicing: Slicing,
    operands: Sequence[Array],
    tangents: Sequence[Array | None],
    shape: tuple[int, ...],
) -> Array | None:
    """The result's tangent. None is zero."""
    total = _Sum(F.xp, shape, slicing.output)
    for plan, ranges in slicing:
        F.xp.checkpoint()
        parts = _parts(F.xp, slicing, operands, ranges)
        moving = _parts(F.xp, slicing, tangents, ranges)
        total.add(passes.push(F, plan, parts, moving, None)[0], ranges)
    return total.array


def pull(
    F: Namespace,
    slicing: Slicing,
    ct: Array,
    operands: Sequence[Array],
    needs: Sequence[bool],
) -> list[Array | None]:
    """The operands' cotangents; None where none is needed."""
    xp = F.xp
    sums = [_DualSum(xp, x.shape, cuts) for x, cuts in zip(operands, slicing.inputs, strict=True)]
    for plan, ranges in slicing:
        xp.checkpoint()
        parts = _parts(xp, slicing, operands, ranges)
        c = _part(xp, ct, slicing.output, ranges)
        residual = _residual(F, plan, parts, needs)
        found = passes.pull(F, plan, c, parts, needs, residual)
        del c, parts, residual
        for total, part in zip(sums, found, strict=True):
            total.add(part, ranges)
        del found, part
    return [total.array for total in sums]


def _residual(
    F: Namespace, plan: Plan, operands: Sequence[Array | Dual], needs: Sequence[bool]
) -> passes.Residual:
    """What the derivatives of a slice need of its way forward, on duals where operands are."""
    values = list(map(value_of, operands))
    _, residual = passes.evaluate(F.xp, plan, values, needs)
    tangents = list(map(tangent_of, operands))
    if residual is None or all(each is None for each in tangents):
        return residual
    plain = F.plain if isinstance(F, DualFunctions) else F
    _, moved = passes.push(plain, plan, values, tangents, residual)
    return tuple(map(dual, residual, moved or ()))


def _parts(
    xp: Any, slicing: Slicing, arrays: Sequence[Array | Dual | None], ranges: Ranges
) -> list[Array | Dual | None]:
    return [_part(xp, x, cuts, ranges) for x, cuts in zip(arrays, slicing.inputs, strict=True)]


def _part(xp: Any, x: Any, cuts: Cuts, ranges: Ranges) -> Any:
    """What a slice has of an array: a copy, as plans are made for arrays that lie in C order."""
    if x is None or not cuts:
        return x
    if type(x) is Dual:
        return Dual(_part(xp, x.value, cuts, ranges), _part(xp, x.tangent, cuts, ranges))
    return xp.copy(x[_index(x.shape, cuts, ranges)])


def _index(shape: Sequence[int], cuts: Cuts, ranges: Ranges) -> tuple[slice, ...]:
    index = [slice(None)] * len(shape)
    for axis, number in cuts:
        index[axis] = ranges[number]
    return tuple(index)
