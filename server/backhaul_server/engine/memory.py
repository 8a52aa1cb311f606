"""How much memory a call takes, known from its operands' shapes before it is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backhaul_proto.catalog.avals import Aval


@dataclass(frozen=True, slots=True)
class Room:
    """Memory that a rule is prepared for; None: any.

    Attributes:
        keep: bytes that it may keep for its derivatives.
        work: bytes that a call may take in all, where it can do with less.
    """

    keep: int | None = None
    work: int | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes that a call takes, its operands apart.

    Attributes:
        value: at the peak while the value is computed: results, and all that stands beside them.
        kept: what stays for the derivatives afterwards, beside operands and results.
        gradient: at the peak while operands' cotangents are computed, these included; not the result's
            own cotangent, nor what was kept.
        hvp: the same on duals, the tangents of results and of what is kept included.
    """

    value: int
    kept: int
    gradient: int
    hvp: int


def elementwise_need(operands: Sequence[Aval], results: Sequence[Aval]) -> Need:
    """What a rule takes that makes a few arrays of its operands' and results' size on the way."""
    given = sum(each.nbytes for each in operands)
    made = sum(each.nbytes for each in results)
    return Need(value=made, kept=0, gradient=given + made, hvp=2 * (given + made) + made)


def with_casts(need: Need, nbytes: int) -> Need:
    """The need of a call whose operands are cast first, to arrays of so many bytes, which are kept."""
    return replace(need, value=need.value + nbytes, kept=need.kept + nbytes)
