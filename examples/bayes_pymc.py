"""A Bayesian model in PyMC whose likelihood lives on the server.

    pip install 'backhaul[pytensor]' pymc
    python examples/bayes_pymc.py                 # a server in this process
    BACKHAUL_TARGET=host:50051 python examples/bayes_pymc.py

A Gaussian process of noisy measurements: the server holds them, and factorizes the covariance of each
proposal. NUTS asks for the log likelihood and its gradient together, one round trip a leapfrog step. A
proposal whose covariance has no Cholesky factor is rejected.
"""

from __future__ import annotations

import numpy as np
import pymc as pm

import backhaul as bh

rng = np.random.default_rng(1)
times = np.sort(rng.uniform(0.0, 10.0, 30))
measured = np.sin(times) + 0.1 * rng.standard_normal(times.size)
squared_distances = (times[:, None] - times[None, :]) ** 2


def log_likelihood(
    log_length: bh.TrackedTensor, log_height: bh.TrackedTensor, log_noise: bh.TrackedTensor
) -> bh.TrackedTensor:
    """Log N(measured; 0, K), K = height² exp(−d²/2 length²) + noise²."""
    kernel = bh.exp(2.0 * log_height - 0.5 * squared_distances * bh.exp(-2.0 * log_length))
    covariance = kernel + np.eye(times.size) * bh.exp(2.0 * log_noise)
    lower = bh.linalg.cholesky(covariance)
    z = bh.linalg.solve_triangular(lower, measured, lower=True)
    return -0.5 * bh.sum(z * z) - bh.sum(bh.log(bh.diagonal(lower)))


def main() -> None:
    with pm.Model():
        log_length = pm.Normal("log_length", 0.0, 1.0)
        log_height = pm.Normal("log_height", 0.0, 1.0)
        log_noise = pm.Normal("log_noise", -2.0, 1.0)
        f = bh.adapters.pytensor.logp(log_likelihood)
        pm.Potential("likelihood", f(log_length, log_height, log_noise))
        trace = pm.sample(100, tune=150, chains=1, cores=1, random_seed=1, progressbar=False)
    for name in ("log_length", "log_height", "log_noise"):
        values = np.exp(trace.posterior[name].values)
        print(f"{name.removeprefix('log_')} {values.mean():.3f} ± {values.std():.3f}")
    print("the noise was 0.100")


if __name__ == "__main__":
    main()
