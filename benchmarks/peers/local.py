"""The job in process: JAX, compiled, and torch. Arrays come as NumPy's and go as NumPy's."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from benchmarks.peers.job import Answer, Array, Ask, by_hand


def _numpy() -> Ask:
    return by_hand


def _jax() -> Ask:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)

    def loss(a: Any, b: Any) -> Any:
        c = a @ b
        return (c * c).sum()

    compiled = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))

    def ask(a: Array, b: Array) -> Answer:
        value, (ga, gb) = compiled(a, b)
        return float(value), np.asarray(ga), np.asarray(gb)

    return ask


def _torch() -> Ask:
    torch = importlib.import_module("torch")

    def ask(a: Array, b: Array) -> Answer:
        x, y = (torch.from_numpy(each).requires_grad_() for each in (a, b))
        c = x @ y
        value = (c * c).sum()
        ga, gb = torch.autograd.grad(value, (x, y))
        return value.item(), ga.numpy(), gb.numpy()

    return ask


LOCAL: Final[dict[str, Callable[[], Ask]]] = {"NumPy": _numpy, "JAX": _jax, "torch": _torch}


@contextmanager
def connected(variant: str, n: int, port: int) -> Iterator[Ask]:
    yield LOCAL[variant]()
