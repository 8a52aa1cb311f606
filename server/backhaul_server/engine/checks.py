"""What leaves, losses and directions must be: checked on avals, before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from backhaul_proto.catalog.avals import INEXACT, Aval
from backhaul_proto.errors import BackhaulError, make_error


class Described(NamedTuple):
    """What can be known of a node without its value."""

    name: str
    aval: Aval
    requires_grad: bool
    is_leaf: bool


def check_leaf(value: Aval, tangent: Aval | None) -> None:
    """A leaf has a differentiable dtype, and its tangent the same shape and dtype."""
    if value.dtype not in INEXACT:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"A leaf of dtype {value.dtype} has no gradient; convert it to float64 (or another of "
            f"{', '.join(map(str, INEXACT))}), or make it a constant.",
            actual=value.dtype,
        )
    if tangent is None or tangent is value:
        return
    if tangent.shape != value.shape:
        raise make_error(
            "TANGENT_SHAPE_MISMATCH",
            f"The tangent has shape {tangent.shape}, its leaf {value.shape}: they must be equal, "
            "tangents never broadcast.",
            expected=value.shape,
            actual=tangent.shape,
        )
    raise make_error(
        "TANGENT_DTYPE_MISMATCH",
        f"The tangent has dtype {tangent.dtype}, its leaf {value.dtype}; convert the tangent with "
        f".astype({str(value.dtype)!r}).",
        expected=value.dtype,
        actual=tangent.dtype,
    )


def check_requires_grad(what: str, node: Described) -> None:
    """A loss or output depends on a leaf."""
    if not node.requires_grad:
        raise make_error(
            "MISSING_NODE",
            f"The {what}, {node.name}, requires no gradient: it is a constant, or was computed from "
            "constants only. Make what it depends on with leaf().",
        )


def check_loss(loss: Described, cotangents: Sequence[Aval]) -> None:
    """A loss requires a gradient; then, without a cotangent, has one element; then, is real."""
    check_requires_grad("loss", loss)
    for each in cotangents:
        if each is not loss.aval:
            raise make_error(
                "COTANGENT_MISMATCH",
                f"The cotangent is {each}, the output {loss.aval}: shape and dtype must be equal.",
                expected=loss.aval,
                actual=each,
            )
    if cotangents:
        return
    if loss.aval.size != 1:
        raise make_error(
            "NON_SCALAR_LOSS",
            f"The loss has shape {loss.aval.shape}, that is {loss.aval.size} elements; a gradient is "
            "of one number. Reduce it (for example with sum), or give cotangent=.",
            actual=loss.aval.shape,
        )
    if loss.aval.dtype.kind == "c":
        raise make_error(
            "COMPLEX_LOSS",
            f"The loss is {loss.aval.dtype}; a gradient is of a real number. Take real() of it "
            "first, or give cotangent=.",
            actual=loss.aval.dtype,
        )


def check_directions(
    directions: Sequence[Iterable[tuple[Described, Aval]]], has_tangent: bool
) -> None:
    """Directions are tangents of leaves; without any, some leaf of the tape has one of its own."""
    if not directions and not has_tangent:
        raise hvp_without_tangent()
    for direction in directions:
        pairs = list(direction)
        if not pairs:
            raise make_error(
                "HVP_WITHOUT_TANGENT", "A direction names no leaf, so there is no v for H·v."
            )
        for leaf, tangent in pairs:
            if not leaf.is_leaf:
                raise make_error(
                    "INVALID_VALUE",
                    f"A tangent is given for {leaf.name}, which is no leaf; give tangents for leaves "
                    "only.",
                )
            check_leaf(leaf.aval, tangent)


def hvp_without_tangent() -> BackhaulError:
    """The error for an hvp that has no direction at all."""
    return make_error(
        "HVP_WITHOUT_TANGENT",
        "No leaf of this tape has a tangent, so there is no direction v for H·v. Make leaves with "
        "leaf_with_tangent(), or give tangents={leaf: array}.",
    )
