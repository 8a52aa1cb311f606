"""Arrays above the limit of a message, and near it, over real sockets: they stream, bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.client.waiting import wait_until

import backhaul as bh
from backhaul.transport.delivery import STREAM_BYTES
from backhaul_proto.chunks import CHUNK_BYTES
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

Array = np.ndarray[Any, Any]
LIMIT = 100_000
"""Bytes of a message that the narrow server takes."""


def random_bits(count: int, seed: int = 0) -> Array:
    """float64 with any bits: NaN payloads, infinities, subnormals, signed zeros."""
    data = np.random.default_rng(seed).integers(0, 256, count * 8, np.uint8)
    return data.view(np.float64)


def numbers(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=count)


@pytest.fixture(scope="module")
def narrow() -> Iterator[str]:
    """A server that takes messages of `LIMIT` bytes, whose limit the client learns."""
    running = Server(Dispatcher(Engine(), max_message_bytes=LIMIT), ["127.0.0.1:0"])
    running.start()
    yield running.targets[0]
    running.stop(None)


@pytest.fixture
def connection(narrow: str) -> Iterator[bh.Connection]:
    with bh.connect(narrow, timeout=60) as made:
        made.info()  # the limit is known from here on
        yield made


@pytest.fixture
def tape(connection: bh.Connection) -> Iterator[bh.Tape]:
    with bh.Tape(connection) as made:
        yield made


SIZES = [
    *range(
        LIMIT // 8 - 12, LIMIT // 8 + 2
    ),  # with the header around them, one of them meets the limit
    CHUNK_BYTES // 8 - 1,
    CHUNK_BYTES // 8,
    CHUNK_BYTES // 8 + 1,
    3 * CHUNK_BYTES // 8 + 5,
]


@pytest.mark.parametrize("count", SIZES)
def test_an_operand_comes_back_as_it_went(tape: bh.Tape, count: int) -> None:
    array = random_bits(count)
    x = tape.leaf(array)
    tape._core.flush()
    y = bh.reshape(x, (1, -1))
    assert y.numpy().tobytes() == array.tobytes()
    assert tape._core._session.last_seq == 2


def test_the_way_is_chosen_by_size(connection: bh.Connection) -> None:
    with bh.Tape(connection) as tape:
        below = tape.leaf(numbers(LIMIT // 8 - 100))
        bh.sum(below).numpy()
        assert connection.calls["ExecuteStream"] == 0
        above = tape.leaf(numbers(LIMIT // 8 + 100))
        bh.sum(above).numpy()
        assert connection.calls["ExecuteStream"] == 1


def test_below_the_servers_limit_the_faster_way_is_taken(target: str) -> None:
    with bh.connect(target, timeout=60) as connection, bh.Tape(connection) as tape:
        bh.sum(tape.leaf(numbers(STREAM_BYTES // 8 - 100))).numpy()
        assert connection.calls["ExecuteStream"] == 0
        bh.sum(tape.leaf(numbers(STREAM_BYTES // 8 + 1))).numpy()
        assert connection.calls["ExecuteStream"] == 1


@pytest.mark.parametrize("count", [LIMIT // 8 + 1, 2 * CHUNK_BYTES // 8, 2 * CHUNK_BYTES // 8 + 1])
def test_gradients_cotangents_and_tangents(tape: bh.Tape, count: int) -> None:
    a, c, v = (numbers(count, seed) for seed in range(3))

    def asked(tape: bh.Tape) -> list[Array]:
        x = tape.leaf(a)
        y = x * x * x
        (one,) = tape.pullback(y, cotangent=c).values()
        first, second = tape.pullback(y, cotangent=[c, v])
        pushed = tape.pushforward(y, tangents={x: v})
        hvp = tape.hvp(bh.sum(y), tangents={x: v})
        more = [hvp.gradients[x], hvp.hvp[x]]
        return [one, first[x], second[x], pushed.value, pushed.tangent, *more]

    with bh.connect("embedded") as here, bh.Tape(here) as embedded:
        expected = asked(embedded)
    np.testing.assert_allclose(expected[0], 3 * a * a * c, rtol=1e-14)
    np.testing.assert_allclose(expected[6], 6 * a * v, rtol=1e-14)
    found = asked(tape)
    assert [each.tobytes() for each in found] == [each.tobytes() for each in expected]
    assert tape._core.connection.calls["ExecuteStream"] >= 4


def test_a_leaf_with_a_tangent(tape: bh.Tape) -> None:
    a, v = numbers(200_000), numbers(200_000, 1)
    x = tape.leaf_with_tangent(a, v)
    found = tape.hvp(bh.sum(x * x))
    assert found.hvp[x].tobytes() == (2 * v).tobytes()


def test_many_tensors_of_all_sizes_in_one_request(tape: bh.Tape) -> None:
    sizes = [1, 8192, 8193, 131_072, 0, 131_073, 70_000, 5]
    arrays = [numbers(n, n) for n in sizes]
    leaves = [tape.leaf(each) for each in arrays]
    loss = bh.sum(bh.stack([bh.sum(each * each) for each in leaves]))
    gradients = tape.pullback(loss)
    for leaf, array in zip(leaves, arrays, strict=True):
        assert gradients[leaf].tobytes() == (2 * array).tobytes()


@pytest.mark.parametrize(
    ("op", "like"),
    [
        (lambda x: x.T, lambda a: a.T),
        (lambda x: x[::2, ::-1], lambda a: a[::2, ::-1]),
        (lambda x: bh.broadcast_to(x[0], (300, 400)), lambda a: np.broadcast_to(a[0], (300, 400))),
    ],
)
def test_values_that_are_views_on_the_server(
    tape: bh.Tape, op: Callable[[Any], Any], like: Callable[[Array], Array]
) -> None:
    array = random_bits(120_000).reshape(300, 400)
    assert op(tape.leaf(array)).numpy().tobytes() == like(array).tobytes()


def test_a_request_above_a_limit_that_is_not_known_yet_streams(narrow: str) -> None:
    with bh.connect(narrow, timeout=60) as connection, bh.Tape(connection) as tape:
        x = tape.leaf(np.ones(LIMIT // 8 + 100))
        assert float(bh.sum(x)) == LIMIT // 8 + 100
        assert connection.calls == {"Execute": 1, "ExecuteStream": 1}
        assert tape._core._session.last_seq == 1


def test_an_answer_larger_than_was_foreseen_is_asked_for_again(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(50_000))
    loss = bh.sum(x * x)
    tape._core.flush()
    leaf = x._id
    del x  # so the client counts no gradient for it
    calls = tape._core.connection.calls
    before = calls.copy()
    gradients = tape.pullback(loss)
    assert calls["Execute"] == before["Execute"] + 1
    assert calls["ExecuteStream"] == before["ExecuteStream"] + 1
    assert gradients[leaf].tobytes() == np.full(50_000, 2.0).tobytes()
    assert tape._core._session.last_seq == 2
    assert float(loss * 2.0) == 100_000.0


def test_what_never_fits_is_refused_and_the_tape_goes_on() -> None:
    dispatcher = Dispatcher(Engine(), session_memory=20_000_000, memory=20_000_000)
    server = Server(dispatcher, ["127.0.0.1:0"])
    server.start()
    try:
        with bh.connect(server.targets[0], timeout=60) as connection, bh.Tape(connection) as tape:
            one = tape.leaf(1.0)
            assert float(one + 1.0) == 2.0
            large = tape.leaf(np.zeros(3_000_000))
            with pytest.raises(bh.MemoryLimitExceeded, match=r"22\.89 MiB") as error:
                bh.sum(large).numpy()
            assert error.value.details["needed"] == "24000000"
            assert error.value.details["limit"] == "20000000"
            assert dispatcher.pool.used < 1000
            del large
            assert float(one + 2.0) == 3.0
    finally:
        server.stop(None)


def test_more_streams_than_the_server_takes_wait_for_their_turn() -> None:
    server = Server(Dispatcher(Engine()), ["127.0.0.1:0"], streams=1)
    server.start()
    try:
        with bh.connect(server.targets[0], timeout=60) as connection:
            taken = server._stream._free
            assert taken.acquire(blocking=False)
            pauses: list[float] = []

            def sleep(seconds: float) -> None:
                pauses.append(seconds)
                taken.release()

            transport: Any = connection._ready()
            transport._sleep = sleep
            with bh.Tape(connection) as tape:
                assert float(bh.sum(tape.leaf(np.ones(1_000_000)))) == 1e6
            assert len(pauses) == 1
            assert connection.calls["ExecuteStream"] == 2
    finally:
        server.stop(None)


class Stop(Exception):
    pass


def test_progress_is_told_chunk_by_chunk_to_who_asks(target: str) -> None:
    told: list[bh.Progress] = []
    threads = set()

    def progress(now: bh.Progress) -> None:
        told.append(now)
        threads.add(threading.current_thread())

    with (
        bh.connect(target, timeout=60, progress=progress) as connection,
        bh.Tape(connection) as tape,
    ):
        x = tape.leaf(numbers(5 * CHUNK_BYTES // 8 + 10))
        assert (-x).numpy().nbytes == 5 * CHUNK_BYTES + 80
    size = 5 * CHUNK_BYTES + 80
    up = [each for each in told if not each.to_receive]
    down = [each for each in told if each.to_receive]
    assert [each.sent for each in up] == [*(n * CHUNK_BYTES for n in range(1, 6)), size]
    assert {each.to_send for each in told if each.to_send} == {size}
    assert [each.received for each in down] == [*(n * CHUNK_BYTES for n in range(1, 6)), size]
    assert {each.to_receive for each in down} == {size}
    assert threads == {threading.current_thread()}


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt])
@pytest.mark.parametrize("at", ["sending", "receiving"])
def test_what_progress_raises_ends_the_call_and_the_tape_goes_on(
    server: Server, target: str, error: type[BaseException], at: str
) -> None:
    stops = True

    def progress(now: bh.Progress) -> None:
        if stops and (now.received if at == "receiving" else now.sent) >= 2 * CHUNK_BYTES:
            raise error

    with (
        bh.connect(target, timeout=60, progress=progress) as connection,
        bh.Tape(connection) as tape,
    ):
        array = numbers(8 * CHUNK_BYTES // 8)
        y = -tape.leaf(array)
        with pytest.raises(error):
            y.numpy()
        stops = False
        assert y.numpy().tobytes() == (-array).tobytes()
        assert float(bh.sum(y * 0.0)) == 0.0
    wait_until(lambda: server._stream._free._value == 16)


def test_progress_must_be_a_function() -> None:
    with pytest.raises(bh.InvalidArgument, match="progress is 3"):
        bh.connect("embedded", progress=3)  # type: ignore[arg-type]
