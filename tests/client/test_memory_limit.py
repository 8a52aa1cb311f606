"""A tape's limit of memory: what would go beyond is refused before it runs, in numbers."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum
import pytest

import backhaul as bh
from backhaul.demo import Network, load
from backhaul_proto.messages import SessionInfo
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

Array = np.ndarray[Any, Any]
CORPUS = Path(os.environ.get("BACKHAUL_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
ROWS = np.ones((100, 1000))
"""800,000 bytes."""


def info(tape: bh.Tape) -> SessionInfo:
    """What the tape's session holds."""
    session, connection = tape._core._session, tape._core.connection
    return connection._ready().get_session(session.id, session.epoch, timeout=120)


@contextmanager
def serving(**limits: Any) -> Iterator[bh.Connection]:
    """A connection to a server of its own with these limits."""
    server = Server(Dispatcher(Engine(), **limits), ["127.0.0.1:0"])
    server.start()
    try:
        with bh.connect(server.targets[0], timeout=60) as connection:
            yield connection
    finally:
        server.stop(None)


def test_a_step_beyond_the_limit_is_refused_with_numbers_at_its_line(
    connection: bh.Connection,
) -> None:
    with bh.Tape(connection, memory_limit=1_000_000) as tape:
        x = tape.leaf(ROWS)
        y = x + x
        with pytest.raises(bh.MemoryLimitExceeded) as caught:
            y.numpy()
        details = caught.value.details
        assert details.pop("source").startswith(f"{__file__}:")
        assert details == {
            "needed": "1600000",
            "held": "0",
            "limit": "1000000",
            "op": "add",
            "node": "2",
            "step": "1",
            "step_bytes": "800000",
        }
        for part in ("would need 1.526 MiB", "is 976.6 KiB", "add (node 2)", "memory_limit="):
            assert part in str(caught.value)
        assert str(caught.value).count("recorded at") == 1


def test_a_refused_request_changes_nothing_and_the_tape_lives_on(
    connection: bh.Connection,
) -> None:
    with bh.Tape(connection, memory_limit=1_000_000) as tape:
        x = tape.leaf(ROWS)
        total = bh.sum(x)
        assert float(total) == 100_000.0
        held = info(tape)
        y = x + x
        with pytest.raises(bh.MemoryLimitExceeded):
            y.numpy()
        assert (info(tape).nodes, info(tape).bytes) == (held.nodes, held.bytes)
        del y
        assert float(total * 2.0) == 200_000.0


def test_a_step_that_is_refused_twice_fails_alone(connection: bh.Connection) -> None:
    with bh.Tape(connection, memory_limit=1_000_000) as tape:
        x = tape.leaf(ROWS)
        y = x + x
        small = bh.sum(x)
        for _ in range(3):
            with pytest.raises(bh.MemoryLimitExceeded):
                y.numpy()
        with pytest.raises(bh.MemoryLimitExceeded, match="recorded at"):
            (y * 2.0).numpy()
        assert float(small) == 100_000.0


def test_a_leaf_beyond_the_limit_is_refused(connection: bh.Connection) -> None:
    with bh.Tape(connection, memory_limit=500_000) as tape:
        x = tape.leaf(ROWS)
        with pytest.raises(bh.MemoryLimitExceeded) as caught:
            bh.sum(x).numpy()
        assert (caught.value.details["op"], caught.value.details["node"]) == ("leaf", "1")
        assert float(tape.leaf(2.0) * 3.0) == 6.0


def _chain(tape: bh.Tape) -> tuple[list[bh.TrackedTensor], bh.TrackedTensor]:
    rng = np.random.default_rng(2)
    leaves = [tape.leaf(rng.standard_normal((60, 60))) for _ in range(4)]
    y = leaves[0]
    for each in leaves[1:]:
        y = y @ each
    return leaves, bh.sum(y * y)


def _directions(leaves: list[bh.TrackedTensor]) -> dict[bh.TrackedTensor, Array]:
    return {each: np.ones(each.shape) for each in leaves}


QUESTIONS: dict[str, Callable[[bh.Tape], Any]] = {
    "value": lambda tape: _chain(tape)[1].numpy(),
    "pullback": lambda tape: tape.pullback(_chain(tape)[1]),
    "three cotangents": lambda tape: tape.pullback(_chain(tape)[1], cotangent=[1.0, 2.0, 3.0]),
    "wrt": lambda tape: [tape.pullback(loss, wrt=leaves[:1]) for leaves, loss in [_chain(tape)]],
    "hvp": lambda tape: [
        tape.hvp(loss, tangents=_directions(leaves)) for leaves, loss in [_chain(tape)]
    ],
    "two directions": lambda tape: [
        tape.hvp(loss, tangents=[_directions(leaves), _directions(leaves[1:2])])
        for leaves, loss in [_chain(tape)]
    ],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_the_refusal_says_is_needed_is_enough_and_a_byte_less_is_not(
    connection: bh.Connection, question: str
) -> None:
    ask = QUESTIONS[question]

    def needed(limit: int) -> int:
        """By the refusal of a tape with this limit; 0 when it is enough."""
        try:
            with bh.Tape(connection, memory_limit=limit) as tape:
                ask(tape)
        except bh.MemoryLimitExceeded as error:
            return int(error.details["needed"])
        return 0

    enough = limit = 60_000
    while limit := needed(enough):  # what a question needs is told when its steps fit
        assert limit > enough
        enough = limit
    # Less memory may mean that more is computed again, so it may need less: it is refused or right.
    assert needed(enough - 1) == enough


def test_a_question_beyond_the_limit_is_refused_before_its_steps_are_run(
    connection: bh.Connection,
) -> None:
    with bh.Tape(connection, memory_limit=5_000_000) as tape:
        x = tape.leaf(ROWS)
        loss = bh.sum(x * x)
        v = np.ones(ROWS.shape)
        with pytest.raises(bh.MemoryLimitExceeded, match=r"The hvp would need .* multiply"):
            tape.hvp(loss, tangents={x: v})
        assert not tape._core._session.last_seq
        np.testing.assert_array_equal(tape.pullback(loss)[x], 2.0 * ROWS)


def test_what_is_dropped_makes_room_at_once(connection: bh.Connection) -> None:
    with bh.Tape(connection, memory_limit=2_000_000) as tape:
        x = tape.leaf(ROWS)
        for i in range(20):
            big = tape.constant(ROWS + i)  # a new one fits beside x when the last has gone
            assert float(bh.sum(big)) == 100_000.0 * (1 + i)
            del big
        assert float(bh.sum(x)) == 100_000.0
        assert info(tape).bytes <= 2_000_000


def test_a_loop_far_longer_than_the_limit_runs(connection: bh.Connection) -> None:
    with bh.Tape(connection, memory_limit=500_000) as tape:
        x = np.full((100, 100), 2.0)
        for _ in range(40):
            w = tape.leaf(x)
            x = tape.pullback(bh.sum(w * w))[w] * 0.5
        np.testing.assert_array_equal(x, np.full((100, 100), 2.0))


def test_memory_that_tensors_share_is_counted_once(connection: bh.Connection) -> None:
    with bh.Tape(connection) as tape:
        x = tape.leaf(ROWS)
        kept = [bh.reshape(x, (1000, 100)), bh.matrix_transpose(x), *bh.unstack(x)]
        total = bh.sum(bh.stack(kept[2:]))
        assert float(total) == 100_000.0
        assert info(tape).bytes < 2 * ROWS.nbytes + 1000
        y = bh.sum(x * x)
        float(y)
        before = info(tape).bytes
        assert before > 2 * ROWS.nbytes  # x * x is out of reach, and kept by y
        del kept, total, x, y
        float(tape.constant(1.0) + 1.0)
        float(tape.constant(1.0) + 2.0)
        assert info(tape).bytes < 1000


def test_the_server_caps_what_a_tape_asks_for() -> None:
    with serving(session_memory=1_000_000) as connection:
        assert connection.info().limits.session_memory == 1_000_000
        for asked, given in ((None, 1_000_000), (1 << 70, 1_000_000), (900_000, 900_000)):
            with bh.Tape(connection, memory_limit=asked) as tape:
                assert float(bh.sum(tape.leaf([1.0, 2.0]))) == 3.0
                assert info(tape).memory_limit == given
        with bh.Tape(connection) as tape, pytest.raises(bh.MemoryLimitExceeded):
            (tape.leaf(ROWS) * 2.0).numpy()


def test_a_server_without_settings_lets_a_session_use_half_of_the_memory(
    connection: bh.Connection,
) -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < connection.info().limits.session_memory <= physical // 2
    with bh.Tape(connection) as tape:
        float(tape.leaf(1.0) * 2.0)
        assert info(tape).memory_limit == connection.info().limits.session_memory


def test_sessions_together_keep_to_the_servers_memory() -> None:
    with serving(memory=2_000_000) as connection:
        assert connection.info().limits.session_memory == 2_000_000
        first, second = bh.Tape(connection), bh.Tape(connection)
        x = first.leaf(ROWS)
        assert float(bh.sum(x)) == 100_000.0
        y = second.leaf(ROWS)
        twice = y + y
        connection.timeout = 3.0  # so long the second one waits for the first
        with pytest.raises(bh.ServerBusy, match="the other sessions of the server hold") as caught:
            twice.numpy()
        facts = {"needed": "1600000", "held": "800008", "limit": "2000000", "retry_after": "1.0"}
        assert caught.value.details == facts
        connection.timeout = 60
        assert float(bh.sum(x)) == 100_000.0
        first.close()
        assert float(bh.sum(twice)) == 200_000.0
        second.close()


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "1GB"])
def test_a_limit_that_is_no_number_of_bytes_is_refused(limit: Any) -> None:
    for call in (
        lambda: bh.Tape(memory_limit=limit),
        lambda: bh.contract_path("i->", (3,), shapes=True, memory_limit=limit),
    ):
        with pytest.raises(bh.InvalidArgument, match="whole number of bytes") as caught:
            call()
        assert caught.value.reason == "INVALID_VALUE"


def _queen() -> Network:
    path = CORPUS.parent / "instances" / "gm_queen5_5_3.wcsp.json"
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
        pytest.skip(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
    return load(path)


@pytest.mark.corpus
def test_a_network_with_a_gigabyte_in_between_is_refused_without_an_allocation() -> None:
    network = _queen()
    with bh.connect("embedded") as connection:
        tape = bh.Tape(connection, memory_limit=1 << 18)  # slices that fit would take too long
        leaves = [tape.leaf(x) for x in network.operands(np.random.default_rng(3))]
        result = bh.einsum(network.subscripts, *leaves, path=network.path)
        found = bh.contract_path(network.subscripts, *leaves, path=network.path)
        assert found.largest_intermediate == 3**17
        assert found.value_bytes > 8 * 3**17
        tracemalloc.start()
        try:
            with pytest.raises(bh.MemoryLimitExceeded) as caught:
                tape.pullback(result)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()
        details = caught.value.details
        assert details["op"] == "einsum"
        assert int(details["step_bytes"]) >= 8 * 3**17
        assert float(bh.sum(leaves[0])) == pytest.approx(float(leaves[0].numpy().sum()))


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("limit", [3 << 30, 512 << 20], ids=["as a whole", "in slices"])
def test_that_network_runs_within_a_sufficient_limit(limit: int) -> None:
    network = _queen()
    values = network.operands(np.random.default_rng(3))
    with bh.connect("embedded") as connection:
        assert network.path is not None
        path = list(network.path)
        expected = float(opt_einsum.contract(network.subscripts, *values, optimize=path))
        tracemalloc.start()
        try:
            with bh.Tape(connection, memory_limit=limit) as tape:
                leaves = [tape.leaf(x) for x in values]
                result = bh.einsum(network.subscripts, *leaves, path=network.path)
                found = bh.contract_path(network.subscripts, *leaves, path=network.path)
                assert (found.slices > 1) == (limit < 1 << 30)
                assert found.gradient_bytes <= limit
                gradients = tape.pullback(result)
                assert float(result) == pytest.approx(expected, rel=1e-9, abs=0.0)
                for leaf, x in zip(leaves, values, strict=True):  # it is linear in each operand
                    along = float(np.vdot(gradients[leaf], x))
                    assert along == pytest.approx(expected, rel=1e-9, abs=0.0)
            assert tracemalloc.get_traced_memory()[1] <= limit + (64 << 20)
        finally:
            tracemalloc.stop()
