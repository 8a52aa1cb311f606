"""What rules of eigenvalues and singular values share: gaps, checks of degeneracy and gauge.

Eigenvectors are defined up to phases, and up to any basis where eigenvalues are equal. A loss that does
not depend on that choice has a derivative; what a cotangent says against it is measured here.
"""

from __future__ import annotations

import math
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops.linalg import adjoint
from backhaul_server.engine.rules import Array, Namespace


def close(xp: Any, x: Array) -> float:
    """How near two values may be, relative to the largest, that still count as different.

    Rounding in a derivative grows with the inverse of their distance.
    """
    eps = float(xp.finfo(x.dtype).eps)
    return math.pow(eps, 2 / 3)


def negligible(xp: Any, x: Array) -> float:
    """What is rounding, relative to the largest."""
    return math.sqrt(float(xp.finfo(x.dtype).eps))


def largest(xp: Any, x: Array) -> Array:
    """The largest size among the last axis's elements, kept as an axis; nothing where there are none."""
    sizes = xp.abs(x)
    return xp.max(sizes, axis=-1, keepdims=True) if x.shape[-1] else sizes


def size(xp: Any, x: Array) -> float:
    """The largest size of all elements."""
    return 0.0 if 0 in x.shape else float(xp.max(xp.abs(x)))


def as_row(F: Namespace, v: Array) -> Array:
    """A vector as a matrix of one row."""
    return F.reshape(v, shape=(*v.shape[:-1], 1, v.shape[-1]))


def as_column(F: Namespace, v: Array) -> Array:
    """A vector as a matrix of one column."""
    return F.reshape(v, shape=(*v.shape, 1))


def eye(F: Namespace, x: Array) -> Array:
    """The identity of the size and dtype of a square matrix."""
    return F.xp.eye(x.shape[-1], dtype=x.dtype)


def real_diagonal(F: Namespace, x: Array) -> Array:
    """The real part of the diagonal."""
    return F.sum(F.real(F.multiply(x, eye(F, x))), axis=-1)


def skew_part(F: Namespace, x: Array) -> Array:
    """(x - x^H) / 2."""
    return F.multiply(F.subtract(x, adjoint(F, x)), 0.5)


def inverse(F: Namespace, x: Array, none: Array) -> Array:
    """1 / x, and 0 where ``none`` says so."""
    return F.where(none, 0.0, F.divide(1.0, F.where(none, 1.0, x)))


def differences(F: Namespace, w: Array) -> Array:
    """The matrix of w_j - w_i."""
    return F.subtract(as_row(F, w), as_column(F, w))


def blocks(xp: Any, w: Array) -> Array:
    """For sorted values, the number of the group of (nearly) equal ones that each is in."""
    n = w.shape[-1]
    if n < 2:
        return xp.zeros(w.shape, dtype=w.dtype)
    steps = xp.abs(w[..., 1:] - w[..., :-1]) > close(xp, w) * largest(xp, w)
    before = xp.tril(xp.ones((n, n), dtype=w.dtype))[:, 1:]
    return xp.sum(before * xp.astype(steps, w.dtype)[..., None, :], axis=-1)


def same_block(xp: Any, w: Array) -> Array:
    """For each pair of sorted values, whether they are (nearly) equal; each is so with itself."""
    return _equal_pairs(blocks(xp, w))


def _equal_pairs(number: Array) -> Array:
    return number[..., :, None] == number[..., None, :]


def mixes(xp: Any, together: Array, turning: Array, scale: float) -> bool:
    """Whether a matrix turns vectors of different but equal values into each other, rounding apart.

    Args:
        xp: the namespace.
        together: which pairs of values are equal (`same_block`).
        turning: what each pair is turned by.
        scale: what that is to be compared with.
    """
    others = together & ~xp.eye(together.shape[-1], dtype=together.dtype)
    return size(xp, xp.where(others, xp.abs(turning), 0)) > negligible(xp, turning) * scale


def rotation(xp: Any, w: Array, moved: Array) -> tuple[Array, Array]:
    """How a perturbation splits equal values: their tangents, ascending, and the basis that it chooses.

    Args:
        xp: the namespace.
        w: sorted values.
        moved: the perturbation, Hermitian, in the basis of the vectors.

    Returns:
        The tangents of w, and unitary matrices that mix equal values only.
        Kato (1995), Perturbation Theory for Linear Operators, II.2.
    """
    number = blocks(xp, w)
    together = _equal_pairs(number)
    one = xp.eye(w.shape[-1], dtype=w.dtype)
    if not xp.any(together & ~xp.eye(w.shape[-1], dtype=together.dtype)):
        diagonal = xp.sum(xp.real(moved) * one, axis=-1)
        return diagonal, xp.astype(xp.broadcast_to(one, moved.shape), moved.dtype)
    inside = xp.where(together, moved, xp.zeros((), dtype=moved.dtype))
    apart = 3 * w.shape[-1] * max(size(xp, inside), 1e-30)  # so that blocks stay in their order
    shift = number * apart
    shifted = inside + xp.astype(shift[..., None, :] * one, moved.dtype)
    found, basis = xp.linalg.eigh(shifted)
    return found - shift, xp.where(together, basis, xp.zeros((), dtype=moved.dtype))


def along_perturbation(
    F: Namespace, w: Array, moved: Array, ct: Array, dct: Array | None, splitting: Array
) -> Array:
    """How v diag(ct) v^H moves with a perturbation, in the basis of the vectors v.

    Args:
        F: the ops, on plain arrays.
        w: sorted values.
        moved: the perturbation, Hermitian, in that basis.
        ct: a number for each value, equal ones for equal values.
        dct: their tangents; None is zero.
        splitting: what splits equal values in the order of w: the perturbation, or its negative where w
            descends.
    """
    slopes = F.multiply(inverse(F, differences(F, w), same_block(F.xp, w)), differences(F, ct))
    core = F.multiply(slopes, moved)
    if dct is None:
        return core
    basis = rotation(F.xp, w, splitting)[1]
    return F.add(core, F.matmul(F.multiply(basis, as_row(F, dct)), adjoint(F, basis)))


def degenerate(op: str, what: str, x: Array) -> BackhaulError:
    """The error for a derivative that equal or zero values leave undefined."""
    return make_error(
        "DEGENERATE_SPECTRUM",
        f"{op}: {what}, for a matrix of shape {x.shape}. Use a loss that depends on the values alone "
        "(eigvalsh, svdvals), or on the vectors of different values; or add a small perturbation to x.",
        op=op,
        actual=x.shape,
    )


def check_phases(xp: Any, op: str, turning: Array, scale: float) -> None:
    """Raise when the cotangent turns phases of vectors, which are anyone's choice.

    Args:
        xp: the namespace.
        op: the op's name.
        turning: a skew-Hermitian matrix, whose diagonal is how much the loss changes with each phase.
        scale: what that is to be compared with.
    """
    n = turning.shape[-1]
    amount = size(xp, turning * xp.eye(n, dtype=turning.dtype))
    if amount > negligible(xp, turning) * scale:
        raise make_error(
            "GAUGE_DEPENDENT",
            f"{op}: the loss depends on the phases of the vectors ({amount / scale:.1e} of the size of "
            "their cotangent), which the decomposition leaves open, so it has no derivative. Combine the "
            "vectors so that phases cancel: v w v^H, |v|², u s vh.",
            op=op,
            actual=f"{amount / scale:.3g}",
        )


def check_basis(
    xp: Any,
    op: str,
    values: str,
    together: Array,
    turning: Array,
    scale: float,
    used: Array,
    valued: Array | None,
    x: Array,
) -> None:
    """Raise when the loss depends on the gauge, or equal values leave its derivative open.

    Args:
        xp: the namespace.
        op: the op's name.
        values: what its values are called.
        together: which pairs of them are equal (`same_block`).
        turning: how much the loss changes as vectors are turned into each other, skew-Hermitian.
        scale: what that is to be compared with.
        used: for each value, whether its vectors have a cotangent.
        valued: whether it has one itself; None: none has.
        x: the matrix.
    """
    if scale == 0:
        return
    check_phases(xp, op, turning, scale)
    if mixes(xp, together, turning, scale):
        raise degenerate(op, f"the loss depends on the basis of equal {values}' vectors", x)
    if valued is None:
        return
    either = used | valued
    others = together & ~xp.eye(together.shape[-1], dtype=together.dtype)
    both = others & either[..., :, None] & either[..., None, :]
    if xp.any(both & (valued[..., :, None] | valued[..., None, :])):
        raise degenerate(
            op,
            f"the loss depends on equal {values} and on their vectors, which leaves its derivative open",
            x,
        )


def check_equal(xp: Any, op: str, w: Array, ct: Array, x: Array) -> None:
    """Raise when equal values have different cotangents: their order is rounding's choice."""
    apart = xp.where(same_block(xp, w), xp.abs(ct[..., None, :] - ct[..., :, None]), 0)
    if size(xp, apart) > negligible(xp, ct) * size(xp, ct):
        raise degenerate(op, "the loss tells equal values apart, where it has a kink", x)


def is_used(xp: Any, ct: Array | None, axis: int) -> Any:
    """For each vector, whether a cotangent that is not zero belongs to it."""
    return False if ct is None else xp.any(ct != 0, axis=axis)


def matrix_need(operands: tuple[Aval, ...], results: tuple[Aval, ...]) -> Need:
    """The memory of a decomposition: LAPACK works on copies, derivatives make some dozen matrices."""
    given, made = operands[0].nbytes, sum(each.nbytes for each in results)
    return Need(
        value=given + 2 * made, kept=made, gradient=6 * (given + made), hvp=20 * (given + made)
    )
