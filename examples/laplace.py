"""Laplace approximation of a posterior, from Hessian-vector products alone.

Bayesian logistic regression with a normal prior. The posterior is approximated by a normal
distribution around its mode w*, with the inverse of the Hessian H of -log p(w, data) as covariance,
and so is the evidence:

    log p(data) ≈ log p(w*, data) + d/2 log 2π - 1/2 log det H

The mode is found by Newton's method with conjugate gradients, which asks for products H·v only.
Then variances are the diagonal of H⁻¹, from solves by conjugate gradients, many directions a round
trip; the determinant here is that of H itself, whose columns are one round trip too.

    python examples/laplace.py                    # a server inside this process
    BACKHAUL_TARGET=localhost:50051 python examples/laplace.py

See MacKay, "The evidence framework applied to classification networks", Neural Computation 4, 720
(1992).
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import backhaul as bh

ROWS: Final = 400
FEATURES: Final = 6
PRIOR: Final = 1.0
"""Precision of the prior: w ~ N(0, 1/PRIOR)."""

Real = NDArray[np.float64]


class Posterior(NamedTuple):
    """A normal approximation of it.

    Attributes:
        mode: shape (features,).
        deviations: standard deviations of the weights, shape (features,).
        log_evidence: of the data.
        questions: how often the server was asked.
    """

    mode: Real
    deviations: Real
    log_evidence: float
    questions: int


def data(seed: int = 0) -> tuple[Real, Real, Real]:
    """Inputs (rows, features), labels ±1 (rows,), and the weights that they were drawn with."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(ROWS, FEATURES))
    weights = rng.normal(size=FEATURES)
    labels = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-inputs @ weights)), 1.0, -1.0)
    return inputs, labels, weights


def energy(w: bh.TrackedTensor, inputs: Real, labels: Real) -> bh.TrackedTensor:
    """-log p(w, data), with the prior's constant."""
    likelihood = bh.sum(bh.softplus(-labels * bh.matvec(inputs, w)))
    constant = float(FEATURES / 2 * np.log(2 * np.pi / PRIOR))
    return likelihood + PRIOR / 2 * bh.einsum("i,i->", w, w) + constant


class Model:
    """-log p at one w after the other, on one tape.

    Attributes:
        questions: how often the server was asked.
    """

    def __init__(self, tape: bh.Tape, inputs: Real, labels: Real) -> None:
        self._tape = tape
        self._inputs = inputs
        self._labels = labels
        self.questions = 0

    def at(self, w: Real) -> tuple[bh.TrackedTensor, bh.TrackedTensor]:
        """The leaf, and the energy there."""
        leaf = self._tape.leaf(w)
        return leaf, energy(leaf, self._inputs, self._labels)

    def gradient(self, w: Real) -> tuple[float, Real]:
        """Value and gradient."""
        leaf, value = self.at(w)
        self.questions += 1
        found = self._tape.pullback(value)
        return float(found.value), found[leaf]

    def products(self, w: Real, directions: Real) -> Real:
        """H·v for each row v: one round trip, and the work at w is done once."""
        leaf, value = self.at(w)
        self.questions += 1
        found = self._tape.hvp(value, tangents=[{leaf: v} for v in directions])
        return np.stack([each.hvp[leaf] for each in found])


def conjugate_gradients(model: Model, w: Real, right: Real, tolerance: float = 1e-10) -> Real:
    """H⁻¹ b for each row b, all rows in step."""
    x = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    norm = (residual**2).sum(axis=1, keepdims=True)
    for _ in range(4 * w.size):
        if (norm <= tolerance**2).all():
            break
        product = model.products(w, direction)
        curvature = (direction * product).sum(axis=1, keepdims=True)
        step = np.divide(norm, curvature, out=np.zeros_like(norm), where=norm > tolerance**2)
        x += step * direction
        residual -= step * product
        before, norm = norm, (residual**2).sum(axis=1, keepdims=True)
        direction = (
            residual
            + np.divide(norm, before, out=np.zeros_like(norm), where=before > 0) * direction
        )
    return x


def approximate(target: str | None = None) -> Posterior:
    """Mode, deviations and evidence.

    Args:
        target: of a server; None: $BACKHAUL_TARGET, or one inside this process.
    """
    inputs, labels, _ = data()
    with bh.connect(target) as connection, bh.Tape(connection) as tape:
        model = Model(tape, inputs, labels)
        w = np.zeros(FEATURES)
        for _ in range(50):
            value, gradient = model.gradient(w)
            if np.linalg.norm(gradient) < 1e-9:
                break
            w = w - conjugate_gradients(model, w, gradient[np.newaxis])[0]  # convex: full steps do
        covariance = conjugate_gradients(model, w, np.eye(FEATURES))
        hessian = model.products(w, np.eye(FEATURES))
        log_evidence = -value + FEATURES / 2 * np.log(2 * np.pi) - np.linalg.slogdet(hessian)[1] / 2
        return Posterior(w, np.sqrt(np.diag(covariance)), float(log_evidence), model.questions)


def main() -> None:
    """Approximate, and print it beside the weights that the data were drawn with."""
    found = approximate(sys.argv[1] if len(sys.argv) > 1 else None)
    _, _, truth = data()
    print("weight   drawn with   posterior")
    for i, (drawn, mode, deviation) in enumerate(
        zip(truth, found.mode, found.deviations, strict=True)
    ):
        print(f"{i:6}   {drawn:10.3f}   {mode:6.3f} ± {deviation:.3f}")
    print(f"log evidence {found.log_evidence:.3f}, by {found.questions} questions")


if __name__ == "__main__":
    main()
