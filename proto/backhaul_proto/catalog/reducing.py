"""What the entries of ops along axes share: attributes, samples, rules for their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from backhaul_proto.catalog.avals import BOOL, Aval, Shape, aval
from backhaul_proto.catalog.ops import Attribute, Domain, Infer, Op, Sample, register
from backhaul_proto.catalog.pointwise import drawn_from
from backhaul_proto.catalog.shapes import canonical_axes, canonical_axis, reduced_shape
from backhaul_proto.errors import make_error

Axes = int | tuple[int, ...] | None

AXES: Final = Attribute(
    "axis",
    "axes",
    keyword_only=False,
    doc="Axis or axes to reduce over; all of them when left out.",
)
KEEPDIMS: Final = Attribute(
    "keepdims", "bool", False, doc="Whether reduced axes stay, with size 1."
)
LAST_AXIS: Final = Attribute("axis", "int", -1, keyword_only=False, doc="The axis.")

REDUCTIONS: Final = (
    Sample(((2, 3),)),
    Sample(((2, 3),), {"axis": 1}),
    Sample(((2, 3, 4),), {"axis": (0, -1)}),
    Sample(((2, 3),), {"axis": 0, "keepdims": True}),
    Sample(((),)),
    Sample(((0, 2),)),
)
NOT_EMPTY: Final = (*REDUCTIONS[:-1], Sample(((0, 2),), {"axis": 1}))
"""The same for an op that has no value for no elements."""

ALONG_AXIS: Final = (
    Sample(((2, 3),)),
    Sample(((2, 3, 2),), {"axis": 1}),
    Sample(((4,),)),
    Sample(((1,),)),
    Sample(((0, 2),)),
    Sample(((2, 0),)),
)


def accumulated(dtype: np.dtype) -> np.dtype:
    """The dtype in which sums and products are taken: integers and bools in 64 bits."""
    if dtype.kind in "fc":
        return dtype
    return np.dtype("uint64" if dtype.kind == "u" else "int64")


def same(dtype: np.dtype) -> np.dtype:
    """The operand's dtype."""
    return dtype


def truth(dtype: np.dtype) -> np.dtype:
    """Bool, whatever the operand."""
    return BOOL


def count(dtype: np.dtype) -> np.dtype:
    """The dtype of numbers of elements and of places: int64."""
    return np.dtype("int64")


def reducing(result: Callable[[np.dtype], np.dtype]) -> Infer:
    """The infer of a reduction whose dtype follows from its operand's."""

    def infer(avals: tuple[Aval, ...], axis: Axes = None, keepdims: bool = False) -> Aval:
        (x,) = avals
        return aval(reduced(x.shape, axis, keepdims), result(x.dtype))

    return infer


def reduced(shape: Shape, axis: Axes, keepdims: bool) -> Shape:
    """The shape after reducing over these axes, as a call names them."""
    return reduced_shape(shape, canonical_axes(axis, len(shape)), keepdims)


def choosing(result: Callable[[np.dtype], np.dtype]) -> Infer:
    """As `reducing`, of an op that picks an element, which there must be."""
    infer = reducing(result)

    def checked(avals: tuple[Aval, ...], axis: Axes = None, keepdims: bool = False) -> Aval:
        found = infer(avals, axis=axis, keepdims=keepdims)
        assert isinstance(found, Aval)
        check_not_empty(avals[0].shape, axis, found)
        return found

    return checked


def check_not_empty(shape: Shape, axis: Axes, result: Aval) -> None:
    """Refuse to pick from no elements; where there is nothing to pick for too, as NumPy does.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE.
    """
    if 0 in shape and (result.size or any(shape[i] == 0 for i in canonical_axes(axis, len(shape)))):
        over = "all its axes" if axis is None else f"axis={axis}"
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"An array of shape {shape} has no elements over {over}, and there is no least or greatest of "
            "none. Reduce over another axis, or leave the empty array out.",
            attribute="axis",
            actual=shape,
        )


def along_axis(avals: tuple[Aval, ...], axis: int = -1) -> Aval:
    """The operand's shape and dtype; the axis must be one of it."""
    canonical_axis(axis, avals[0].ndim)
    return avals[0]


def reduction(
    name: str,
    doc: str,
    *,
    infer: Infer,
    kinds: str = "biufc",
    floating: bool = False,
    further: Sequence[Attribute] = (),
    samples: tuple[Sample, ...] = REDUCTIONS,
    domain: Domain = "any",
    aliases: tuple[str, ...] = (),
    differentiable: bool = True,
) -> None:
    """Register an op that reduces over axes."""
    register(
        Op(
            name,
            ("x",),
            infer,
            doc,
            attributes=(AXES, *further, KEEPDIMS),
            floating=floating,
            kinds=kinds,
            samples=samples if domain == "any" else drawn_from(samples, domain),
            aliases=aliases,
            differentiable=differentiable,
        )
    )


def with_attributes(sample: Sample, **attributes: object) -> Sample:
    """The sample with further attributes."""
    return replace(sample, attributes={**sample.attributes, **attributes})
