"""Logistic regression by Newton-CG: the data and the products H·v stay on the server.

    python examples/newton_logistic.py            # a server in this process
    BACKHAUL_TARGET=host:50051 python examples/newton_logistic.py

The Hessian of n weights is never formed: Newton-CG asks for its products with directions, each a round
trip that sends the direction alone. The data are sent once.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import backhaul as bh

rng = np.random.default_rng(0)
rows, columns = 2_000, 50
true_weights = rng.standard_normal(columns)
data = rng.standard_normal((rows, columns))
labels = np.where(data @ true_weights + rng.logistic(size=rows) > 0.0, 1.0, -1.0)
prior = 1e-2


def loss(weights: bh.TrackedTensor) -> bh.TrackedTensor:
    """The mean negative log likelihood, with a Gaussian prior of the weights."""
    margins = labels * (data @ weights)
    return bh.mean(bh.softplus(-margins)) + 0.5 * prior * bh.sum(weights * weights)


def main() -> None:
    at = bh.adapters.scipy.objective(loss)
    start = np.zeros(columns)
    found = minimize(at.fun, start, jac=at.jac, hessp=at.hessp, method="Newton-CG", tol=1e-10)
    right = np.mean(np.sign(data @ found.x) == labels)
    print(f"{found.nit} Newton steps, {found.nhev} products H·v, {found.nfev} evaluations")
    print(
        f"loss {at.fun(start):.4f} -> {found.fun:.4f}, |gradient| {np.linalg.norm(found.jac):.1e}"
    )
    print(f"{right:.1%} of the rows are told right")
    errors = np.sqrt(np.diag(np.linalg.inv(rows * at.hess(found.x))))  # Laplace's approximation
    print(f"first weight {found.x[0]:.3f} ± {errors[0]:.3f}, of {true_weights[0]:.3f}, shrunk")


if __name__ == "__main__":
    main()
