"""Rules of determinants.

The derivative of det is made of minors. Far from singular matrices they are det times the inverse.
Elsewhere, with a = u s v^H, they are those of the diagonal s, turned back: products of all singular
values but one (of all but two in second order), where nothing is divided by a singular value that may
be zero, nor by a difference of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops.linalg import adjoint
from backhaul_server.engine.ops.refusals import LinAlgError, svd
from backhaul_server.engine.ops.solving import Inv, inverse
from backhaul_server.engine.rules import Array, Namespace, Rule, rule


@rule("linalg.det")
class Det(Rule):
    """y = det a, with dy = sum of c da, c the cofactors."""

    def forward(self, xp: Any, a: Array) -> Array:
        y = xp.linalg.det(a)
        if xp.any(y == 0):  # LAPACK takes some matrices with NaN for singular
            known = xp.all(xp.isfinite(a), axis=(-2, -1))
            y = xp.where(known, y, xp.asarray(float("nan"), dtype=y.dtype))
        return y

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array) -> Array:
        return F.sum(F.multiply(F.cofactors(a), da), axis=(-2, -1))

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array) -> Any:
        return (lambda: F.multiply(_as_matrices(F, ct), F.conj(F.cofactors(a))),)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        a = operands[0].nbytes
        return Need(value=a, kept=0, gradient=5 * a, hvp=16 * a)


def _as_matrices(F: Namespace, ct: Array) -> Array:
    return F.reshape(ct, shape=(*ct.shape, 1, 1))


@rule("cofactors")
class Cofactors(Rule):
    """c, the transpose of adj a. The residual is the way in which it was found."""

    keeps = True

    def forward(self, xp: Any, a: Array) -> tuple[Array, Any]:
        found = _by_inverse(xp, a) or _by_singular_values(xp, a)
        return found.cofactors(xp), found

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array, residual: Any) -> tuple[Array, Any]:
        return residual.moved(F.xp, da), residual


@dataclass(frozen=True, slots=True)
class ByInverse:
    """adj a = det(a) a^-1: the shorter way, for matrices that are far from singular."""

    det: Array
    inverse: Array

    def cofactors(self, xp: Any) -> Array:
        """The cofactors."""
        return self.det * xp.matrix_transpose(self.inverse)

    def moved(self, xp: Any, da: Array) -> Array:
        """Their derivative along da.  Giles (2008), 2.2.3 and 2.2.4."""
        product = xp.matmul(self.inverse, da)
        eye = xp.eye(da.shape[-1], dtype=da.dtype)
        trace = xp.sum(eye * product, axis=(-2, -1), keepdims=True)
        moved = trace * self.inverse - xp.matmul(product, self.inverse)
        return self.det * xp.matrix_transpose(moved)


def _by_inverse(xp: Any, a: Array) -> ByInverse | None:
    """That way where it loses at most a quarter of the digits, and nothing overflows; else None."""
    if a.size == 0:
        return None
    try:
        inverse = xp.linalg.inv(a)
    except LinAlgError:
        return None
    det = xp.linalg.det(a)
    sizes = [xp.max(xp.abs(x), axis=(-2, -1)) for x in (a, inverse)]
    limits = xp.finfo(a.dtype)
    digits = xp.log2(sizes[0]) + xp.log2(sizes[1])  # of the condition number, which could overflow
    least = -0.25 * math.log2(float(limits.eps)) - math.log2(a.shape[-1])
    safe = (digits < least) & (xp.abs(det) > float(limits.smallest_normal))
    if not xp.all(safe & xp.isfinite(det)):
        return None
    return ByInverse(det[..., None, None], inverse)


@dataclass(frozen=True, slots=True)
class BySingularValues:
    """adj a = det(u) det(v^H) v adj(s) u^H, for any matrix; ``phase`` is the product of both determinants.

    Along m (that is u^H da v), adj of the diagonal s moves by diag(p diag(m)) - p * m, where p_ij is the
    product of all singular values but the i-th and the j-th, and p_ii is zero.
    """

    u: Array
    s: Array
    vh: Array
    phase: Array

    def cofactors(self, xp: Any) -> Array:
        """The cofactors."""
        left = xp.conj(self.u) * _all_but_one(xp, self.s)[..., None, :]
        return self.phase * xp.matmul(left, xp.conj(self.vh))

    def moved(self, xp: Any, da: Array) -> Array:
        """Their derivative along da."""
        u, vh = self.u, self.vh
        uh, v = (xp.conj(xp.matrix_transpose(x)) for x in (u, vh))
        m = xp.matmul(uh, xp.matmul(da, v))
        p = xp.astype(_all_but_two(xp, self.s), m.dtype)
        eye = xp.eye(m.shape[-1], dtype=m.dtype)
        traces = xp.matmul(p, xp.sum(eye * m, axis=-1, keepdims=True))
        moved = xp.matrix_transpose(eye * traces - p * m)
        return self.phase * xp.matmul(xp.conj(u), xp.matmul(moved, xp.conj(vh)))


def _by_singular_values(xp: Any, a: Array) -> BySingularValues:
    u, s, vh = svd(xp, a)
    phase = xp.linalg.det(xp.matmul(u, vh))
    return BySingularValues(u, s, vh, phase[..., None, None])


def _all_but_one(xp: Any, s: Array) -> Array:
    """For each i the product of all s but s_i: zero where another is zero."""
    zero, exponents, factors = _scaled(xp, s)
    others = xp.sum(zero, axis=-1, keepdims=True) - zero
    exponent = xp.sum(exponents, axis=-1, keepdims=True) - exponents
    product = xp.prod(factors, axis=-1, keepdims=True) / factors
    return _unscaled(xp, product, exponent, others)


def _all_but_two(xp: Any, s: Array) -> Array:
    """For each i and j the product of all s but s_i and s_j; zero for i = j."""
    zero, exponents, factors = _scaled(xp, s)

    def without(total: Array, of: Array) -> Array:
        return total[..., None] - of[..., :, None] - of[..., None, :]

    others = without(xp.sum(zero, axis=-1, keepdims=True), zero)
    eye = xp.eye(s.shape[-1], dtype=xp.bool)
    zero_exponent = xp.zeros((), dtype=s.dtype)
    exponent = without(xp.sum(exponents, axis=-1, keepdims=True), exponents)
    exponent = xp.where(
        eye, zero_exponent, exponent
    )  # or what is dropped in the end could overflow
    pairs = factors[..., :, None] * factors[..., None, :]
    product = _unscaled(
        xp, xp.prod(factors, axis=-1, keepdims=True)[..., None] / pairs, exponent, others
    )
    return xp.where(eye, xp.zeros((), dtype=s.dtype), product)


def _scaled(xp: Any, s: Array) -> tuple[Array, Array, Array]:
    """Where s is zero; else s as 2^exponent times a factor near 1, for products."""
    zero = s == 0
    safe = xp.where(zero, xp.ones((), dtype=s.dtype), s)
    exponents = xp.round(xp.log2(safe))
    return xp.astype(zero, s.dtype), exponents, safe / _two_to(xp, exponents)


def _unscaled(xp: Any, product: Array, exponent: Array, zeros: Array) -> Array:
    half = xp.round(exponent / 2)
    whole = product * _two_to(xp, half) * _two_to(xp, exponent - half)
    return xp.where(zeros > 0, xp.zeros((), dtype=product.dtype), whole)


def _two_to(xp: Any, exponent: Array) -> Array:
    return xp.pow(xp.asarray(2, dtype=exponent.dtype), exponent)


@rule("linalg.slogdet")
class Slogdet(Rule):
    """(sign, logarithm of the absolute value) of det a.  Giles (2008), 2.2.4.

    With z = tr(a^-1 da) the logarithm moves by Re z, and a complex sign by i sign Im z.
    """

    def forward(self, xp: Any, a: Array) -> tuple[Array, Array]:
        sign, logarithm = xp.linalg.slogdet(a)
        return sign, logarithm

    def jvp(self, F: Namespace, y: Any, a: Array, da: Array) -> Any:
        moved = F.multiply(F.matrix_transpose(F.inverse(a, op=self.name)), da)
        z = F.sum(moved, axis=(-2, -1))
        if not F.xp.is_complex(a.dtype):
            return None, z
        i = F.xp.asarray(1j, dtype=a.dtype)
        return F.multiply(F.multiply(y[0], i), F.imag(z)), F.real(z)

    def vjp(self, F: Namespace, ct: Any, y: Any, a: Array) -> Any:
        def of_a() -> Array:
            weight = ct[1]
            if F.xp.is_complex(a.dtype) and ct[0] is not None:
                turned = F.negative(F.imag(F.multiply(F.conj(ct[0]), y[0])))
                turned = F.multiply(turned, F.xp.asarray(1j, dtype=a.dtype))
                weight = turned if weight is None else F.add(weight, turned)
            if weight is None:
                return None
            return F.multiply(_as_matrices(F, weight), adjoint(F, F.inverse(a, op=self.name)))

        return (of_a,)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        a = operands[0].nbytes
        return Need(value=a, kept=0, gradient=4 * a, hvp=10 * a)


@rule("inverse")
class Inverse(Inv):
    """The inverse for a rule, whose op is named where there is none."""

    # `op` is a keyword of its own, which the base has not.
    def forward(self, xp: Any, a: Array, op: str) -> Array:  # type: ignore[override]  # see above
        return inverse(xp, op, a)

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array, op: str) -> Array:  # type: ignore[override]  # see above
        return super().jvp(F, y, a, da)
