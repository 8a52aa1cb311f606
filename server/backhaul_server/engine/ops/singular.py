"""Rules of singular values and vectors, of all or of the largest.

Townsend (2016), Differentiating the singular value decomposition; for complex matrices Wan and Zhang
(2019), arXiv:1909.02659; for the discarded space Francuz, Schuch and Vanhecke (2023), arXiv:2311.11894.

With p = u^H da v, split into its Hermitian part h and its skew one k, and for each pair of values
e = 1 / (s_j - s_i), g = 1 / (s_j + s_i): ds = diag h, du = u (e h + g k) + ..., dv = v (e h - g k) + ...,
where the dots are what lies outside of the kept vectors. There the discarded part d = a - u s vh of the
matrix comes in: the columns of du solve (s_j² - d d^H) x_j = b_j, likewise dv.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import make_error
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops import spectra
from backhaul_server.engine.ops.linalg import adjoint, hermitian_part
from backhaul_server.engine.ops.refusals import LinAlgError, svd
from backhaul_server.engine.rules import Array, Cotangents, Namespace, Rule, plus, rule


def _svd(xp: Any, op: str, a: Array) -> tuple[Array, Array, Array]:
    try:
        u, s, vh = svd(xp, a)
    except LinAlgError:
        raise make_error(
            "NOT_CONVERGED",
            f"{op}: LAPACK found no singular values of a matrix of shape {a.shape}.",
            op=op,
        ) from None
    return u, s, vh


def _is_zero(xp: Any, s: Array) -> Array:
    """Which singular values are rounding."""
    return s <= spectra.close(xp, s) * spectra.largest(xp, s)


class Svd(Rule):
    """(u, s, vh) of a; the residual is the factors that were discarded, none for the whole decomposition."""

    keeps = True

    def jvp(
        self, F: Namespace, y: Any, a: Array, da: Array, residual: Any, rank: int | None = None
    ) -> tuple[Any, Any]:
        xp, (u, s, vh) = F.xp, y
        v, uh = adjoint(F, vh), adjoint(F, u)
        inner = F.matmul(F.matmul(uh, da), v)
        even, odd = hermitian_part(F, inner), spectra.skew_part(F, inner)
        together = spectra.same_block(xp, s)
        if spectra.mixes(xp, together, even, spectra.size(xp, inner)):
            raise spectra.degenerate(
                self.name, "vectors of equal singular values have no tangent", a
            )
        if xp.any(_is_zero(xp, s)):
            raise spectra.degenerate(self.name, "vectors of a singular value 0 have no tangent", a)
        self._check_cut(xp, s, residual, a)
        none = xp.zeros(together.shape, dtype=together.dtype)
        even = F.multiply(spectra.inverse(F, spectra.differences(F, s), together), even)
        odd = F.multiply(spectra.inverse(F, _sums(F, s), none), odd)
        outside = _outside(F, u, s, vh, a, residual)
        du = plus(
            F,
            F.matmul(u, F.add(even, odd)),
            outside.left(F.matmul(da, v), F.matmul(adjoint(F, da), u)),
        )
        dv = plus(
            F,
            F.matmul(v, F.subtract(even, odd)),
            outside.right(F.matmul(adjoint(F, da), u), F.matmul(da, v)),
        )
        return (du, spectra.real_diagonal(F, inner), adjoint(F, dv)), residual

    def cotangents(
        self,
        F: Namespace,
        ct: Any,
        y: Any,
        operands: Any,
        needs: Any,
        residual: Any = None,
        **_: Any,
    ) -> Cotangents:
        (u, s, vh), (cu, cs, cvh), (a,) = y, ct, operands
        xp, uh = F.xp, adjoint(F, u)
        values = F.stop_gradient(s)
        zero = _is_zero(xp, values)
        self._check_cut(xp, values, residual, a)
        core = None
        if cs is not None:
            kept = F.where(zero, 0.0, cs)  # at 0 a singular value has a kink, as abs has
            core = F.multiply(xp.eye(s.shape[-1], dtype=u.dtype), spectra.as_row(F, kept))
        if cu is None and cvh is None:
            spectra.check_equal(xp, self.name, values, F.stop_gradient(cs), a)
            return (F.matmul(F.matmul(u, core), vh),)
        cv = None if cvh is None else adjoint(F, cvh)
        left = None if cu is None else F.matmul(uh, cu)
        right = None if cv is None else F.matmul(vh, cv)
        turn_u = None if left is None else spectra.skew_part(F, left)
        turn_v = None if right is None else spectra.skew_part(F, right)
        turning = plus(F, turn_u, turn_v)
        together = spectra.same_block(xp, values)
        self._check(F, zero, together, ct, (left, right), turning, a)
        nowhere = zero[..., :, None] & zero[..., None, :]
        core = plus(
            F,
            core,
            F.multiply(spectra.inverse(F, spectra.differences(F, s), together), turning),
            F.multiply(
                spectra.inverse(F, _sums(F, s), nowhere),
                plus(F, turn_u, None if turn_v is None else F.negative(turn_v)),
            ),
        )
        outside = _outside(F, u, s, vh, a, residual)
        total = F.matmul(F.matmul(u, core), vh)
        of_u, of_v = outside.left(cu, cv), outside.right(cv, cu)
        return (
            plus(
                F,
                total,
                None if of_u is None else F.matmul(of_u, vh),
                None if of_v is None else F.matmul(u, adjoint(F, of_v)),
            ),
        )

    def _check(
        self,
        F: Namespace,
        zero: Array,
        together: Array,
        ct: Any,
        inner: Sequence[Array | None],
        turning: Array,
        a: Array,
    ) -> None:
        """Raise when the loss depends on the gauge, or equal or zero values leave its derivative open."""
        xp = F.xp
        cu, cs, cvh = (None if c is None else F.stop_gradient(c) for c in ct)
        used = spectra.is_used(xp, cu, -2) | spectra.is_used(xp, cvh, -1)
        if xp.any(used & zero):
            raise spectra.degenerate(
                self.name,
                "the loss depends on the vectors of a singular value 0, which may be any",
                a,
            )
        spectra.check_basis(
            xp,
            self.name,
            "singular values",
            together,
            F.stop_gradient(turning),
            max(spectra.size(xp, F.stop_gradient(x)) for x in inner if x is not None),
            used,
            None if cs is None else (cs != 0) & ~zero,
            a,
        )

    def _check_cut(self, xp: Any, s: Array, residual: Any, a: Array) -> None:
        """Raise when the first value that was discarded equals the last that was kept."""
        if residual is None or not residual[1].shape[-1] or not s.shape[-1]:
            return
        gap = s[..., -1:] - residual[1][..., :1]
        if xp.any(gap <= spectra.close(xp, s) * spectra.largest(xp, s)):
            raise spectra.degenerate(
                self.name,
                "the last singular value that is kept equals the first that is not, so which is kept is "
                "rounding's choice; keep more or fewer",
                a,
            )

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **_: Any) -> Need:
        return spectra.matrix_need(operands, results)


@rule("linalg.svd")
class WholeSvd(Svd):
    """All singular values."""

    def forward(self, xp: Any, a: Array) -> tuple[Any, Any]:
        return _svd(xp, self.name, a), None


@rule("linalg.svd_truncated")
class TruncatedSvd(Svd):
    """The largest singular values."""

    def forward(self, xp: Any, a: Array, rank: int) -> tuple[Any, Any]:
        u, s, vh = _svd(xp, self.name, a)
        kept = (u[..., :rank], s[..., :rank], vh[..., :rank, :])
        if rank == s.shape[-1]:
            return kept, None
        return kept, (u[..., rank:], s[..., rank:], vh[..., rank:, :])


def _sums(F: Namespace, s: Array) -> Array:
    return F.add(spectra.as_row(F, s), spectra.as_column(F, s))


@dataclass(frozen=True, slots=True)
class _Outside:
    """The space outside of the vectors that were kept, as derivatives see it.

    Attributes:
        F: the ops.
        u: the vectors that were kept, in columns.
        s: their values.
        v: the vectors on the right, in columns.
        discarded: the part of the matrix that was not kept, d; None where all was.
        factors: its factors.
    """

    F: Namespace
    u: Array
    s: Array
    v: Array
    discarded: Array | None
    factors: Any

    def left(self, x: Array | None, across: Array | None) -> Array | None:
        """Columns y_j with (s_j² - d d^H) y_j = s_j (x_j outside of u) + d across_j."""
        return self._columns(self.u, self.discarded, x, across, left=True)

    def right(self, x: Array | None, across: Array | None) -> Array | None:
        """The same of v, with d^H in place of d."""
        d = self.discarded
        turned = None if d is None else adjoint(self.F, d)
        return self._columns(self.v, turned, x, across, left=False)

    def _columns(
        self, kept: Array, d: Array | None, x: Array | None, across: Array | None, *, left: bool
    ) -> Array | None:
        F = self.F
        if kept.shape[-2] == kept.shape[-1]:
            return None  # it is unitary: nothing is outside
        own = None
        if x is not None:
            own = F.subtract(x, F.matmul(kept, F.matmul(adjoint(F, kept), x)))
            own = F.multiply(own, spectra.as_row(F, self.s))
        if across is not None and d is not None:
            own = plus(F, own, F.matmul(d, across))
        return None if own is None else self._resolved(own, left=left)

    def _resolved(self, b: Array, *, left: bool) -> Array:
        F = self.F
        if self.discarded is None:
            none = _is_zero(F.xp, F.stop_gradient(self.s))
            return F.multiply(b, spectra.as_row(F, spectra.inverse(F, F.square(self.s), none)))
        return F.svd_resolvent(self.discarded, self.s, b, factors=self.factors, left=left)


def _outside(F: Namespace, u: Array, s: Array, vh: Array, a: Array, factors: Any) -> _Outside:
    discarded = None
    if factors is not None:
        discarded = F.subtract(a, F.matmul(F.multiply(u, spectra.as_row(F, s)), vh))
    return _Outside(F, u, s, adjoint(F, vh), discarded, factors)


@rule("svd_resolvent")
class SvdResolvent(Rule):
    """The columns y_j with (s_j² - x x^H) y_j = b_j (x^H x when not left), by x's own factors."""

    def forward(self, xp: Any, x: Array, s: Array, b: Array, factors: Any, left: bool) -> Array:
        u, small, vh = factors
        basis = u if left else xp.conj(xp.matrix_transpose(vh))
        large, small = (s**2)[..., None, :], (small**2)[..., :, None]
        zero = _is_zero(xp, s)[..., None, :]
        large = xp.where(zero, xp.asarray(1, dtype=s.dtype), large)
        inside = xp.matmul(xp.conj(xp.matrix_transpose(basis)), b)
        weights = xp.where(zero, xp.asarray(0, dtype=s.dtype), small / (large * (large - small)))
        scaled = xp.where(zero, xp.asarray(0, dtype=b.dtype), b / large)
        return scaled + xp.matmul(basis, weights * inside)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        s: Array,
        b: Array,
        dx: Array,
        ds: Array,
        db: Array,
        factors: Any,
        left: bool,
    ) -> Array:
        right = db
        if ds is not None:
            change = F.multiply(F.multiply(s, ds), 2.0)
            right = plus(F, right, F.negative(F.multiply(y, spectra.as_row(F, change))))
        if dx is not None:
            one, moved = (x, dx) if left else (adjoint(F, x), adjoint(F, dx))
            right = plus(
                F,
                right,
                F.matmul(moved, F.matmul(adjoint(F, one), y)),
                F.matmul(one, F.matmul(adjoint(F, moved), y)),
            )
        return F.svd_resolvent(x, s, right, factors=factors, left=left)


@rule("linalg.svdvals")
class Svdvals(Rule):
    """The singular values; the residual is the factors. ds is that of the sorted values."""

    keeps = True

    def forward(self, xp: Any, a: Array) -> tuple[Array, Any]:
        u, s, vh = _svd(xp, self.name, a)
        return s, (u, s, vh)

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array, residual: Any) -> tuple[Array, Any]:
        u, s, vh = residual
        even = hermitian_part(F, _in_basis(F, u, vh, da))
        return -spectra.rotation(F.xp, s, -even)[0], residual

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, residual: Any) -> Any:
        return (lambda: F.svdvals_adjoint(a, ct, factors=residual),)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **_: Any) -> Need:
        return spectra.matrix_need(operands, operands)


def _counts(xp: Any, ct: Array, zero: Array) -> bool:
    """Whether a function of the singular values depends on those that are zero, more than by rounding."""
    return spectra.size(xp, xp.where(zero, ct, xp.asarray(0, dtype=ct.dtype))) > (
        spectra.negligible(xp, ct) * spectra.size(xp, ct)
    )


def _in_basis(F: Namespace, u: Array, vh: Array, da: Array) -> Array:
    return F.matmul(F.matmul(adjoint(F, u), da), adjoint(F, vh))


@rule("svdvals_adjoint")
class SvdvalsAdjoint(Rule):
    """y = u diag(ct) vh: the gradient of a function of the singular values.

    Its derivative holds at equal values too, where ``ct`` is equal: there the perturbation chooses the
    basis. A singular value 0 has a kink, as abs has: its part of the gradient is 0, and where ``ct`` is
    not zero there, there is no second derivative.
    """

    def forward(self, xp: Any, a: Array, ct: Array, factors: Any) -> Array:
        u, s, vh = factors
        spectra.check_equal(xp, "linalg.svdvals", s, ct, a)
        ct = xp.where(_is_zero(xp, s), xp.asarray(0, dtype=ct.dtype), ct)
        return xp.matmul(u * ct[..., None, :], vh)

    def jvp(
        self, F: Namespace, y: Array, a: Array, ct: Array, da: Array, dct: Array, factors: Any
    ) -> Array:
        xp, (u, s, vh) = F.xp, factors
        if da is None:
            return F.matmul(F.multiply(u, spectra.as_row(F, dct)), vh)
        zero = _is_zero(xp, s)
        for each in (ct, dct):
            if each is not None and _counts(xp, each, zero):
                raise spectra.degenerate(
                    "linalg.svdvals", "at a singular value 0 there is no second derivative", a
                )
        ct = xp.where(zero, xp.asarray(0, dtype=ct.dtype), ct)
        inner = _in_basis(F, u, vh, da)
        even, odd = hermitian_part(F, inner), spectra.skew_part(F, inner)
        nowhere = zero[..., :, None] & zero[..., None, :]
        core = F.add(
            spectra.along_perturbation(F, s, even, ct, dct, -even),
            F.multiply(F.multiply(spectra.inverse(F, _sums(F, s), nowhere), _sums(F, ct)), odd),
        )
        ratio = spectra.as_row(F, F.multiply(spectra.inverse(F, s, zero), ct))
        outside_u = F.subtract(F.matmul(da, adjoint(F, vh)), F.matmul(u, inner))
        outside_v = F.subtract(
            F.matmul(adjoint(F, da), u), F.matmul(adjoint(F, vh), adjoint(F, inner))
        )
        return plus(
            F,
            F.matmul(F.matmul(u, core), vh),
            F.matmul(F.multiply(outside_u, ratio), vh),
            F.matmul(F.multiply(u, ratio), adjoint(F, outside_v)),
        )
