"""Arrays without data: how much memory a computation takes, found by running it on them.

A phantom has a shape, strides and a dtype, and a share in a buffer that has a size only. It goes through
the functions of an array library that einsum's steps call, as NumPy's arrays would: views share their
buffer, copies and results get new ones, and results lie in memory as NumPy lays them. A ledger counts the
bytes of the buffers alive. They are freed as arrays are: when the last reference is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from math import prod
from typing import Any, cast

import numpy as np

from backhaul_proto.catalog.avals import real_dtype

Ints = tuple[int, ...]


class Ledger:
    """The bytes of the buffers alive, and the most there were at once."""

    def __init__(self) -> None:
        self.live = 0
        self.peak = 0

    def take(self, nbytes: int) -> None:
        """Count bytes that are taken."""
        self.live += nbytes
        self.peak = max(self.peak, self.live)

    def restart(self) -> int:
        """Forget the peak; returns what is alive."""
        self.peak = self.live
        return self.live


class Buffer:
    """Memory that counts in a ledger as long as this object lives."""

    __slots__ = ("_ledger", "nbytes")

    def __init__(self, ledger: Ledger, nbytes: int) -> None:
        self._ledger = ledger
        self.nbytes = nbytes
        ledger.take(nbytes)

    def __del__(self) -> None:
        self._ledger.live -= self.nbytes


class Phantom:
    """An array without data. Its buffer is None for one that is given, whose bytes do not count."""

    __slots__ = ("_xp", "buffer", "dtype", "shape", "strides")

    def __init__(
        self, xp: PhantomNamespace, buffer: Buffer | None, shape: Ints, strides: Ints, dtype: Any
    ) -> None:
        self._xp = xp
        self.buffer = buffer
        self.shape = shape
        self.strides = strides
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the elements."""
        return prod(self.shape) * cast(int, self.dtype.itemsize)

    @property
    def mT(self) -> Phantom:  # noqa: N802 - the array API's name
        """The last two axes changed."""
        shape, strides = self.shape, self.strides
        return self.view(
            (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2])
        )

    @property
    def T(self) -> Phantom:  # noqa: N802 - NumPy's name
        """The axes in reverse order."""
        return self.view(self.shape[::-1], self.strides[::-1])

    def view(self, shape: Ints, strides: Ints) -> Phantom:
        """Another array in the same buffer."""
        return Phantom(self._xp, self.buffer, shape, strides, self.dtype)

    def __iadd__(self, other: Phantom) -> Phantom:
        return self

    def __getitem__(self, index: Sequence[slice]) -> Phantom:
        """A view; of slices of axes alone."""
        ranges = [range(n)[each] for n, each in zip(self.shape, index, strict=True)]
        strides = [each.step * stride for each, stride in zip(ranges, self.strides, strict=True)]
        return self.view(tuple(map(len, ranges)), tuple(strides))

    def __setitem__(self, index: object, value: Phantom) -> None:
        """Writing takes no memory."""


class PhantomNamespace:
    """The functions on phantoms that steps of an einsum call; results count in the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def checkpoint(self) -> None:
        """Nothing stops a computation without data."""

    def given(self, shape: Ints, dtype: Any) -> Phantom:
        """An array in C order that is not counted."""
        return Phantom(self, None, shape, dense(shape, dtype.itemsize), dtype)

    def new(self, shape: Ints, dtype: Any, strides: Ints | None = None) -> Phantom:
        """An array in a new buffer, in C order if no strides are given."""
        itemsize = dtype.itemsize
        buffer = Buffer(self.ledger, prod(shape) * itemsize)
        if strides is None:
            strides = dense(shape, itemsize)
        return Phantom(self, buffer, shape, strides, dtype)

    def zeros(self, shape: Ints, dtype: Any) -> Phantom:
        return self.new(shape, dtype)

    def astype(self, x: Phantom, dtype: Any) -> Phantom:
        if x.dtype == dtype:
            return x
        axes = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])  # as `copy` with order "K"
        packed = dense([x.shape[axis] for axis in axes], dtype.itemsize)
        strides = dict(zip(axes, packed, strict=True))
        return self.new(x.shape, dtype, tuple([strides[axis] for axis in range(x.ndim)]))

    def conj(self, x: Phantom) -> Phantom:
        return self._elementwise([x], x.dtype) if x.dtype.kind == "c" else x

    def real(self, x: Phantom) -> Phantom:
        if x.dtype.kind != "c":
            return x
        return Phantom(self, x.buffer, x.shape, x.strides, real_dtype(x.dtype))

    def multiply(self, a: Phantom, b: Phantom) -> Phantom:
        return self._elementwise([a, b], _promoted(a, b))

    add = multiply

    def einsum(self, subscripts: str, a: Phantom, b: Phantom) -> Phantom:
        inputs, _, output = subscripts.partition("->")
        terms = inputs.split(",")
        order = output + "".join(x for x in dict.fromkeys("".join(terms)) if x not in output)
        sizes: dict[str, int] = {}
        strides = []
        for term, x in zip(terms, (a, b), strict=True):
            sizes.update(zip(term, x.shape, strict=True))
            own = dict(zip(term, x.strides, strict=True))
            strides.append([own.get(label, 0) for label in order])
        shape = [sizes[label] for label in order]
        return self._ordered(shape, strides, _promoted(a, b), range(len(output)))

    def sum(self, x: Phantom, axis: Ints, dtype: Any) -> Phantom:
        left = [each for each in range(x.ndim) if each not in axis]
        return self._ordered(x.shape, [x.strides], dtype, left)

    def diagonal(self, x: Phantom, axis1: int, axis2: int) -> Phantom:
        left = [axis for axis in range(x.ndim) if axis not in (axis1, axis2)]
        return x.view(
            (*[x.shape[axis] for axis in left], x.shape[axis1]),
            (*[x.strides[axis] for axis in left], x.strides[axis1] + x.strides[axis2]),
        )

    def broadcast_to(self, x: Phantom, shape: Ints) -> Phantom:
        return x.view(shape, tuple(_broadcast(x, shape)))

    def matmul(self, a: Phantom, b: Phantom) -> Phantom:
        """The product of stacks of matrices.

        What NumPy copies for its time only: an operand in another dtype, and a matrix that BLAS cannot
        read as it lies.
        """
        dtype = _promoted(a, b)
        item = dtype.itemsize
        core = (*a.shape[-2:-1], *(b.shape[-1:] if len(b.shape) > 1 else ()))
        copied = 0
        for x in (a, b):
            if x.dtype != dtype:
                copied += prod(x.shape) * item
            elif (
                len(a.shape) > 1 < len(b.shape)
                and not _blas_reads(x)
                and 1 not in (*core, a.shape[-1])
            ):
                copied += x.shape[-2] * x.shape[-1] * item
        scratch = Buffer(self.ledger, copied) if copied else None
        strides = dense(core, item)
        batch: Ints = ()
        if len(a.shape) > 2 or len(b.shape) > 2:
            batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
            both = [_broadcast(x, (*batch, *x.shape[-2:]))[: len(batch)] for x in (a, b)]
            axes = range(len(batch))
            strides = (*_sorted_strides(batch, both, axes, prod(core) * item), *strides)
        y = self.new((*batch, *core), dtype, strides)
        del scratch
        return y

    dot = matmul

    def permute_dims(self, x: Phantom, order: Ints) -> Phantom:
        shape, strides = x.shape, x.strides
        return x.view(tuple([shape[i] for i in order]), tuple([strides[i] for i in order]))

    def copy(self, x: Phantom) -> Phantom:
        return self.new(x.shape, x.dtype)

    compact = copy  # its tables of offsets count little beside it

    def reshape(self, x: Phantom, shape: Ints) -> Phantom:
        """A view where one can be, else a copy."""
        if shape == x.shape:
            return x.view(shape, x.strides)
        strides = reshaped(x.shape, x.strides, shape, x.dtype.itemsize)
        return self.new(shape, x.dtype) if strides is None else x.view(shape, strides)

    def _elementwise(self, operands: Sequence[Phantom], dtype: Any) -> Phantom:
        shape, itemsize = operands[0].shape, operands[0].dtype.itemsize
        if all(x.shape == shape and x.strides == dense(shape, itemsize) for x in operands):
            return self.new(shape, dtype)  # the same as below, sooner
        shape = broadcast_shape(*[x.shape for x in operands])
        strides = [_broadcast(x, shape) for x in operands]
        return self._ordered(shape, strides, dtype, range(len(shape)))

    def _ordered(
        self,
        shape: Sequence[int],
        strides: Sequence[Sequence[int]],
        dtype: Any,
        axes: Iterable[int],
    ) -> Phantom:
        """A new array with these of the axes, which lies as the operands do."""
        axes = tuple(axes)
        found = _sorted_strides(shape, strides, axes, dtype.itemsize)
        return self.new(tuple([shape[axis] for axis in axes]), dtype, found)


def dense(shape: Sequence[int], itemsize: int) -> Ints:
    """The strides of an array in C order."""
    strides = []
    for n in reversed(shape):
        strides.append(itemsize)
        itemsize *= max(n, 1)
    return tuple(strides[::-1])


def reshaped(shape: Ints, strides: Ints, wanted: Ints, itemsize: int) -> Ints | None:
    """The strides of a view of another shape, None where there is none: axes that are joined must run on."""
    if 0 in shape:
        return dense(wanted, itemsize)
    left = [(n, stride) for n, stride in zip(shape, strides, strict=True) if n != 1]
    found: list[int] = []
    for n in reversed(wanted):
        if n == 1:
            found.append(0)
            continue
        (have, step) = left.pop()
        while have % n:
            (more, outer) = left.pop()
            if outer != step * have:
                return None
            have *= more
        found.append(step)
        if have > n:
            left.append((have // n, step * n))
    return tuple(found[::-1])


def broadcast_shape(*shapes: Ints) -> Ints:
    """The shape that these broadcast to."""
    ends = zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1)
    return tuple([next((n for n in sizes if n != 1), 1) for sizes in ends])[::-1]


def _broadcast(x: Phantom, shape: Sequence[int]) -> list[int]:
    """The strides of x in a shape that it broadcasts to."""
    strides = [0 if n == 1 else stride for n, stride in zip(x.shape, x.strides, strict=True)]
    return [0] * (len(shape) - x.ndim) + strides


def _sorted_strides(
    shape: Sequence[int], operands: Sequence[Sequence[int]], axes: Iterable[int], itemsize: int
) -> Ints:
    """The strides of a result with these axes, in the order of memory in which NumPy's iterator goes.

    It sorts axes by the operands' strides; where two operands disagree, C order wins
    (npyiter_find_best_axis_ordering in numpy/_core/src/multiarray/nditer_constr.c).
    """
    order: list[int] = []  # from the fastest
    for axis in range(len(shape) - 1, -1, -1):
        place = len(order)
        for position in range(len(order) - 1, -1, -1):
            slower = _compare(axis, order[position], shape, operands)
            if slower:
                break
            if slower is False:
                place = position
        order.insert(place, axis)
    strides = {}
    wanted = set(axes)
    for axis in order:
        if axis in wanted:
            strides[axis] = itemsize
            itemsize *= shape[axis]
    return tuple([strides[axis] for axis in axes])


def _compare(
    axis: int, other: int, shape: Sequence[int], operands: Sequence[Sequence[int]]
) -> bool | None:
    """Whether the axis belongs outside the other one, which is behind it; None: nothing speaks for either."""
    if shape[axis] == 1 or shape[other] == 1:
        return None
    pairs = [(each[axis], each[other]) for each in operands if each[axis] and each[other]]
    return None if not pairs else any(mine >= theirs for mine, theirs in pairs)


def _promoted(a: Phantom, b: Phantom) -> Any:
    return a.dtype if a.dtype == b.dtype else np.result_type(a.dtype, b.dtype)


def _blas_reads(x: Phantom) -> bool:
    """Whether neighbours along one axis of the matrices are so in memory, along the other further apart."""
    (rows, columns), (down, across) = x.shape[-2:], x.strides[-2:]
    item: int = x.dtype.itemsize
    if across == item:
        return down >= columns * item and down % item == 0
    return down == item and across >= rows * item and across % item == 0
