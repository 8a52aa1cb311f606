"""The job of the comparison: sum((A @ B)²) and its gradients. Needs NumPy alone."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Answer = tuple[float, Array, Array]
"""The value, and the gradients of A and of B."""
Ask = Callable[[Array, Array], Answer]

SIZES: Final = (2, 256, 1024)
_AGREE: Final = 1e-9


def operands(n: int) -> tuple[Array, Array]:
    """A and B, n × n, scaled so that their product's elements are of the order of one."""
    rng = np.random.default_rng(n)
    a, b = (rng.standard_normal((n, n)) / n**0.25 for _ in range(2))
    return a, b


def by_hand(a: Array, b: Array) -> Answer:
    """What one writes in NumPy."""
    c = a @ b
    ct = 2.0 * c
    return float(np.vdot(c, c)), ct @ b.T, a.T @ ct


def agrees(found: Answer, expected: Answer) -> bool:
    """Whether two answers are the same up to rounding."""
    return all(
        x.shape == y.shape and np.allclose(x, y, rtol=_AGREE, atol=_AGREE * np.abs(y).max())
        for x, y in zip(map(np.asarray, found), map(np.asarray, expected), strict=True)
    )


def free_port() -> int:
    """A port of the loopback for a server that cannot choose one itself."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
