"""Triangles and diagonals of matrices."""

from __future__ import annotations

import numpy as np

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.manipulation import matrix_shape
from backhaul_proto.catalog.ops import Attribute, Ints, Op, Sample, register
from backhaul_proto.catalog.shapes import canonical_axis
from backhaul_proto.errors import make_error


def diagonal_axes(x: Aval, axis1: int, axis2: int) -> tuple[int, int]:
    """The two axes counted from the front; they must differ."""
    matrix_shape(x, "x")
    first = canonical_axis(axis1, x.ndim, name="axis1")
    second = canonical_axis(axis2, x.ndim, name="axis2")
    if first == second:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"axis1={axis1} and axis2={axis2} are the same axis; a diagonal runs through two.",
            attribute="axis2",
            actual=axis2,
        )
    return first, second


def diagonal_length(rows: int, columns: int, offset: int) -> int:
    """The number of elements of a diagonal."""
    return max(0, min(rows + min(offset, 0), columns - max(offset, 0)))


def _triangle(avals: tuple[Aval, ...], k: int) -> Aval:
    matrix_shape(avals[0], "x")
    return avals[0]


def _diagonal(avals: tuple[Aval, ...], offset: int, axis1: int, axis2: int) -> Aval:
    (x,) = avals
    first, second = diagonal_axes(x, axis1, axis2)
    rest = [n for i, n in enumerate(x.shape) if i not in (first, second)]
    length = diagonal_length(x.shape[first], x.shape[second], offset)
    return aval([*rest, length], x.dtype)


def _last_diagonal(avals: tuple[Aval, ...], offset: int) -> Aval:
    matrix_shape(avals[0], "x")
    return _diagonal(avals, offset, -2, -1)


def _trace(avals: tuple[Aval, ...], offset: int, axis1: int, axis2: int) -> Aval:
    diagonal = _diagonal(avals, offset, axis1, axis2)
    dtype = diagonal.dtype
    if not diagonal.inexact:  # as sum
        dtype = np.dtype("uint64" if dtype.kind == "u" else "int64")
    return aval(diagonal.shape[:-1], dtype)


def _last_trace(avals: tuple[Aval, ...], offset: int) -> Aval:
    matrix_shape(avals[0], "x")
    return _trace(avals, offset, -2, -1)


def _diag(avals: tuple[Aval, ...], k: int) -> Aval:
    (x,) = avals
    if x.ndim == 1:
        n = x.size + abs(k)
        return aval((n, n), x.dtype)
    if x.ndim != 2:
        raise make_error(
            "SHAPE_MISMATCH",
            f"diag takes a vector or a matrix, not shape {x.shape}. For a stack of matrices there is "
            "linalg.diagonal.",
            actual=x.shape,
        )
    return _diagonal(avals, k, 0, 1)


def _from_diagonal(avals: tuple[Aval, ...], shape: Ints, offset: int) -> Aval:
    return aval((*avals[0].shape[:-1], *shape), avals[0].dtype)


_K = "the main one is 0, those above it are positive"
_OFFSET = f"Which diagonal; {_K}."
_TWO_AXES = (
    Attribute("offset", "int", 0, keyword_only=False, doc=_OFFSET),
    Attribute("axis1", "int", 0, keyword_only=False, doc="The axis of the rows."),
    Attribute("axis2", "int", 1, keyword_only=False, doc="The axis of the columns."),
)
_LAST_AXES = (Attribute("offset", "int", 0, doc=_OFFSET),)

for _name, _words in (
    ("tril", "The lower triangles of x's last two axes, zeros above."),
    ("triu", "The upper triangles of x's last two axes, zeros below."),
):
    register(
        Op(
            _name,
            ("x",),
            _triangle,
            _words,
            attributes=(
                Attribute(
                    "k",
                    "int",
                    0,
                    keyword_only=False,
                    doc=f"The outermost diagonal that is kept; {_K}.",
                ),
            ),
            samples=(
                Sample(((3, 3),)),
                Sample(((2, 3, 4),), {"k": 1}),
                Sample(((3, 2),), {"k": -1}),
                Sample(((3, 3),), {"k": 9}),
                Sample(((0, 0),)),
            ),
        )
    )
register(
    Op(
        "diag",
        ("x",),
        _diag,
        "The matrix with the vector x on a diagonal, or a diagonal of the matrix x.",
        attributes=(Attribute("k", "int", 0, keyword_only=False, doc=_OFFSET),),
        samples=(
            Sample(((3,),)),
            Sample(((2,),), {"k": -2}),
            Sample(((2, 3),), {"k": 1}),
            Sample(((3, 3),)),
            Sample(((0,),)),
        ),
    )
)
register(
    Op(
        "diagonal",
        ("x",),
        _diagonal,
        "A diagonal through two axes of x, as the last axis of the result.",
        attributes=_TWO_AXES,
        samples=(
            Sample(((3, 3),)),
            Sample(((2, 3),), {"offset": 1}),
            Sample(((2, 3, 4),), {"offset": -1, "axis1": 2, "axis2": 0}),
            Sample(((2, 3),), {"offset": 7}),
            Sample(((0, 3),)),
        ),
    )
)
register(
    Op(
        "trace",
        ("x",),
        _trace,
        "The sum of a diagonal through two axes of x.",
        attributes=_TWO_AXES,
        samples=(
            Sample(((3, 3),)),
            Sample(((2, 3),), {"offset": 1}),
            Sample(((2, 3, 4),), {"axis1": -1, "axis2": 0}),
            Sample(((0, 3),)),
        ),
    )
)
register(
    Op(
        "linalg.diagonal",
        ("x",),
        _last_diagonal,
        "A diagonal of x's last two axes, as the last axis of the result.",
        attributes=_LAST_AXES,
        samples=(Sample(((2, 3, 3),)), Sample(((2, 3),), {"offset": -1}), Sample(((0, 0),))),
    )
)
register(
    Op(
        "linalg.trace",
        ("x",),
        _last_trace,
        "The sum of a diagonal of x's last two axes.",
        attributes=_LAST_AXES,
        samples=(Sample(((2, 3, 3),)), Sample(((2, 3),), {"offset": 1}), Sample(((0, 0),))),
    )
)
register(
    Op(
        "from_diagonal",
        ("x",),
        _from_diagonal,
        "Matrices with x's last axis on a diagonal and zeros elsewhere: the adjoint of diagonal.",
        attributes=(
            Attribute("shape", "ints", required=True, doc="Rows and columns."),
            Attribute("offset", "int", 0, doc=_OFFSET),
        ),
        private=True,
        samples=(
            Sample(((3,),), {"shape": (3, 3)}),
            Sample(((4, 2),), {"shape": (2, 3), "offset": 1}),
            Sample(((2,),), {"shape": (4, 2), "offset": -2}),
            Sample(((0,),), {"shape": (0, 2)}),
        ),
    )
)
