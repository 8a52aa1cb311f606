"""Numbers by shared memory are those by the socket, bit for bit."""

from __future__ import annotations

import gc
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.e2e.shared_memory.support import (
    LIMIT,
    MB,
    WAYS,
    in_shared_memory,
    listening,
    mappings,
    memory_of,
)

import backhaul as bh
from backhaul_proto.shared import MIN_BYTES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds are Linux's")


LARGE = 160_000
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "0-d": np.array(-0.0),
    "empty": np.zeros((3, 0, 2)),
    "small": np.arange(6.0).reshape(2, 3),
    "float32": np.random.default_rng(1).standard_normal(LARGE // 4).astype("float32"),
    "float64 in Fortran order": np.random.default_rng(2).standard_normal((200, 100)).T,
    "reversed": np.random.default_rng(3).standard_normal((200, 100))[::-1, ::2],
    "broadcast": np.broadcast_to(np.arange(100.0), (200, 100)),
    "complex64": np.random.default_rng(4).standard_normal(LARGE // 4).view("complex64"),
    "complex128": np.random.default_rng(5).standard_normal(LARGE // 8).view("complex128"),
    "NaN with a payload, infinities": np.frombuffer(
        np.random.default_rng(6).integers(0, 256, LARGE, np.uint8).tobytes(), "float64"
    ),
}
CONSTANTS = {
    "bool": np.random.default_rng(7).integers(0, 2, LARGE).astype(bool),
    "int16": np.random.default_rng(8).integers(-9, 9, LARGE // 2).astype("int16"),
    "uint64": np.random.default_rng(9).integers(0, 1 << 60, LARGE // 8, np.uint64),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [*ARRAYS, *CONSTANTS])
def test_arrays_travel_bit_for_bit(folder: Path, way: str, name: str) -> None:
    limit = LIMIT if way == "shared" else 8 * MB
    with (
        listening(folder / "s", max_message_bytes=limit) as target,
        bh.connect(target, timeout=60, shared_memory=None if way == "shared" else False) as c,
    ):
        tape = bh.Tape(c)
        array = ARRAYS[name] if name in ARRAYS else CONSTANTS[name]
        sent = tape.leaf(array) if name in ARRAYS else tape.constant(array)
        twice = bh.stack([sent, sent])
        got = twice.numpy()
        assert (got.dtype, got.shape) == (array.dtype, (2, *array.shape))
        for each in got:
            assert each.tobytes() == np.ascontiguousarray(array).tobytes()
        large = got.nbytes >= MIN_BYTES
        assert in_shared_memory(got) == (large and way == "shared")
        assert got.flags.writeable


def test_several_large_tensors_of_a_question_are_right_and_apart(target: str) -> None:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((100, n)) for n in (130, 170, 90)]
    tangents = [rng.standard_normal(each.shape) for each in values]
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        tape = bh.Tape(connection)
        leaves = [tape.leaf_with_tangent(v, t) for v, t in zip(values, tangents, strict=True)]
        loss = bh.sum(leaves[0]) * 0.0
        for each in leaves:
            loss = loss + bh.sum(each * each * each)
        found = tape.hvp(loss)
        handed = []
        for leaf, value, tangent in zip(leaves, values, tangents, strict=True):
            np.testing.assert_allclose(found.gradients[leaf], 3 * value**2, rtol=1e-14)
            np.testing.assert_allclose(found.hvp[leaf], 6 * value * tangent, rtol=1e-14)
            handed += [found.gradients[leaf], found.hvp[leaf]]
        assert all(in_shared_memory(each) for each in handed)
        for i, array in enumerate(handed):
            array[:] = float(i)  # the caller's own
        assert [float(each.min()) for each in handed] == [float(i) for i in range(6)]
        assert [float(each.max()) for each in handed] == [float(i) for i in range(6)]
        np.testing.assert_array_equal(leaves[1].numpy(), values[1])
        cotangents = [rng.standard_normal(values[0].shape) for _ in range(2)]
        several = tape.pullback(leaves[0] * 2.0, cotangent=cotangents)
        for cotangent, grads in zip(cotangents, several, strict=True):
            np.testing.assert_array_equal(grads[leaves[0]], 2.0 * cotangent)
        moved = tape.pushforward(leaves[0] * 3.0, tangents={leaves[0]: cotangents[0]})
        np.testing.assert_array_equal(moved.tangent, 3.0 * cotangents[0])


@pytest.mark.parametrize("way", WAYS)
def test_a_leaf_is_frozen_whatever_the_caller_does_to_his_array(folder: Path, way: str) -> None:
    with (
        listening(folder / "s", max_message_bytes=8 * MB) as target,
        bh.connect(target, timeout=60, shared_memory=None if way == "shared" else False) as c,
    ):
        tape = bh.Tape(c)
        array = np.ones(MB // 8)
        x, t = tape.leaf(array), tape.leaf_with_tangent(array, array)
        array[:] = 7.0
        y = tape.leaf(array)
        array[:] = 8.0
        assert [float(bh.sum(each)) for each in (x, t, y)] == [MB / 8, MB / 8, 7 * MB / 8]
        value = x.numpy()
        value[:] = 9.0
        assert float(bh.sum(x)) == MB / 8
        z = tape.leaf(value)  # an array that is in shared memory itself
        value[:] = 10.0
        assert float(bh.sum(z)) == 9 * MB / 8


def test_memory_is_used_again(target: str) -> None:
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        for i in range(50):
            with bh.Tape(connection) as tape:
                x = tape.leaf(np.full(MB // 8, float(i)))
                grad = tape.pullback(bh.sum(x * x))[x]
                assert grad[0] == grad[-1] == 2.0 * i
        assert len(memory_of(connection)._pool.segments) == 1


def test_threads_share_it(target: str) -> None:
    failures: list[BaseException] = []
    with bh.connect(target, timeout=60, shared_memory=True) as connection:

        def work(seed: int) -> None:
            try:
                rng = np.random.default_rng(seed)
                kept = []
                for _ in range(15):
                    value = rng.standard_normal(rng.integers(20_000, 100_000))
                    with bh.Tape(connection) as tape:
                        x = tape.leaf(value)
                        kept.append((value, tape.pullback(bh.sum(x * x))[x]))
                for value, grad in kept:
                    np.testing.assert_array_equal(grad, 2.0 * value)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert failures == []


def test_arrays_outlive_the_connection_and_the_server(folder: Path) -> None:
    with listening(folder / "s") as target, bh.connect(target, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.arange(MB / 8))
        grads = tape.pullback(bh.sum(x * x))
        view = grads[x][1::2]
        assert in_shared_memory(view)
    np.testing.assert_array_equal(view, 2 * np.arange(MB / 8)[1::2])
    before = mappings(os.getpid())
    del grads, view, x, tape, connection
    gc.collect()
    assert mappings(os.getpid()) < before


def test_beyond_half_of_the_memory_answers_are_copied_out(folder: Path) -> None:
    with (
        listening(folder / "s", shared_memory=32 * MB) as target,
        bh.connect(target, timeout=60, shared_memory=True) as connection,
    ):
        tape = bh.Tape(connection)
        x = tape.leaf(np.arange(MB / 8))
        kept = [x.numpy() for _ in range(12)]
        shared = [in_shared_memory(each) for each in kept]
        assert shared == [True] * 8 + [False] * 4
        for each in kept:
            np.testing.assert_array_equal(each, np.arange(MB / 8))
        del kept
        assert in_shared_memory(x.numpy())


def test_memory_that_nobody_uses_goes_back_to_the_server(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        memory = memory_of(connection)
        monkeypatch.setattr(memory, "_clock", lambda: now[0])
        tape = bh.Tape(connection)
        x = tape.leaf(np.ones(MB))
        x.numpy()
        before = memory._pool.nbytes
        now[0] = 31.0
        y = tape.leaf(np.ones(MB // 64))
        assert float(bh.sum(y)) == MB // 64
        assert x.numpy().nbytes == 8 * MB
        now[0] = 62.0
        assert float(bh.sum(tape.leaf(np.ones(MB // 64)))) == MB // 64
        assert 0 < memory._pool.nbytes < before
