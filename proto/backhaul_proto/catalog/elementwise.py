"""Ops that act on each element, with broadcasting."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.shapes import broadcasting
from backhaul_proto.errors import make_error

_BINARY = (
    Sample(((2, 3), (2, 3))),
    Sample(((2, 3), (3,))),
    Sample(((2, 1), (1, 3))),
    Sample(((), (2, 3))),
    Sample(((), ())),
    Sample(((0, 3), (1, 3))),
)
_UNARY = (Sample(((2, 3),)), Sample(((),)), Sample(((0, 2),)))


def _as_is(avals: tuple[Aval, ...]) -> Aval:
    return avals[0]


def _real(avals: tuple[Aval, ...]) -> Aval:
    dtype = avals[0].dtype
    return avals[0] if dtype.kind != "c" else aval(avals[0].shape, dtype.type(0).real.dtype)


def _no_bool(avals: tuple[Aval, ...]) -> Aval:
    if all(each.dtype.kind == "b" for each in avals):
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            "Bool arrays have no subtraction or negation; convert them first.",
            actual="bool",
        )
    return broadcasting(avals)


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
        "add",
        ("x1", "x2"),
        broadcasting,
        "The sum x1 + x2, element by element, with broadcasting.",
        promotes=True,
        samples=_BINARY,
    )
)
register(
    Op(
        "subtract",
        ("x1", "x2"),
        _no_bool,
        "The difference x1 - x2, element by element, with broadcasting.",
        promotes=True,
        samples=_BINARY,
    )
)
register(
    Op(
        "multiply",
        ("x1", "x2"),
        broadcasting,
        "The product x1 * x2, element by element, with broadcasting.",
        promotes=True,
        samples=_BINARY,
    )
)
register(Op("negative", ("x",), _no_bool, "The negative -x, element by element.", samples=_UNARY))
register(Op("conj", ("x",), _as_is, "The complex conjugate of each element.", samples=_UNARY))
register(
    Op(
        "real",
        ("x",),
        _real,
        "The real part of each element; x itself when x is real.",
        samples=_UNARY,
    )
)
register(
    Op(
        "imag",
        ("x",),
        _real,
        "The imaginary part of each element; zeros when x is real.",
        samples=_UNARY,
    )
)
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
register(
    Op(
        "stop_gradient",
        ("x",),
        _as_is,
        "x as a constant: no gradient flows through it.",
        samples=_UNARY,
        differentiable=False,
    )
)
