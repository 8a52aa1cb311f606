"""What the tests differentiate, and what they compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import backhaul as bh

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(17)
X = RNG.normal(size=3)
A = RNG.normal(size=(4, 3))
Y = RNG.normal(size=4)


def bowl(x: Any) -> Any:
    """A loss of a vector, with a full Hessian; of tensors or of arrays."""
    return (np.tanh(A @ x) ** 2).sum() + np.exp(x).sum() * 0.1 + (x * x * x).sum()


def differences(f: Callable[[Array], Any], x: Array, step: float = 1e-5) -> Array:
    """The derivatives of an array by each element of x, by central differences: those elements first."""
    found = []
    for i in range(x.size):
        e = np.zeros(x.size)
        e[i] = step
        e = e.reshape(x.shape)
        found.append((np.asarray(f(x + e)) - np.asarray(f(x - e))) / (2 * step))
    return np.array(found)


def mlp(params: dict[str, Any], x: Any, y: Any) -> Any:
    """A small network's loss, of parameters in containers."""
    hidden = np.tanh(x @ params["first"]["w"] + params["first"]["b"])
    out = hidden @ params["last"][0] + params["last"][1]
    return bh.mean((out - y) ** 2)


def mlp_arguments() -> tuple[dict[str, Any], Array, Array]:
    """Parameters and data for `mlp`."""
    rng = np.random.default_rng(3)
    params = {
        "first": {"w": rng.normal(size=(2, 4)), "b": rng.normal(size=4)},
        "last": (rng.normal(size=4), 0.3),
    }
    return params, rng.normal(size=(6, 2)), rng.normal(size=6)
