"""Tapes on a device beside the host, over real sockets: where their arrays are, whose memory they take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from tests.chaos.restarted import held_port
from tests.devices.second import NAME, TwoDevices, two_devices

import backhaul as bh
import backhaul.aio
from backhaul_proto.errors import (
    InternalError,
    InvalidArgument,
    MemoryLimitExceeded,
    QuotaExceeded,
    make_error,
)
from backhaul_server.sessions.accounts import Quotas

KB = 1000


@pytest.fixture
def two() -> Iterator[TwoDevices]:
    with two_devices() as made:
        yield made


@pytest.fixture
def connection(two: TwoDevices) -> Iterator[bh.Connection]:
    with bh.connect(two.target, timeout=120) as made:
        yield made


def test_from_leaves_to_gradients_nothing_but_leaves_and_answers_is_moved(
    two: TwoDevices, connection: bh.Connection
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(4, 5))
    da, db = rng.normal(size=(3, 4)), rng.normal(size=(4, 5))

    def run(device: str | None) -> list[np.ndarray]:
        with bh.Tape(connection, device=device) as tape:
            x, y = tape.leaf_with_tangent(a, da), tape.leaf_with_tangent(b, db)
            c = bh.einsum("ij,jk->ik", x, y)
            loss = bh.einsum("ik,ik->", c, bh.sin(c))
            gradients = tape.pullback(loss)
            both = tape.hvp(loss)
            pushed = tape.pushforward(c)
            return [
                gradients[x],
                gradients[y],
                both.hvp[x],
                both.hvp[y],
                np.asarray(gradients.value),
                pushed.tangent,
            ]

    expected = run(None)
    assert (two.xp.sent, two.xp.fetched) == ([], [])
    for got, right in zip(run(NAME), expected, strict=True):
        np.testing.assert_allclose(got, right, rtol=1e-13)
    assert two.xp.sent == [(3, 4), (3, 4), (4, 5), (4, 5)]
    pullback, hvp, pushforward = [(), (3, 4), (4, 5)], [(), *[(3, 4), (4, 5)] * 2], [(3, 5)] * 2
    assert sorted(two.xp.fetched) == sorted([*pullback, *hvp, *pushforward])


def test_what_stays_on_the_device_is_not_moved(two: TwoDevices, connection: bh.Connection) -> None:
    with bh.Tape(connection, device=NAME) as tape:
        x = tape.leaf(np.arange(1.0, 4.0))
        for _ in range(3):
            gradients = tape.pullback(bh.sum(x * x * x), fetch=False)
            x = tape.leaf(x - 0.1 * gradients[x])
        value = x.numpy()
    expected = np.arange(1.0, 4.0)
    for _ in range(3):
        expected = expected - 0.1 * 3 * expected**2
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    assert two.xp.sent == [(3,), ()]  # the leaf, and the step's size once
    assert two.xp.fetched == [(), (), (), (3,)]


def test_each_session_has_a_lane_and_runs_in_it(two: TwoDevices, connection: bh.Connection) -> None:
    first, second = bh.Tape(connection, device=NAME), bh.Tape(connection, device=NAME)
    for tape in (first, first, second):
        assert tape.pullback(bh.sum(tape.leaf(np.ones(2)))).value == 2
    assert [lane.turns for lane in two.xp.lanes] == [2, 1]


def test_an_error_of_the_device_is_typed_and_leaves_the_session_as_it_was(
    two: TwoDevices, connection: bh.Connection
) -> None:
    with bh.Tape(connection, device=NAME) as tape:
        x = tape.leaf(np.ones(2))
        assert bh.sum(x).numpy() == 2
        two.xp.failure = make_error("DEVICE_FAILED", "It failed.", device=NAME)
        doubled = x * 2
        with pytest.raises(InternalError, match="It failed") as caught:
            doubled.numpy()
        assert caught.value.reason == "DEVICE_FAILED"
        assert caught.value.details["device"] == NAME
        np.testing.assert_array_equal((x * 3).numpy(), [3, 3])


def test_a_server_tells_its_devices_and_where_sessions_are(
    two: TwoDevices, connection: bh.Connection
) -> None:
    host, second = connection.info().devices
    assert (host.name, host.backend) == ("cpu", "numpy")
    assert (second.name, second.backend, second.model) == (
        NAME,
        "array_api_strict",
        "array-api-strict",
    )
    assert (second.memory_limit, second.session_memory) == (1 << 30, (1 << 30) * 5 // 8)
    assert connection.info().backend == "numpy"
    tapes = [bh.Tape(connection, device=device) for device in (None, NAME, "cpu")]
    for tape in tapes:
        bh.sum(tape.leaf(np.ones(1))).numpy()
    assert [each.info.device for each in connection.sessions()] == ["cpu", NAME, "cpu"]


def test_the_default_is_the_servers() -> None:
    with two_devices(device=NAME) as two, bh.connect(two.target, timeout=120) as connection:
        info = connection.info()
        assert [each.name for each in info.devices] == [NAME, "cpu"]
        assert info.backend == "array_api_strict"
        assert info.limits.session_memory == info.devices[0].session_memory
        with bh.Tape(connection) as tape, bh.Tape(connection, device="cpu") as on_host:
            assert bh.sum(tape.leaf(np.ones(2))).numpy() == 2
            assert two.xp.sent == [(2,)]
            assert bh.sum(on_host.leaf(np.ones(3))).numpy() == 3
            assert two.xp.sent == [(2,)]


def test_a_device_that_is_not_there_is_refused_with_those_that_are(
    connection: bh.Connection,
) -> None:
    with bh.Tape(connection, device="cuda:7") as tape:
        loss = bh.sum(tape.leaf(np.ones(1)))
        with pytest.raises(
            InvalidArgument, match="no device 'cuda:7'; it has cpu, strict:1"
        ) as caught:
            loss.numpy()
    assert caught.value.reason == "UNKNOWN_DEVICE"
    assert caught.value.details == {"device": "cuda:7", "devices": "cpu, strict:1"}
    for wrong in ("", 0, b"cpu"):
        with pytest.raises(InvalidArgument, match="device is"):
            bh.Tape(connection, device=wrong)  # type: ignore[arg-type]


def test_tapes_of_asyncio_choose_a_device_too(two: TwoDevices) -> None:
    async def main() -> np.ndarray:
        async with (
            backhaul.aio.connect(two.target, timeout=120) as connection,
            backhaul.aio.Tape(connection, device=NAME) as tape,
        ):
            x = tape.leaf(np.ones(2))
            return (await tape.pullback(backhaul.aio.sum(x * x)))[x]

    np.testing.assert_array_equal(asyncio.run(main()), [2, 2])
    assert two.xp.sent == [(2,)]


def test_a_path_is_told_for_the_memory_of_the_tapes_device() -> None:
    with (
        two_devices(device_memory=400 * KB) as two,
        bh.connect(two.target, timeout=120) as connection,
        bh.Tape(connection, device=NAME) as small,
        bh.Tape(connection) as large,
    ):
        rng = np.random.default_rng(0)

        def kept(tape: bh.Tape) -> int:
            operands = [tape.leaf(rng.normal(size=(60, 60))) for _ in range(6)]
            path = bh.contract_path("ab,bc,cd,de,ef,fg->ag", *operands)
            return sum(each.kept for each in path.steps)

        assert kept(small) < kept(large)


def test_a_tape_that_is_made_again_is_on_its_device() -> None:
    with (
        held_port() as held,
        bh.connect(
            address := f"127.0.0.1:{held.getsockname()[1]}", timeout=120, recover=True
        ) as connection,
    ):
        with two_devices(address=address):
            tape = bh.Tape(connection, device=NAME)
            x = tape.leaf(np.ones(2))
            assert bh.sum(x).numpy() == 2
        with two_devices(address=address) as second:
            np.testing.assert_array_equal(tape.pullback(bh.sum(x * x))[x], [2, 2])
            assert second.xp.sent == [(2,)]
            assert [each.info.device for each in connection.sessions()] == [NAME]


def test_a_session_that_cannot_begin_there_leaves_nothing(
    two: TwoDevices, connection: bh.Connection
) -> None:
    two.xp.no_lane = make_error("DEVICE_FAILED", "It failed.", device=NAME)
    loss = bh.sum(bh.Tape(connection, device=NAME).leaf(np.ones(1)))
    with pytest.raises(InternalError, match="It failed"):
        loss.numpy()
    assert two.dispatcher.session_count == 0
    two.xp.no_lane = None
    two.dispatcher.pool.quotas = Quotas(sessions=1)
    assert bh.sum(bh.Tape(connection, device=NAME).leaf(np.ones(1))).numpy() == 1


# Memory


def test_memory_is_of_the_device_that_it_is_on(connection: bh.Connection) -> None:
    def used() -> list[int]:
        return [each.memory_used for each in connection.info().devices]

    assert used() == [0, 0]
    with bh.Tape(connection, device=NAME) as tape:
        bh.sum(tape.leaf(np.ones(100 * KB))).numpy()
        host, second = used()
        assert host == 0
        assert 800 * KB <= second < 1000 * KB
    assert used() == [0, 0]


def test_a_device_with_less_memory_refuses_what_the_host_would_take() -> None:
    with two_devices(device_memory=KB) as two, bh.connect(two.target, timeout=120) as connection:
        with bh.Tape(connection, device=NAME) as tape:
            kept = tape.leaf(np.ones(20))
            assert bh.sum(kept).numpy() == 20
            loss = bh.sum(tape.leaf(np.ones(100)))
            with pytest.raises(MemoryLimitExceeded) as caught:
                loss.numpy()
            assert caught.value.details["device"] == NAME
            assert int(caught.value.details["limit"]) == KB * 5 // 8
            np.testing.assert_array_equal(kept.numpy(), np.ones(20))
        with bh.Tape(connection) as tape:
            assert bh.sum(tape.leaf(np.ones(100))).numpy() == 100


def test_the_host_too_must_have_room_for_what_comes_and_goes() -> None:
    """A gradient as large as the tape comes back through the host's memory, which is small here."""
    with two_devices(memory=2 << 20) as two:
        with (
            bh.connect(two.target, timeout=120) as connection,
            bh.Tape(connection, device=NAME) as tape,
        ):
            x = tape.leaf(np.ones(100 * KB))  # 0.8 MB
            wide = bh.broadcast_to(x, (5, 100 * KB)) * 1.0
            loss = bh.sum(wide)
            assert loss.numpy() == 500 * KB
            with pytest.raises(MemoryLimitExceeded, match="in the server's own memory") as caught:
                tape.pullback(loss, wrt=[wide])
            assert "device" not in caught.value.details
            kept = tape.pullback(loss, wrt=[wide], fetch=False)[wide]
            assert bh.sum(kept).numpy() == 500 * KB
        assert two.dispatcher.pool.read() == (0, 0)


def test_sessions_are_counted_on_all_devices_together() -> None:
    with (
        two_devices(quotas=Quotas(principal_sessions=2)) as two,
        bh.connect(two.target, timeout=120) as connection,
    ):
        tapes = [bh.Tape(connection, device=device) for device in ("cpu", NAME, NAME)]
        for tape in tapes[:2]:
            bh.sum(tape.leaf(np.ones(1))).numpy()
        loss = bh.sum(tapes[2].leaf(np.ones(1)))
        with pytest.raises(QuotaExceeded, match="2 tapes open"):
            loss.numpy()
        tapes[1].close()
        bh.sum(bh.Tape(connection, device=NAME).leaf(np.ones(1))).numpy()
        assert two.dispatcher.session_count == 2


def test_large_arrays_come_in_pieces_and_their_claim_is_the_hosts(
    two: TwoDevices, connection: bh.Connection
) -> None:
    data = np.random.default_rng(1).normal(size=2_000_000)  # 16 MB: a stream
    with bh.Tape(connection, device=NAME) as tape:
        x = tape.leaf(data)
        gradients = tape.pullback(bh.sum(x * x))
        np.testing.assert_array_equal(gradients[x], 2 * data)
        assert two.dispatcher.pool.read() == (0, 0)
    assert two.dispatcher.devices.find(NAME).pool.read() == (0, 0)
