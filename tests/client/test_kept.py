"""Values that stay on the server: gradients as tensors, leaves of tensors, training loops of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.client.flaky import FlakyTransport, blocks, flaky

import backhaul as bh
from backhaul_proto import codec
from backhaul_proto.errors import make_error
from backhaul_proto.messages import SessionInfo

Array = np.ndarray[Any, Any]
FATES = ["request", "answer"]
DTYPES = ["float32", "float64", "complex64", "complex128"]


def info(tape: bh.Tape) -> SessionInfo:
    """What the tape's session holds."""
    session, connection = tape._core._session, tape._core.connection
    return connection._ready().get_session(session.id, session.epoch, timeout=120)


def values(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    found = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return (found if dtype.startswith("complex") else found.real).astype(dtype)


def energy(a: Any, b: Any) -> bh.TrackedTensor:
    y = bh.tanh(a @ b)
    return bh.sum(bh.real(y * bh.conj(y)))


def same(found: bh.TrackedTensor, expected: Array) -> None:
    """The tensor is a constant with these very bits."""
    assert (found.requires_grad, found.node_id, found.has_tangent) == (False, None, False)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    got = found.numpy()
    assert got.dtype == expected.dtype
    assert got.tobytes() == expected.tobytes()


# Gradients that stay


@pytest.mark.parametrize("dtype", DTYPES)
def test_kept_gradients_are_the_fetched_ones_bit_for_bit(tape: bh.Tape, dtype: str) -> None:
    a, b = tape.leaf(values((3, 4), dtype)), tape.leaf(values((4, 2), dtype, 2))
    unused = tape.leaf(1.0)
    loss = energy(a, b)
    fetched = tape.pullback(loss)
    kept = tape.pullback(loss, fetch=False)
    assert list(kept) == list(fetched)
    for leaf in (a, b):
        same(kept[leaf], fetched[leaf])
        assert kept[leaf].tape is tape
        assert kept[leaf.node_id] is kept[leaf]
    assert kept.get(unused) is None
    assert kept.value.tobytes() == fetched.value.tobytes()
    assert isinstance(kept.value, np.ndarray)
    with pytest.raises(bh.MissingNode, match="does not depend"):
        kept[unused]


@pytest.mark.parametrize("dtype", DTYPES)
def test_kept_hvps_are_the_fetched_ones_bit_for_bit(tape: bh.Tape, dtype: str) -> None:
    a = tape.leaf_with_tangent(values((3, 3), dtype), values((3, 3), dtype, 5))
    b = tape.leaf(values((3, 2), dtype, 2))
    loss = energy(a, b)
    fetched = tape.hvp(loss)
    kept = tape.hvp(loss, fetch=False)
    for leaf in (a, b):
        same(kept.gradients[leaf], fetched.gradients[leaf])
        same(kept.hvp[leaf], fetched.hvp[leaf])
    assert kept.value == fetched.value == kept.hvp.value == kept.gradients.value


def test_lists_and_wrt_stay_too(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0, 3.0])
    unused = tape.leaf(np.ones((2, 2)))
    y = x * x
    loss = bh.sum(y * x)
    cotangents = [np.array([1.0, 0.0, 0.0]), np.array([0.0, 2.0, 0.0])]
    for kept, fetched in zip(
        tape.pullback(y, cotangent=cotangents, wrt=[x, unused], fetch=False),
        tape.pullback(y, cotangent=cotangents, wrt=[x, unused]),
        strict=True,
    ):
        assert list(kept) == [x.node_id, unused.node_id]
        same(kept[x], fetched[x])
        same(kept[unused], np.zeros((2, 2)))
    along = [{x: [1.0, 0.0, 0.0]}, {x: [0.0, 1.0, 1.0]}]
    for one, other in zip(
        tape.hvp(loss, tangents=along, wrt=[y, x, x], fetch=False),
        tape.hvp(loss, tangents=along, wrt=[y, x, x]),
        strict=True,
    ):
        assert list(one.hvp) == [y.node_id, x.node_id]
        for node in (y, x):
            same(one.gradients[node], other.gradients[node])
            same(one.hvp[node], other.hvp[node])
    assert tape.pullback(loss, cotangent=[], fetch=False) == []
    assert len(tape.pullback(loss, wrt=[], fetch=False)) == 0


def test_kept_gradients_are_operands_cotangents_tangents_and_leaves(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    loss = bh.sum(x * x * x)  # gradient 3x², H·v 6xv
    g = tape.pullback(loss, fetch=False)[x]
    np.testing.assert_array_equal((g + x).numpy(), [4.0, 14.0])
    assert (g * x).requires_grad
    np.testing.assert_array_equal(tape.pullback(x * x, cotangent=g)[x], [6.0, 48.0])
    np.testing.assert_array_equal(tape.hvp(loss, tangents={x: g}).hvp[x], [18.0, 144.0])
    np.testing.assert_array_equal(tape.pushforward(x * x, tangents={x: g}).tangent, [6.0, 48.0])
    again = tape.leaf_with_tangent(x - g, g)
    found = tape.hvp(bh.sum(again * again), fetch=False)
    np.testing.assert_array_equal(found.gradients[again].numpy(), [-4.0, -20.0])
    np.testing.assert_array_equal(found.hvp[again].numpy(), [6.0, 24.0])
    np.testing.assert_array_equal(bh.fetch(g, x)[0], [3.0, 12.0])
    with pytest.raises(bh.MissingNode, match="requires no gradient"):
        tape.pullback(bh.sum(g))
    with pytest.raises(bh.MissingNode, match="is a constant"):
        tape.pullback(loss, wrt=[g])


def test_kept_gradients_outlive_leaf_loss_and_mapping(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    grads = tape.pullback(bh.sum(x * x), fetch=False)
    g, node = grads[x], x.node_id
    assert node is not None
    del x
    assert float(tape.constant(1.0) * 2.0) == 2.0
    assert grads[node] is g
    del grads
    np.testing.assert_array_equal(g.numpy(), [2.0, 4.0])


def test_leaves_that_nobody_names_get_no_kept_gradient(tape: bh.Tape) -> None:
    x, y = tape.leaf(2.0), tape.leaf(3.0)
    before, dropped = x * y, y.node_id
    del y
    for _ in range(2):  # released with the question, and before it
        kept = tape.pullback(before, fetch=False)
        assert list(kept) == [x.node_id]
        assert kept[x].numpy() == 3.0
        assert dropped in tape.pullback(before)


def test_the_value_of_many_elements_is_fetched_when_asked(connection: bh.Connection) -> None:
    with bh.Tape(connection) as tape:
        x = tape.leaf(np.arange(10_000.0))
        y = x * 2.0
        ct = tape.constant(np.ones(10_000))
        node = y.node_id
        assert node is not None
        for loss in (y, node):
            calls = connection.calls["Execute"]
            kept = tape.pullback(loss, cotangent=ct, fetch=False)
            assert connection.calls["Execute"] == calls + 1
            np.testing.assert_array_equal(kept.value, 2.0 * np.arange(10_000.0))
            assert connection.calls["Execute"] == calls + 2
        held = y  # the id's own handle is not released by the look at it
        np.testing.assert_array_equal(held.numpy()[:3], [0.0, 2.0, 4.0])
        one = tape.pullback(bh.reshape(x[:1], (1, 1)), fetch=False)
        calls = connection.calls["Execute"]
        assert one.value.shape == (1, 1)
        assert connection.calls["Execute"] == calls


def test_what_is_written_into_the_callers_arrays_changes_nothing(tape: bh.Tape) -> None:
    x = tape.leaf(np.zeros(20_000))
    mine = np.ones(20_000)
    kept = tape.pullback(x, cotangent=mine, fetch=False)  # the gradient is the cotangent itself
    mine[:] = 7.0
    handed = kept[x].numpy()
    np.testing.assert_array_equal(handed, np.ones(20_000))
    handed[:] = 9.0
    np.testing.assert_array_equal((kept[x] + 0.0).numpy(), np.ones(20_000))


def test_a_view_keeps_nothing_large_alive(tape: bh.Tape) -> None:
    x, large = tape.leaf(np.ones(10)), tape.leaf(np.arange(100_000.0))
    joined = bh.concat([x, large])  # its cotangent is cut in two
    kept = tape.pullback(bh.sum(joined * joined), wrt=[x], fetch=False)
    del joined, large
    same(kept[x], 2.0 * np.ones(10))
    assert float(bh.sum(x)) == 10.0
    assert info(tape).bytes < 1000


def test_repr_and_closed_tapes() -> None:
    with bh.Tape() as tape:
        x = tape.leaf([1.0, 2.0])
        kept = tape.pullback(bh.sum(x * x), fetch=False)
        assert repr(kept) == (
            f"<Gradients of {tape} that stayed on the server, shapes by node {{{x.node_id}: (2,)}}>"
        )
        g = kept[x]
        assert repr(g) == "TrackedTensor(shape=(2,), dtype=float64, constant)"
        loss = bh.sum(x)
    assert "tape closed" in repr(g)
    uses: list[Callable[[], Any]] = [
        g.numpy,
        lambda: tape.leaf(g),
        lambda: tape.constant(g),
        lambda: tape.pullback(loss, fetch=False),
        lambda: tape.hvp(loss, tangents={x: g}, fetch=False),
    ]
    for use in uses:
        with pytest.raises(bh.SessionClosed):
            use()


# Leaves of tensors


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_leaf_of_a_tensor_has_its_value_and_no_graph(tape: bh.Tape, dtype: str) -> None:
    array = values((40, 40), dtype)
    x = tape.leaf(array)
    y = tape.leaf(x * 2.0)
    assert (y.requires_grad, y.has_tangent, y.dtype) == (True, False, np.dtype(dtype))
    grads = tape.pullback(bh.sum(bh.real(bh.conj(y) * y)))
    np.testing.assert_array_equal(grads[y], 2.0 * (2.0 * array))
    assert grads.get(x) is None
    np.testing.assert_array_equal(y.numpy(), 2.0 * array)
    np.testing.assert_array_equal(tape.leaf(y).numpy(), 2.0 * array)


def test_a_leaf_of_a_tensor_fetches_nothing(connection: bh.Connection) -> None:
    with bh.Tape(connection) as tape:
        x = tape.leaf(np.ones(50_000))
        y = x + 1.0
        calls = connection.calls["Execute"]
        leaves = [tape.leaf(y), tape.leaf_with_tangent(y, y), tape.constant(y)]
        assert connection.calls["Execute"] == calls
        assert [each.requires_grad for each in leaves] == [True, True, False]
        loss = bh.sum(leaves[1] * leaves[2])
        np.testing.assert_array_equal(tape.hvp(loss).gradients[leaves[1]], np.full(50_000, 2.0))
        assert tape.pullback(loss).get(x) is None
        held = info(tape)
        again = tape.leaf(leaves[0])
        again.numpy()
        assert info(tape).nodes == held.nodes + 1
        assert info(tape).bytes == held.bytes, "the leaf shares the node's memory"


@pytest.mark.parametrize("given", ["tensors", "a value", "a tangent"])
def test_leaf_with_tangent_of_tensors_and_arrays(tape: bh.Tape, given: str) -> None:
    value, tangent = np.array([1.0, 2.0]), np.array([3.0, -1.0])
    first = tape.constant(value) if given != "a tangent" else value
    second = tape.constant(tangent) if given != "a value" else tangent
    x = tape.leaf_with_tangent(first, second)
    assert x.has_tangent
    found = tape.hvp(bh.sum(x * x * x))
    np.testing.assert_array_equal(found.gradients[x], 3.0 * value**2)
    np.testing.assert_array_equal(found.hvp[x], 6.0 * value * tangent)
    weak = tape.leaf_with_tangent(tape.constant(np.ones(2, "f4")), [1, 0])
    assert weak.dtype == np.dtype("f4")
    np.testing.assert_array_equal(tape.hvp(bh.sum(weak * weak)).hvp[weak], [2.0, 0.0])


def test_leaves_of_tensors_are_checked_at_their_line(tape: bh.Tape) -> None:
    x, wrong = tape.leaf(np.ones(3)), tape.constant(np.ones((3, 1)))
    ints, single = tape.constant(np.arange(3)), tape.constant(np.ones(3, "f4"))
    gone, other = tape.leaf(1.0), bh.Tape().leaf(1.0)
    tape.release(gone)
    refused: list[tuple[Callable[[], Any], type[bh.BackhaulError], str]] = [
        (lambda: tape.leaf(bh.astype(x, "int64")), bh.InvalidArgument, "DTYPE_NOT_SUPPORTED"),
        (lambda: tape.leaf(x > 0.0), bh.InvalidArgument, "DTYPE_NOT_SUPPORTED"),
        (lambda: tape.leaf_with_tangent(ints, x), bh.InvalidArgument, "DTYPE_NOT_SUPPORTED"),
        (
            lambda: tape.leaf_with_tangent(x, wrong),
            bh.TangentShapeMismatch,
            "TANGENT_SHAPE_MISMATCH",
        ),
        (lambda: tape.leaf_with_tangent(x, single), bh.InvalidArgument, "TANGENT_DTYPE_MISMATCH"),
        (lambda: tape.leaf([x, x]), bh.InvalidArgument, "INVALID_VALUE"),
    ]
    for bad in (gone, other):
        refused += [
            (partial(tape.leaf, bad), bh.MissingNode, "MISSING_NODE"),
            (partial(tape.constant, bad), bh.MissingNode, "MISSING_NODE"),
            (partial(tape.leaf_with_tangent, bad, 1.0), bh.MissingNode, "MISSING_NODE"),
            (partial(tape.leaf_with_tangent, 1.0, bad), bh.MissingNode, "MISSING_NODE"),
        ]
    for call, kind, reason in refused:
        before = tape._recorder.next_id
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.reason == reason
        assert tape._recorder.next_id <= before + 2, "operands were recorded at most"


def test_a_leaf_of_a_failed_tensor_failed_too(tape: bh.Tape) -> None:
    x = tape.leaf(-np.eye(2))
    y = tape.leaf(bh.linalg.cholesky(x))
    loss, fine = bh.sum(y), bh.sum(x * x)
    for call in (y.numpy, lambda: tape.pullback(loss, fetch=False)):
        with pytest.raises(bh.LinearAlgebraError) as caught:
            call()
        assert caught.value.reason == "NOT_POSITIVE_DEFINITE"
    np.testing.assert_array_equal(tape.pullback(fine, fetch=False)[x].numpy(), -2.0 * np.eye(2))


# Training


def regression(seed: int = 3) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((50, 4)), rng.standard_normal(50)


def test_twenty_steps_of_gradient_descent_are_numpys(connection: bh.Connection) -> None:
    X, y = regression()
    expected = np.zeros(4)
    with bh.Tape(connection) as tape:
        data, target = tape.constant(X), tape.constant(y)
        w = tape.leaf(np.zeros(4))
        for _ in range(20):
            g = tape.pullback(bh.mean((data @ w - target) ** 2), fetch=False)
            w = tape.leaf(w - 0.1 * g[w])
            residual = X @ expected - y
            assert abs(float(g.value) - np.mean(residual**2)) < 1e-12
            expected = expected - 0.1 * (2.0 / 50.0) * (X.T @ residual)
        np.testing.assert_allclose(w.numpy(), expected, rtol=0, atol=1e-12)


def trained(tape: bh.Tape, batches: Callable[[int], bh.TrackedTensor], steps: int) -> None:
    """Steps of training, each with the update of the step before at its beginning."""
    grads: Any = None
    w = tape.leaf(np.zeros(4))
    for step in range(steps):
        if grads is not None:
            w = tape.leaf(w - 0.1 * grads[w])
        grads = tape.pullback(bh.sum(bh.tanh(batches(step) @ w)), fetch=False)


def fixed(tape: bh.Tape, X: Array) -> Callable[[int], bh.TrackedTensor]:
    data = tape.constant(X)
    return lambda step: data


def taken(tape: bh.Tape, X: Array) -> Callable[[int], bh.TrackedTensor]:
    data, rng = tape.constant(X), np.random.default_rng(5)
    return lambda step: bh.take(data, rng.integers(0, 50, 10), axis=0)


def registered(tape: bh.Tape, X: Array) -> Callable[[int], bh.TrackedTensor]:
    parts = [tape.constant(X[i : i + 10]) for i in range(0, 50, 10)]
    return lambda step: parts[step % 5]


def sliced(tape: bh.Tape, X: Array) -> Callable[[int], bh.TrackedTensor]:
    data = tape.constant(X)
    return lambda step: data[step : step + 10]


@pytest.mark.parametrize("way", [fixed, taken, registered])
def test_a_training_step_is_one_trip_of_a_known_block(way: Any) -> None:
    X, _ = regression()
    with flaky() as (tape, transport):
        batches = way(tape, X)
        trained(tape, batches, 12)
        assert transport.calls["Execute"] == 12 + _resent(transport)
        steps = [each for each in transport.requests if each.seq > 3]
        assert len(steps) == 9, "none was sent twice, with its block"
        hashes = set()
        for each in steps:
            assert each.block is not None
            assert each.block.block is None
            hashes.add(each.block.hash)
            header, arrays = codec.write_execute(each)
            assert len(header) < 200
            assert sum(array.nbytes for array in arrays) == (80 if way is taken else 0)
        assert len(hashes) == 1


def _resent(transport: FlakyTransport) -> int:
    """Requests that were sent again with their block."""
    seqs = [each.seq for each in transport.requests]
    return len(seqs) - len(set(seqs))


def test_a_changing_slice_is_a_new_block_each_step() -> None:
    X, _ = regression()
    with flaky() as (tape, transport):
        trained(tape, sliced(tape, X), 6)
        assert all(each is not None for each in blocks(transport))


def test_a_training_loop_holds_no_more_after_fifty_steps_than_after_five(
    connection: bh.Connection,
) -> None:
    X, _ = regression()
    with bh.Tape(connection) as tape:
        batches = registered(tape, X)
        w = tape.leaf(np.zeros(4))
        held = []
        for step in range(55):
            grads = tape.pullback(bh.sum(bh.tanh(batches(step) @ w)), fetch=False)
            w = tape.leaf(w - 0.1 * grads[w])
            found = info(tape)
            held.append((found.nodes, found.bytes, len(tape._recorder.types)))
        assert set(held[10:]) == {held[9]}


# What goes wrong


@pytest.mark.parametrize("fate", FATES)
def test_a_lost_call_takes_no_ids_and_leaves_no_nodes(fate: str) -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        loss = bh.sum(x * x)
        assert float(loss) == 5.0
        for _ in range(3):
            transport.lose = [fate]
            with pytest.raises(bh.Unavailable):
                tape.pullback(loss, fetch=False)
        y = x * 3.0
        kept = tape.pullback(loss, fetch=False)
        np.testing.assert_array_equal(kept[x].numpy(), [2.0, 4.0])
        np.testing.assert_array_equal((y + kept[x]).numpy(), [5.0, 10.0])
        del y
        float(loss * 1.0)
        float(loss * 1.0)
        assert info(tape).nodes == len(tape._recorder.types)


@pytest.mark.parametrize(
    "fates",
    [
        ["request", "answer"],
        ["answer", "request"],
        ["late", "first late"],
        ["late", "request", "first late"],
    ],
)
def test_losses_in_a_row_with_steps_between(fates: list[str | BaseException | None]) -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        transport.lose = fates.copy()
        made = []
        for _ in fates:
            made.append(x * 3.0)
            try:
                kept = tape.pullback(made[-1] * x, fetch=False)
            except bh.Unavailable:
                continue
            assert float(kept[x]) == 12.0
        kept = tape.pullback(made[0] * made[-1], fetch=False)
        assert float(kept[x]) == 36.0
        assert [float(each) for each in made] == [6.0] * len(made)


def test_a_server_that_is_asked_again_answers_the_same_nodes() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        kept = tape.pullback(bh.sum(x * x), fetch=False)
        first = transport.requests[-1]
        held = info(tape)
        answers = [transport.execute(first, timeout=None) for _ in range(2)]
        assert [list(each.sets[0].kept) for each in answers] == [[kept[x]._id]] * 2
        assert answers[0].loss_value == 5.0
        assert (info(tape).nodes, info(tape).bytes) == (held.nodes, held.bytes)
        np.testing.assert_array_equal(kept[x].numpy(), [2.0, 4.0])


def test_a_refusal_leaves_the_tape_as_it_was() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        loss = bh.sum(x * x)
        assert float(loss) == 5.0
        held = info(tape)
        transport.lose = [make_error("SERVER_BUSY", "Later.")]
        with pytest.raises(bh.ServerBusy):
            tape.pullback(loss, fetch=False)
        with pytest.raises(bh.NonScalarLoss):
            tape.pullback(loss * x, fetch=False)
        assert (info(tape).nodes, info(tape).bytes) == (held.nodes, held.bytes)
        kept = tape.pullback(loss, fetch=False)
        np.testing.assert_array_equal((kept[x] * x).numpy(), [2.0, 8.0])


def test_kept_gradients_count_as_held_and_are_admitted_before(connection: bh.Connection) -> None:
    n = 10_000  # 80,000 bytes an array
    with bh.Tape(connection, memory_limit=1_000_000) as tape:
        x = tape.leaf(np.ones(n))
        loss = bh.sum(x * x)
        assert float(loss) == n
        held = info(tape)
        kept: list[bh.Gradients[bh.TrackedTensor]] = []

        def collect() -> None:
            while len(kept) < 20:
                kept.append(tape.pullback(loss, fetch=False))

        with pytest.raises(bh.MemoryLimitExceeded) as caught:
            collect()
        assert len(kept) in range(4, 10)
        found = info(tape)
        assert found.bytes == held.bytes + len(kept) * n * 8
        assert int(caught.value.details["needed"]) > 1_000_000 >= found.bytes
        np.testing.assert_array_equal(kept[-1][x].numpy(), np.full(n, 2.0))
        del kept[1:], caught
        np.testing.assert_array_equal(tape.pullback(loss, fetch=False)[x].numpy(), np.full(n, 2.0))
        np.testing.assert_array_equal(kept[0][x].numpy(), np.full(n, 2.0))


def test_an_op_without_second_derivatives_refuses_and_keeps_nothing(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    loss = bh.sum(x * x)
    assert float(loss) == 5.0
    held = info(tape)
    with pytest.raises(bh.InvalidArgument) as caught:
        tape.hvp(loss, fetch=False)
    assert caught.value.reason == "HVP_WITHOUT_TANGENT"
    assert info(tape).nodes == held.nodes
