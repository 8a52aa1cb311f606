"""What the entries of ops on each element share: samples, rules for their results, one way to register."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from backhaul_proto.catalog.avals import BOOL, Aval, aval, real_dtype
from backhaul_proto.catalog.ops import Domain, Infer, Op, Sample, register
from backhaul_proto.catalog.shapes import (
    broadcast_shapes,
    broadcasting,
    broadcasting_floats,
    floating,
)
from backhaul_proto.errors import make_error

BINARY: Final = (
    Sample(((2, 3), (2, 3))),
    Sample(((2, 3), (3,))),
    Sample(((2, 1), (1, 3))),
    Sample(((), (2, 3))),
    Sample(((), ())),
    Sample(((0, 3), (1, 3))),
)
UNARY: Final = (Sample(((2, 3),)), Sample(((),)), Sample(((0, 2),)))

NUMBERS: Final = "iufc"
REAL: Final = "biuf"
REAL_NUMBERS: Final = "iuf"


def drawn_from(
    samples: tuple[Sample, ...], domain: Domain | tuple[Domain, ...]
) -> tuple[Sample, ...]:
    """The samples with their numbers drawn from a domain."""
    return tuple(replace(each, domain=domain) for each in samples)


def as_is(avals: tuple[Aval, ...]) -> Aval:
    """The shape and dtype of the only operand."""
    return avals[0]


def real(avals: tuple[Aval, ...]) -> Aval:
    """The operand's shape, in the dtype of its parts."""
    return aval(avals[0].shape, real_dtype(avals[0].dtype))


def floats(avals: tuple[Aval, ...]) -> Aval:
    """The operand's shape and inexact dtype; integers and bools count as float64."""
    return aval(avals[0].shape, floating(avals[0].dtype))


def truths(avals: tuple[Aval, ...]) -> Aval:
    """A bool for each element of the broadcast operands."""
    return aval(broadcast_shapes([each.shape for each in avals]), BOOL)


def numeric(avals: tuple[Aval, ...]) -> Aval:
    """As `broadcasting`, of arithmetic that bool arrays alone have not."""
    if all(each.dtype.kind == "b" for each in avals):
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            "Bool arrays alone have no such arithmetic; convert one with astype(), or use logical_and, "
            "logical_or, logical_xor and logical_not.",
            actual="bool",
        )
    return broadcasting(avals)


def unary(
    name: str,
    doc: str,
    *,
    infer: Infer = floats,
    floating: bool = False,
    kinds: str = "biufc",
    samples: tuple[Sample, ...] = UNARY,
    domain: Domain = "any",
    aliases: tuple[str, ...] = (),
    differentiable: bool = True,
) -> None:
    """Register an op of one operand. With `floats`, integers and bools are computed with as float64."""
    register(
        Op(
            name,
            ("x",),
            infer,
            doc,
            floating=floating or infer is floats,
            kinds=kinds,
            samples=samples if domain == "any" else drawn_from(samples, domain),
            aliases=aliases,
            differentiable=differentiable,
        )
    )


def binary(
    name: str,
    doc: str,
    *,
    infer: Infer = broadcasting,
    kinds: str = "biufc",
    samples: tuple[Sample, ...] = BINARY,
    domain: Domain | tuple[Domain, ...] = "any",
    aliases: tuple[str, ...] = (),
    differentiable: bool = True,
    promotes: bool = True,
) -> None:
    """Register an op of two operands. With `broadcasting_floats`, integers are computed with as float64."""
    register(
        Op(
            name,
            ("x1", "x2"),
            infer,
            doc,
            promotes=promotes,
            floating=infer is broadcasting_floats,
            kinds=kinds,
            samples=samples if domain == "any" else drawn_from(samples, domain),
            aliases=aliases,
            differentiable=differentiable,
        )
    )


_POINTWISE: Final = (as_is, real, floats, truths, numeric, broadcasting, broadcasting_floats)


def is_pointwise(entry: Op) -> bool:
    """Whether each element of the result is computed from one element of each operand, broadcast."""
    return entry.infer in _POINTWISE
