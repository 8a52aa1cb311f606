"""Ops that give the same numbers: in another dtype, or cut off from the tape."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.pointwise import as_is, unary
from backhaul_proto.errors import make_error


def _astype(avals: tuple[Aval, ...], dtype: object) -> Aval:
    target = aval(avals[0].shape, dtype)  # type: ignore[arg-type]  # bound by the attribute's kind
    if avals[0].dtype.kind == "c" and target.dtype.kind != "c":
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"astype({target.dtype}) of a {avals[0].dtype} array would drop its imaginary part; "
            "take real() or imag() first.",
            attribute="dtype",
            actual=target.dtype,
        )
    return target


register(
    Op(
        "astype",
        ("x",),
        _astype,
        "x converted to another dtype.\n\nA complex x stays complex: take `real` first.",
        attributes=(
            Attribute("dtype", "dtype", required=True, keyword_only=False, doc="The new dtype."),
        ),
        samples=(
            Sample(((2, 3),), {"dtype": "complex128"}),
            Sample(((),), {"dtype": "complex128"}),
        ),
    )
)
unary(
    "stop_gradient",
    "x as a constant: no gradient flows through it.",
    infer=as_is,
    differentiable=False,
)
