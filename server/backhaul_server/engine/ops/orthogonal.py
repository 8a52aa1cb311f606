"""The rule of the QR decomposition.

Walter and Lehmann (2018), Algorithmic differentiation of linear algebra functions, 3.2 (real); the
complex case follows alike, r having a real diagonal.
"""

from __future__ import annotations

from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops import spectra
from backhaul_server.engine.ops.linalg import adjoint
from backhaul_server.engine.ops.refusals import singular
from backhaul_server.engine.rules import Array, Cotangents, Namespace, Rule, plus, rule


@rule("linalg.qr")
class Qr(Rule):
    """a = q r. Of a wide a, q and r's first columns are those of its first columns, and the rest is q^H a."""

    def forward(self, xp: Any, a: Array) -> tuple[Array, Array]:
        q, r = xp.linalg.qr(a)
        return q, r

    def jvp(self, F: Namespace, y: Any, a: Array, da: Array) -> Any:
        q, r = y
        first = _first(F, a)
        lead = F.matmul(r, first)
        self._check(F, lead, a)
        da1 = F.matmul(da, first)
        low = adjoint(F, lead)
        scaled = adjoint(F, _solve(F, low, adjoint(F, da1)))  # da1 r1^-1
        inner = F.matmul(adjoint(F, q), scaled)
        turned = _turning(F, inner)
        dq = F.subtract(scaled, F.matmul(q, F.subtract(inner, turned)))
        # r = q^H a: of the lower triangle rounding alone is left, and goes.
        dr = F.add(F.matmul(adjoint(F, dq), a), F.matmul(adjoint(F, q), da))
        return dq, _triu(F, dr)

    def cotangents(
        self, F: Namespace, ct: Any, y: Any, operands: Any, needs: Any, **keywords: Any
    ) -> Cotangents:
        (q, r), (cq, cr), (a,) = y, ct, operands
        first = _first(F, a)
        lead = F.matmul(r, first)
        self._check(F, F.stop_gradient(lead), a)
        total = None
        if cr is not None:
            cr = _triu(F, cr)
            rest = F.subtract(cr, F.matmul(F.matmul(cr, first), _transposed(F, first)))
            if a.shape[-1] > a.shape[-2]:
                total = F.matmul(q, rest)
                cq = plus(F, cq, F.matmul(a, adjoint(F, rest)))
            cr = F.matmul(F.matmul(cr, first), adjoint(F, lead))
        inner = None if cq is None else F.matmul(adjoint(F, q), cq)
        turning = plus(F, inner, None if cr is None else F.negative(cr))
        core = plus(F, _turning_adjoint(F, turning), cr)
        right = F.matmul(q, core)
        if cq is not None and a.shape[-2] > a.shape[-1]:
            right = F.add(right, F.subtract(cq, F.matmul(q, inner)))
        # right r1^-H
        back = adjoint(F, _solve(F, adjoint(F, lead), adjoint(F, right), adjoint=True))
        return (plus(F, total, F.matmul(back, _transposed(F, first))),)

    def _check(self, F: Namespace, lead: Array, a: Array) -> None:
        """Raise when the first columns depend on each other."""
        xp = F.xp
        diagonal = xp.abs(xp.sum(lead * xp.eye(lead.shape[-1], dtype=lead.dtype), axis=-1))
        if xp.any(diagonal <= spectra.close(xp, lead) * spectra.largest(xp, diagonal)):
            raise singular(F.xp, self.name, a)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **_: Any) -> Need:
        return spectra.matrix_need(operands, results)


def _first(F: Namespace, a: Array) -> Array:
    """What takes the first columns of a matrix, as many as it has rows: all, of one that is not wide."""
    m, n = a.shape[-2:]
    return F.xp.eye(n, min(m, n), dtype=a.dtype)


def _transposed(F: Namespace, x: Array) -> Array:
    return F.matrix_transpose(x)


def _triu(F: Namespace, x: Array) -> Array:
    return F.matrix_transpose(F.tril(F.matrix_transpose(x)))


def _solve(F: Namespace, low: Array, b: Array, *, adjoint: bool = False) -> Array:
    return F.linalg_solve_triangular(low, b, lower=True, trans="C" if adjoint else "N")


def _turning(F: Namespace, x: Array) -> Array:
    """The skew-Hermitian matrix with x's lower triangle, and the imaginary part of its diagonal."""
    low = F.tril(x, k=-1)
    return F.add(F.subtract(low, adjoint(F, low)), _imaginary_diagonal(F, x))


def _turning_adjoint(F: Namespace, z: Array) -> Array:
    low = F.tril(F.subtract(z, adjoint(F, z)), k=-1)
    return F.add(low, _imaginary_diagonal(F, z))


def _imaginary_diagonal(F: Namespace, x: Array) -> Array:
    return F.multiply(spectra.skew_part(F, x), spectra.eye(F, x))
