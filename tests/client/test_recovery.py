"""Tapes made again on a server that was restarted: the same numbers to the last bit, or a typed error."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.chaos.restarted import Restarted, restarted

import backhaul as bh
import backhaul.aio

Array = np.ndarray[Any, Any]


@pytest.fixture
def server() -> Iterator[Restarted]:
    with restarted() as made:
        yield made


def trained(connection: bh.Connection, between: Callable[[int], None]) -> list[bytes]:
    """A training loop in which values stay on the server; ``between`` is told each step."""
    tape = bh.Tape(connection)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=8)
    w = tape.leaf(rng.normal(size=3))
    told: list[bytes] = []
    for i in range(12):
        loss = bh.sum((x @ w - y) ** 2)
        between(i)
        gradients = tape.pullback(loss, fetch=i % 3 == 0)
        between(i + 100)
        told.append(loss.numpy().tobytes())
        w = tape.leaf(w - 0.01 * gradients[w])
        if i % 4 == 1:
            told.append(w.numpy().tobytes())
    cotangents = [np.ones(3), np.arange(3.0)]
    between(200)
    told += [each[w].tobytes() for each in tape.pullback(w * w, cotangent=cotangents)]
    v = tape.leaf_with_tangent(w, np.ones(3))
    between(201)
    result = tape.hvp(bh.sum(v * v * v))
    told += [result.hvp[v].tobytes(), result.gradients[v].tobytes()]
    return told


def test_a_training_loop_equals_the_undisturbed_one_wherever_the_server_is_restarted(
    server: Restarted,
) -> None:
    with bh.connect("embedded") as undisturbed:
        expected = trained(undisturbed, lambda _: None)
    with bh.connect(server.target, timeout=60, recover=True) as connection:
        found = trained(connection, lambda i: server.restart() if i % 3 != 1 else None)
    assert found == expected
    assert server.restarts > 10


def test_without_recovery_every_question_after_a_restart_is_session_lost(server: Restarted) -> None:
    with bh.connect(server.target, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf([1.0, 2.0])
        assert float(bh.sum(x)) == 3.0
        server.restart()
        for _ in range(3):
            with pytest.raises(bh.SessionLost) as lost:
                tape.pullback(bh.sum(x * x))
            assert lost.value.reason == "SESSION_LOST"
        assert float(bh.sum(bh.Tape(connection).leaf([1.0, 2.0]))) == 3.0


def test_failed_nodes_and_released_handles_are_as_before(server: Restarted) -> None:
    with bh.connect(server.target, timeout=60, recover=True) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.zeros((2, 2)))
        singular = bh.linalg.inv(x)
        y = x + 1.0
        z = y * y
        assert float(bh.sum(z)) == 4.0
        del y
        with pytest.raises(bh.LinearAlgebraError):
            singular.numpy()
        server.restart()
        np.testing.assert_array_equal(tape.pullback(bh.sum(z))[x], np.full((2, 2), 2.0))
        with pytest.raises(bh.LinearAlgebraError):
            singular.numpy()


def test_a_leaf_with_a_tangent_that_is_gone_still_makes_a_direction(server: Restarted) -> None:
    with bh.connect(server.target, timeout=60, recover=True) as connection:
        tape = bh.Tape(connection)
        gone = tape.leaf_with_tangent(np.ones(1000), np.ones(1000))
        x = tape.leaf([1.0, 2.0])
        assert float(bh.sum(gone)) + float(bh.sum(x)) == 1003.0
        del gone
        server.restart()
        np.testing.assert_array_equal(tape.hvp(bh.sum(x * x)).hvp[x], [0.0, 0.0])


def test_a_loop_with_fetched_gradients_keeps_a_bounded_record(server: Restarted) -> None:
    with bh.connect(server.target, timeout=60, recover=True, recover_bytes=4 << 20) as connection:
        tape = bh.Tape(connection)
        w = np.ones(10_000)
        record: Any = tape._core._session._record
        for _ in range(100):  # 8 MB of leaves in all
            leaf = tape.leaf(w)
            w = w - 0.1 * tape.pullback(bh.sum(leaf * leaf))[leaf]
            assert record.nbytes <= 2 << 20
        server.restart()
        assert float(bh.sum(leaf)) == pytest.approx(10_000 * 0.8**99)
        assert record.given_up is None


def test_a_record_that_grows_too_large_is_given_up_with_one_warning(server: Restarted) -> None:
    with bh.connect(server.target, timeout=60, recover=True, recover_bytes=100_000) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.ones(20_000))
        with pytest.warns(RuntimeWarning, match="97.66 KiB"):
            assert float(bh.sum(x)) == 20_000.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert float(bh.sum(x * 2.0)) == 40_000.0
        server.restart()
        for _ in range(2):
            with pytest.raises(bh.SessionLost, match="given up") as lost:
                x.numpy()
            assert "recover_bytes" in lost.value.details["recovery"]


def test_a_server_that_is_down_for_a_while_is_waited_for(server: Restarted) -> None:
    with bh.connect(server.target, recover=True) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf([1.0, 2.0])
        assert float(bh.sum(x)) == 3.0
        server.stop()
        pauses: list[float] = []
        transport: Any = connection._ready()
        sleep = transport._sleep

        def slept(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 6:  # more than the tries that any call has
                server.start()
            sleep(min(seconds, 0.2))

        transport._sleep = slept
        np.testing.assert_array_equal(tape.pullback(bh.sum(x * x))[x], [2.0, 4.0])
        assert len(pauses) >= 6


def test_the_client_that_awaits_recovers_too(server: Restarted) -> None:
    async def main() -> list[float]:
        found = []
        async with backhaul.aio.connect(server.target, timeout=60, recover=True) as connection:
            tape = backhaul.aio.Tape(connection)
            w = tape.leaf([1.0, 2.0])
            for _ in range(4):
                loss = backhaul.aio.sum(w * w)
                gradients = await tape.pullback(loss, fetch=False)
                await asyncio.to_thread(server.restart)
                found.append(await loss.item())
                w = tape.leaf(w - 0.25 * gradients[w])
        return found

    assert asyncio.run(main()) == [5.0, 1.25, 0.3125, 0.078125]


def test_what_cannot_be_is_refused() -> None:
    for arguments in ({"recover": 1}, {"recover_bytes": 5}, {"recover": True, "recover_bytes": 0}):
        given: Any = arguments
        with pytest.raises(bh.InvalidArgument) as error:
            bh.connect("embedded", **given)
        assert error.value.reason == "INVALID_VALUE"


def test_gradients_that_stay_are_made_again_where_their_answer_had_the_record_made_smaller(
    server: Restarted,
) -> None:
    def gradients(connection: bh.Connection, between: Callable[[], None]) -> list[bytes]:
        x = bh.Tape(connection).leaf_with_tangent(np.linspace(0, 1, 100_000), np.ones(100_000))
        first = x.tape.pullback(bh.sum(x * x * x), fetch=False)[x]
        second = x.tape.hvp(bh.sum(x * x * first), fetch=False).hvp[x]
        between()
        return [(each * 2.0).numpy().tobytes() for each in (first, second)]

    with bh.connect("embedded") as undisturbed:
        expected = gradients(undisturbed, lambda: None)
    with bh.connect(server.target, timeout=60, recover=True) as connection:
        assert gradients(connection, server.restart) == expected
    assert server.restarts == 1
