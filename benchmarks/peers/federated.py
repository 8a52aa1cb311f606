"""pytensor-federated: a function of arrays that returns value and gradients, in one message of its stream.

Its client as its documentation has it, without a graph of PyTensor around it, which would only add.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from benchmarks.peers.job import Answer, Array, Ask, by_hand, free_port

_HOST: Final = "127.0.0.1"


def serve(n: int) -> None:
    common: Any = importlib.import_module("pytensor_federated.common")
    service: Any = importlib.import_module("pytensor_federated.service")
    grpclib: Any = importlib.import_module("grpclib.server")

    def value_and_gradients(a: Array, b: Array) -> tuple[Array, list[Array]]:
        value, ga, gb = by_hand(a, b)
        return np.asarray(value), [ga, gb]

    async def run() -> None:
        compute = common.wrap_logp_grad_func(value_and_gradients)
        server = grpclib.Server([service.ArraysToArraysService(compute)])
        # By host and port: of a socket that it is given, asyncio leaves Nagle's algorithm on.
        port = free_port()
        await server.start(_HOST, port)
        print(port, flush=True)
        await server.wait_closed()

    asyncio.run(run())


@contextmanager
def connected(variant: str, n: int, port: int) -> Iterator[Ask]:
    common: Any = importlib.import_module("pytensor_federated.common")
    client = common.LogpGradServiceClient(_HOST, port)

    def ask(a: Array, b: Array) -> Answer:
        value, (ga, gb) = client.evaluate(a, b)
        return float(value), ga, gb

    yield ask
