"""Rules of eigenvalues and eigenvectors of Hermitian matrices.

Giles (2008), An extended collection of matrix derivative results, 3.1; for complex matrices and what a
gauge is, Boeddeker et al. (2017), arXiv:1701.00392.
"""

from __future__ import annotations

from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import make_error
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops import spectra
from backhaul_server.engine.ops.linalg import adjoint, hermitian_part
from backhaul_server.engine.ops.refusals import LinAlgError
from backhaul_server.engine.rules import Array, Cotangents, Namespace, Rule, rule


def _eigh(xp: Any, op: str, a: Array) -> tuple[Array, Array]:
    """Eigenvalues and vectors of the Hermitian part; NaN for matrices that are not finite."""
    a = (a + xp.conj(xp.matrix_transpose(a))) / 2
    finite = xp.all(xp.isfinite(a), axis=(-2, -1), keepdims=True)
    sound = bool(xp.all(finite))
    try:
        w, v = xp.linalg.eigh(a if sound else xp.where(finite, a, xp.zeros((), dtype=a.dtype)))
    except LinAlgError:
        raise make_error(
            "NOT_CONVERGED",
            f"{op}: LAPACK found no eigenvalues of a matrix of shape {a.shape}.",
            op=op,
        ) from None
    if sound:
        return w, v
    nan = float("nan")
    return (
        xp.where(finite[..., 0], w, xp.asarray(nan, dtype=w.dtype)),
        xp.where(finite, v, xp.asarray(nan, dtype=v.dtype)),
    )


@rule("linalg.eigh")
class Eigh(Rule):
    """a = v diag(w) v^H. With m = v^H da v: dw = diag m, dv = v (m / (w_j - w_i)) off the diagonal."""

    def forward(self, xp: Any, a: Array) -> tuple[Array, Array]:
        return _eigh(xp, self.name, a)

    def jvp(self, F: Namespace, y: Any, a: Array, da: Array) -> Any:
        xp, (w, v) = F.xp, y
        moved = _in_basis(F, v, da)
        together = spectra.same_block(xp, w)
        if spectra.mixes(xp, together, moved, spectra.size(xp, moved)):
            raise spectra.degenerate(
                self.name, "eigenvectors of equal eigenvalues have no tangent", a
            )
        turned = F.multiply(spectra.inverse(F, spectra.differences(F, w), together), moved)
        return spectra.real_diagonal(F, moved), F.matmul(v, turned)

    def cotangents(
        self, F: Namespace, ct: Any, y: Any, operands: Any, needs: Any, **keywords: Any
    ) -> Cotangents:
        (w, v), (cw, cv), (a,) = y, ct, operands
        total = (
            None if cw is None else F.matmul(F.multiply(v, spectra.as_row(F, cw)), adjoint(F, v))
        )
        together = spectra.same_block(F.xp, F.stop_gradient(w))
        if cv is None:
            spectra.check_equal(F.xp, self.name, F.stop_gradient(w), F.stop_gradient(cw), a)
            return (total,)
        inner = F.matmul(adjoint(F, v), cv)
        turning = spectra.skew_part(F, inner)
        spectra.check_basis(
            F.xp,
            self.name,
            "eigenvalues",
            together,
            F.stop_gradient(turning),
            spectra.size(F.xp, F.stop_gradient(inner)),
            spectra.is_used(F.xp, F.stop_gradient(cv), -2),
            None if cw is None else F.stop_gradient(cw) != 0,
            a,
        )
        core = F.multiply(spectra.inverse(F, spectra.differences(F, w), together), turning)
        turned = F.matmul(F.matmul(v, core), adjoint(F, v))
        return (turned if total is None else F.add(total, turned),)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **_: Any) -> Need:
        return spectra.matrix_need(operands, results)


@rule("linalg.eigvalsh")
class Eigvalsh(Rule):
    """The eigenvalues; the residual is them and the vectors. dw is that of the sorted eigenvalues."""

    keeps = True

    def forward(self, xp: Any, a: Array) -> tuple[Array, Any]:
        w, v = _eigh(xp, self.name, a)
        return w, (w, v)

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array, residual: Any) -> tuple[Array, Any]:
        w, v = residual
        return spectra.rotation(F.xp, w, _in_basis(F, v, da))[0], residual

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, residual: Any) -> Any:
        return (lambda: F.eigvalsh_adjoint(a, ct, factors=residual),)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **_: Any) -> Need:
        return spectra.matrix_need(operands, operands)


def _in_basis(F: Namespace, v: Array, da: Array) -> Array:
    return F.matmul(F.matmul(adjoint(F, v), hermitian_part(F, da)), v)


@rule("eigvalsh_adjoint")
class EigvalshAdjoint(Rule):
    """y = v diag(ct) v^H: the gradient of a function of the eigenvalues.

    Its derivative holds at equal eigenvalues too, where ``ct`` is equal: there the perturbation chooses
    the basis.  Lewis and Sendov (2001), Twice differentiable spectral functions, theorem 3.3.
    """

    def forward(self, xp: Any, a: Array, ct: Array, factors: Any) -> Array:
        w, v = factors
        spectra.check_equal(xp, "linalg.eigvalsh", w, ct, a)
        return xp.matmul(v * ct[..., None, :], xp.conj(xp.matrix_transpose(v)))

    def jvp(
        self, F: Namespace, y: Array, a: Array, ct: Array, da: Array, dct: Array, factors: Any
    ) -> Array:
        w, v = factors
        vh = adjoint(F, v)
        if da is None:
            return F.matmul(F.multiply(v, spectra.as_row(F, dct)), vh)
        moved = _in_basis(F, v, da)
        core = spectra.along_perturbation(F, w, moved, ct, dct, moved)
        return F.matmul(F.matmul(v, core), vh)
