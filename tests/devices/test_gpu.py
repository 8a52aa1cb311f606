"""On a real GPU: every op, gradient and H·v, the corpus, transfers, memory, errors (make test-gpu).

``BACKHAUL_TEST_DEVICE`` names another one than ``cuda:0``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
from tests.corpus.test_corpus import CASES as CORPUS
from tests.corpus.test_corpus import replayed
from tests.server.engine.points import Point
from tests.server.engine.test_strict_namespace import CASES, answers

import backhaul as bh
from backhaul_proto.catalog.ops import Op, Sample
from backhaul_proto.errors import BackhaulError, InvalidArgument, MemoryLimitExceeded
from backhaul_server.accelerators import Accelerator, open_accelerator
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

pytestmark = pytest.mark.gpu

NAME = os.environ.get("BACKHAUL_TEST_DEVICE", "cuda:0")
NUMPY = Engine()
ULPS = 4096
"""Of the largest element: other libraries, another order of sums, and functions rounded otherwise."""

Array = np.ndarray[Any, Any]


@cache
def opened() -> Accelerator:
    try:
        return open_accelerator(NAME)
    except BackhaulError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def gpu() -> Accelerator:
    return opened()


@pytest.fixture(scope="module")
def connection(gpu: Accelerator) -> Iterator[bh.Connection]:
    """To a server whose tapes compute on the GPU, where they do not ask for the host."""
    server = Server(Dispatcher(Engine(), accelerators=[gpu], device=NAME), ["127.0.0.1:0"])
    server.start()
    with bh.connect(server.targets[0], timeout=120) as made:
        yield made
    server.stop(None)


def near(got: Array, expected: Array) -> None:
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(float(np.max(finite, initial=0.0)), 1.0)
    tolerance = ULPS * float(np.finfo(expected.dtype).eps) * scale
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("entry", "sample", "dtype"), [pytest.param(*case.values, id=case.id) for case in CASES]
)
def test_values_and_derivatives_are_numpys(
    gpu: Accelerator, entry: Op, sample: Sample, dtype: np.dtype[Any]
) -> None:
    if entry.gauge:
        pytest.skip("its results have signs or phases of the library's choice; see the corpus")
    expected = answers(NUMPY, Point(NUMPY, entry, sample, dtype))
    engine, lane = Engine(gpu.xp), gpu.xp.lane()
    assert lane is not None
    with lane.around(nullcontext()):
        got = answers(engine, Point(engine, entry, sample, dtype))
    assert got.keys() == expected.keys()
    for what in expected:
        for x, y in zip(got[what], expected[what], strict=True):
            near(x, y)


@pytest.mark.corpus
@pytest.mark.parametrize("case", CORPUS, ids=[c["id"] for c in CORPUS])
def test_the_corpus(case: dict[str, Any], connection: bh.Connection) -> None:
    status, why = replayed(case, connection)
    assert status == "pass", why


@pytest.mark.parametrize(
    "shape", [(), (0, 3), (5,), (1000, 9), (1 << 20,), (1025, 2049), (7 << 20,)]
)
@pytest.mark.parametrize("dtype", ["float32", "complex128", "bool", "int8"])
def test_arrays_come_back_as_they_went(
    gpu: Accelerator, shape: tuple[int, ...], dtype: str
) -> None:
    x = (np.random.default_rng(0).normal(size=shape) * 100).astype(dtype)
    lane, xp = gpu.xp.lane(), gpu.xp
    assert lane is not None
    with lane.around(nullcontext()):
        there = xp.from_host(x)
        np.testing.assert_array_equal(xp.to_host(there), x)
        turned = xp.permute_dims(there, tuple(reversed(range(len(shape)))))
        np.testing.assert_array_equal(xp.to_host(turned), x.T)


def test_sessions_on_many_streams_do_not_disturb_each_other(connection: bh.Connection) -> None:
    def trained(seed: int) -> Array:
        rng = np.random.default_rng(seed)
        with bh.Tape(connection, device=NAME) as tape:
            x = tape.leaf(rng.normal(size=(300, 300)))
            for _ in range(30):
                loss = bh.sum(bh.tanh(x @ x) ** 2)
                x = tape.leaf(x - 0.01 * tape.pullback(loss, fetch=False)[x])
            return x.numpy()

    alone = [trained(seed) for seed in range(4)]
    with ThreadPoolExecutor(24) as callers:
        together = list(callers.map(trained, [seed % 4 for seed in range(24)]))
    for number, found in enumerate(together):
        np.testing.assert_allclose(found, alone[number % 4], rtol=1e-9, atol=1e-9)


def test_more_than_there_is_is_refused_before_it_runs(connection: bh.Connection) -> None:
    limit = connection.info().devices[0].session_memory
    with bh.Tape(connection) as tape:
        x = tape.leaf(np.ones(1000))
        loss = bh.sum(bh.broadcast_to(x, (limit // 4000, 1000)) * 1.0)
        with pytest.raises(MemoryLimitExceeded) as caught:
            loss.numpy()
        assert caught.value.details["device"] == NAME
        assert bh.sum(x).numpy() == 1000


def test_cupys_own_pool_is_bounded_and_its_error_typed(gpu: Accelerator) -> None:
    import cupy

    number = int(NAME.partition(":")[2])
    with cupy.cuda.Device(number):
        limit = cupy.get_default_memory_pool().get_limit()
    assert gpu.memory < limit <= gpu.memory * 6 // 5
    lane = gpu.xp.lane()
    assert lane is not None
    with pytest.raises(MemoryLimitExceeded, match="no memory left"), lane.around(nullcontext()):
        cupy.empty(limit + 1, np.uint8)


def test_an_index_out_of_range_is_an_error_though_cupy_wraps_it(connection: bh.Connection) -> None:
    with bh.Tape(connection) as tape:
        y = tape.leaf(np.arange(3.0))[tape.constant(np.array([0, 3]))]
        with pytest.raises(InvalidArgument) as caught:
            y.numpy()
    assert caught.value.reason == "INDEX_OUT_OF_RANGE"


@pytest.mark.parametrize("op", ["inv", "cholesky"])
def test_a_factorisation_that_fails_says_so(connection: bh.Connection, op: str) -> None:
    with bh.Tape(connection) as tape:
        y = getattr(bh.linalg, op)(tape.leaf(-np.ones((3, 3))))
        with pytest.raises(BackhaulError) as caught:
            y.numpy()
    assert caught.value.reason in ("SINGULAR_MATRIX", "NOT_POSITIVE_DEFINITE")


def test_the_server_tells_what_it_computes_on(connection: bh.Connection) -> None:
    first, host = connection.info().devices
    assert (first.name, first.backend, host.name) == (NAME, "cupy", "cpu")
    assert first.model
