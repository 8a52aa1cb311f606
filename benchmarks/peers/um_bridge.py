"""UM-Bridge: vectors as JSON over HTTP, or by shared memory.

A and B are one input, so that value and gradient take two calls and not three. ``one call``: the gradient
is part of the model's output, which needs one evaluation.
"""

from __future__ import annotations

import importlib
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from benchmarks.peers.job import Answer, Array, Ask, by_hand, free_port

_PATIENCE: Final = 20.0  # seconds for the server to listen


def serve(n: int) -> None:
    umbridge: Any = importlib.import_module("umbridge")
    size = n * n

    def answer(parameters: list[list[float]]) -> Answer:
        flat = np.array(parameters[0])
        return by_hand(flat[:size].reshape(n, n), flat[size:].reshape(n, n))

    class Loss(umbridge.Model):  # type: ignore[misc]
        def get_input_sizes(self, config: Any) -> list[int]:
            return [2 * size]

        def get_output_sizes(self, config: Any) -> list[int]:
            return [1]

        def __call__(self, parameters: Any, config: Any) -> list[list[float]]:
            return [[answer(parameters)[0]]]

        def gradient(
            self, out_wrt: int, in_wrt: int, parameters: Any, sens: Any, config: Any
        ) -> Any:
            _, ga, gb = answer(parameters)
            return (sens[0] * np.concatenate((ga.ravel(), gb.ravel()))).tolist()

        def supports_evaluate(self) -> bool:
            return True

        def supports_gradient(self) -> bool:
            return True

    class LossAndGradient(Loss):
        def get_output_sizes(self, config: Any) -> list[int]:
            return [1, 2 * size]

        def __call__(self, parameters: Any, config: Any) -> list[list[float]]:
            value, ga, gb = answer(parameters)
            return [[value], np.concatenate((ga.ravel(), gb.ravel())).tolist()]

    port = free_port()
    print(port, flush=True)
    umbridge.serve_models([Loss("loss"), LossAndGradient("one call")], port)


@contextmanager
def connected(variant: str, n: int, port: int) -> Iterator[Ask]:
    umbridge: Any = importlib.import_module("umbridge")
    _wait_for(port)
    name = "one call" if variant.endswith("one call") else "loss"
    model = umbridge.HTTPModel(
        f"http://127.0.0.1:{port}", name, use_shmem=variant.startswith("shared")
    )
    size = n * n

    def ask(a: Array, b: Array) -> Answer:
        flat = [np.concatenate((a.ravel(), b.ravel())).tolist()]
        if name == "loss":
            ((value,),) = model(flat)
            gradient = np.array(model.gradient(0, 0, flat, [1.0]))
        else:
            (value,), both = model(flat)
            gradient = np.array(both)
        return value, gradient[:size].reshape(n, n), gradient[size:].reshape(n, n)

    yield ask


def _wait_for(port: int) -> None:
    """The server tells nobody when it listens."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
