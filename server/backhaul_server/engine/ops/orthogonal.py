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
        lead = _leading(F, r, a)
        self._check(F, lead, a)
        # da1 r1^-1
        scaled = adjoint(F, _solve(F, adjoint(F, lead), adjoint(F, _leading(F, da, a)), trans="N"))
        inner = F.matmul(adjoint(F, q), scaled)
        turned = _turning(F, inner)
        dq = F.subtract(scaled, F.matmul(q, F.subtract(inner, turned)))
        # r = q^H a: of the lower triangle rounding alone is left, and goes.
        dr = F.add(F.matmul(adjoint(F, dq), a), F.matmul(adjoint(F, q), da))
        return dq, F.triu(dr)

    def cotangents(
        self, F: Namespace, ct: Any, y: Any, operands: Any, needs: Any, **keywords: Any
    ) -> Cotangents:
        (q, r), (cq, cr), (a,) = y, ct, operands
        lead = _leading(F, r, a)
        self._check(F, F.stop_gradient(lead), a)
        total = None
        if cr is not None:
            cr = F.triu(cr)
            leading = _leading(F, cr, a)
            if _is_wide(a):
                rest = F.subtract(cr, _widened(F, leading, a))
                total = F.matmul(q, rest)
                cq = plus(F, cq, F.matmul(a, adjoint(F, rest)))
            cr = F.matmul(leading, adjoint(F, lead))
        inner = None if cq is None else F.matmul(adjoint(F, q), cq)
        turning = plus(F, inner, None if cr is None else F.negative(cr))
        core = plus(F, _turning_adjoint(F, turning), cr)
        right = F.matmul(q, core)
        if cq is not None and a.shape[-2] > a.shape[-1]:
            right = F.add(right, F.subtract(cq, F.matmul(q, inner)))
        # right r1^-H
        back = adjoint(F, _solve(F, adjoint(F, lead), adjoint(F, right), trans="C"))
        return (plus(F, total, _widened(F, back, a)),)

    def _check(self, F: Namespace, lead: Array, a: Array) -> None:
        """Raise when the first columns depend on each other."""
        xp = F.xp
        diagonal = xp.abs(xp.sum(lead * xp.eye(lead.shape[-1], dtype=lead.dtype), axis=-1))
        if xp.any(diagonal <= spectra.close(xp, lead) * spectra.largest(xp, diagonal)):
            raise singular(F.xp, self.name, a)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **_: Any) -> Need:
        return spectra.matrix_need(operands, results)


def _is_wide(a: Array) -> bool:
    rows, columns = a.shape[-2:]
    return bool(columns > rows)


def _leading(F: Namespace, x: Array, a: Array) -> Array:
    """The first columns of x, as many as a has rows: all, where a is not wide."""
    return F.matmul(x, _selection(F, a)) if _is_wide(a) else x


def _widened(F: Namespace, x: Array, a: Array) -> Array:
    """The adjoint of `_leading`: zeros for the other columns."""
    return F.matmul(x, F.matrix_transpose(_selection(F, a))) if _is_wide(a) else x


def _selection(F: Namespace, a: Array) -> Array:
    rows, columns = a.shape[-2:]
    return F.xp.eye(columns, rows, dtype=a.dtype)


def _solve(F: Namespace, low: Array, b: Array, *, trans: str) -> Array:
    return F.linalg_solve_triangular(low, b, lower=True, trans=trans)


def _turning(F: Namespace, x: Array) -> Array:
    """The skew-Hermitian matrix with x's lower triangle, and the imaginary part of its diagonal."""
    low = F.tril(x, k=-1)
    return F.add(F.subtract(low, adjoint(F, low)), _imaginary_diagonal(F, x))


def _turning_adjoint(F: Namespace, z: Array) -> Array:
    low = F.tril(F.subtract(z, adjoint(F, z)), k=-1)
    return F.add(low, _imaginary_diagonal(F, z))


def _imaginary_diagonal(F: Namespace, x: Array) -> Array:
    return F.multiply(spectra.skew_part(F, x), spectra.eye(F, x))
