"""Ops that give an array another shape without computing on its elements."""

from __future__ import annotations

import math

from backhaul_proto.catalog.avals import Aval, Shape, aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.shapes import broadcast_shapes
from backhaul_proto.errors import make_error


def reshaped(shape: Shape, wanted: Shape) -> Shape:
    """The shape that ``wanted`` means, its one -1 worked out.

    Raises:
        InvalidArgument: SHAPE_MISMATCH when the numbers of elements differ.
    """
    size = math.prod(shape)
    known = math.prod(n for n in wanted if n != -1)
    free = wanted.count(-1)
    if free == 1 and known > 0 and size % known == 0:
        return tuple(size // known if n == -1 else n for n in wanted)
    if free or known != size or any(n < 0 for n in wanted):
        raise make_error(
            "SHAPE_MISMATCH",
            f"An array of shape {shape} has {size} elements and cannot be given the shape {wanted}; "
            "their products must agree, and one size may be -1.",
            expected=size,
            actual=wanted,
        )
    return wanted


def _reshape(avals: tuple[Aval, ...], shape: int | Shape) -> Aval:
    wanted = (shape,) if isinstance(shape, int) else shape
    return aval(reshaped(avals[0].shape, wanted), avals[0].dtype)


def _broadcast_to(avals: tuple[Aval, ...], shape: Shape) -> Aval:
    if any(n < 0 for n in shape) or broadcast_shapes([avals[0].shape, shape]) != shape:
        raise make_error(
            "SHAPE_MISMATCH",
            f"An array of shape {avals[0].shape} does not broadcast to {shape}.",
            expected=shape,
            actual=avals[0].shape,
        )
    return aval(shape, avals[0].dtype)


def _unbroadcast(avals: tuple[Aval, ...], shape: Shape) -> Aval:
    return aval(shape, avals[0].dtype)


def _matrix_transpose(avals: tuple[Aval, ...]) -> Aval:
    shape = matrix_shape(avals[0], "x")
    return aval((*shape[:-2], shape[-1], shape[-2]), avals[0].dtype)


def matrix_shape(each: Aval, operand: str) -> Shape:
    """The shape of an operand that must be a matrix or a stack of them."""
    if each.ndim < 2:
        raise make_error(
            "SHAPE_MISMATCH",
            f"{operand} must have at least two axes (a matrix or a stack of matrices), "
            f"not shape {each.shape}.",
            operand=operand,
            actual=each.shape,
        )
    return each.shape


register(
    Op(
        "reshape",
        ("x",),
        _reshape,
        "x with another shape and the same elements in C order.",
        attributes=(
            Attribute(
                "shape",
                "axes",
                required=True,
                keyword_only=False,
                doc="The new shape; one size may be -1 and is worked out.",
            ),
        ),
        samples=(
            Sample(((2, 3),), {"shape": (3, -1)}),
            Sample(((),), {"shape": (1, 1)}),
            Sample(((0, 2),), {"shape": (2, 0)}),
        ),
    )
)
register(
    Op(
        "broadcast_to",
        ("x",),
        _broadcast_to,
        "x repeated along new axes and axes of size 1, to the given shape.",
        attributes=(
            Attribute("shape", "ints", required=True, keyword_only=False, doc="The new shape."),
        ),
        samples=(
            Sample(((3,),), {"shape": (2, 3)}),
            Sample(((2, 1),), {"shape": (2, 3)}),
            Sample(((),), {"shape": (2,)}),
            Sample(((1, 0),), {"shape": (2, 0)}),
        ),
    )
)
register(
    Op(
        "unbroadcast",
        ("x",),
        _unbroadcast,
        "The adjoint of broadcast_to: x summed to a shape that broadcasts to its own.",
        attributes=(Attribute("shape", "ints", required=True),),
        private=True,
        samples=(Sample(((2, 3),), {"shape": (3,)}), Sample(((2, 3),), {"shape": (2, 1)})),
    )
)
register(
    Op(
        "matrix_transpose",
        ("x",),
        _matrix_transpose,
        "x with its last two axes swapped.",
        samples=(Sample(((2, 3),)), Sample(((4, 2, 3),)), Sample(((0, 3),))),
    )
)
