"""Fit a matrix product state to data: a Born machine that learns which bit strings occur.

A state of n sites gives the string s the probability |<s|psi>|² / <psi|psi>. Here the strings are
those with exactly one 1, each as likely as the next (a W state, which bond dimension 2 can hold
exactly), and the loss is the mean of -log p. Its least value is the entropy of the data, log n.

    python examples/matrix_product_state.py                    # a server inside this process
    BACKHAUL_TARGET=localhost:50051 python examples/matrix_product_state.py

See Han et al., "Unsupervised generative modeling using matrix product states", Phys. Rev. X 8,
031012 (2018).
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

import backhaul as bh

SITES: Final = 8
BOND: Final = 2
STEPS: Final = 300

Real = NDArray[np.float64]


class Fit(NamedTuple):
    """What was found.

    Attributes:
        losses: the mean of -log p, before each step.
        probabilities: of the strings of the data, at the end.
    """

    losses: list[float]
    probabilities: Real


def data() -> Real:
    """The strings with one 1, one-hot: shape (strings, sites, 2)."""
    return np.eye(2)[np.eye(SITES, dtype=int)]


def start(rng: np.random.Generator) -> list[Real]:
    """Tensors of shape (left, 2, right) near those of a product state: no string has probability 0."""
    bonds = [1, *[BOND] * (SITES - 1), 1]
    return [
        np.ones((left, 2, right)) / 2 + 0.3 * rng.normal(size=(left, 2, right))
        for left, right in pairwise(bonds)
    ]


def minus_log_probability(state: list[bh.TrackedTensor], strings: Real) -> bh.TrackedTensor:
    """Of each string: shape (strings,)."""
    amplitudes: list[object] = []
    norm: list[object] = []
    batch = 1000
    for site, tensor in enumerate(state):
        left, right, physical = site, site + 1, 100 + site
        amplitudes += [tensor, [left, physical, right], strings[:, site], [batch, physical]]
        norm += [tensor, [left, physical, right], tensor, [200 + left, physical, 200 + right]]
    psi = bh.einsum(*amplitudes, [batch])
    return bh.log(bh.einsum(*norm, [])) - 2 * bh.log(bh.abs(psi))


def fit(target: str | None = None, seed: int = 3) -> Fit:
    """Adam on the tape: the weights and its moments never leave the server, a step is one round trip.

    Args:
        target: of a server; None: $BACKHAUL_TARGET, or one inside this process.
        seed: of the start.
    """
    losses: list[float] = []
    with bh.connect(target) as connection, bh.Tape(connection) as tape:
        strings = data()
        weights = [tape.leaf(tensor) for tensor in start(np.random.default_rng(seed))]
        means = [tape.constant(np.zeros(w.shape)) for w in weights]
        squares = [tape.constant(np.zeros(w.shape)) for w in weights]
        for step in range(1, STEPS + 1):
            loss = bh.mean(minus_log_probability(weights, strings))
            gradients = tape.pullback(loss, fetch=False)
            losses.append(float(gradients.value))
            # What changes from step to step is an operand: so the program stays the same one to the server.
            rate = np.array(0.05 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step))
            for i, w in enumerate(weights):
                means[i] = (0.9 * means[i] + 0.1 * gradients[w]).detach()
                squares[i] = (0.99 * squares[i] + 0.01 * gradients[w] ** 2).detach()
                weights[i] = tape.leaf(w - rate * means[i] / (bh.sqrt(squares[i]) + 1e-8))
        return Fit(losses, np.exp(-minus_log_probability(weights, strings).numpy()))


def main() -> None:
    """Fit, and print how it went."""
    found = fit(sys.argv[1] if len(sys.argv) > 1 else None)
    for step in range(0, STEPS, 50):
        print(f"step {step:4}  -log p {found.losses[step]:.6f}")
    print(
        f"at the end -log p {found.losses[-1]:.6f}; the entropy of the data is {np.log(SITES):.6f}"
    )
    print("probabilities", found.probabilities.round(4))


if __name__ == "__main__":
    main()
