"""Comparisons and logic on each element. The results are bools: no gradient flows through them."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Sample
from backhaul_proto.catalog.pointwise import BINARY, REAL, UNARY, as_is, binary, truths, unary
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes
from backhaul_proto.errors import make_error

_BITS = (Sample(((3,), ()), constants={0: [5, 2, -1], 1: 3}, kinds="f"),)


def _bits(avals: tuple[Aval, ...]) -> Aval:
    dtype = promote(*avals)
    if dtype.kind not in "biu":
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"Bits are of bool and integer arrays, and these are brought to {dtype} first; convert one of "
            "them with astype().",
            actual=dtype,
        )
    return aval(broadcast_shapes([each.shape for each in avals]), dtype)


for _name, _doc, _kinds in (
    (
        "equal",
        "Whether x1 == x2, element by element, with broadcasting; NaN equals nothing.",
        "biufc",
    ),
    ("not_equal", "Whether x1 != x2, element by element, with broadcasting.", "biufc"),
    ("less", "Whether x1 < x2, element by element, with broadcasting.", REAL),
    ("less_equal", "Whether x1 <= x2, element by element, with broadcasting.", REAL),
    ("greater", "Whether x1 > x2, element by element, with broadcasting.", REAL),
    ("greater_equal", "Whether x1 >= x2, element by element, with broadcasting.", REAL),
):
    binary(_name, _doc, infer=truths, kinds=_kinds, samples=BINARY, differentiable=False)

for _name, _doc in (
    ("logical_and", "Whether both are true (not 0), element by element, with broadcasting."),
    ("logical_or", "Whether one or both are true (not 0), element by element, with broadcasting."),
    ("logical_xor", "Whether just one is true (not 0), element by element, with broadcasting."),
):
    binary(_name, _doc, infer=truths, differentiable=False, promotes=False)
unary("logical_not", "Whether each element is false (0).", infer=truths, differentiable=False)

for _name, _doc in (
    ("isfinite", "Whether each element is neither infinite nor NaN."),
    ("isinf", "Whether each element is infinite, in its real or imaginary part."),
    ("isnan", "Whether each element is NaN, in its real or imaginary part."),
):
    unary(_name, _doc, infer=truths, samples=UNARY, differentiable=False)

for _name, _doc in (
    ("bitwise_and", "The bits that both have, element by element: x1 & x2, of bools or integers."),
    (
        "bitwise_or",
        "The bits that one or both have, element by element: x1 | x2, of bools or integers.",
    ),
    (
        "bitwise_xor",
        "The bits that just one has, element by element: x1 ^ x2, of bools or integers.",
    ),
):
    binary(_name, _doc, infer=_bits, kinds="biu", samples=_BITS, differentiable=False)
unary(
    "bitwise_invert",
    "The other bits of each element: ~x, of bools or integers.",
    infer=as_is,
    kinds="biu",
    samples=(Sample(((3,),), constants={0: [5, 2, -1]}, kinds="f"),),
    aliases=("bitwise_not", "invert"),
    differentiable=False,
)
