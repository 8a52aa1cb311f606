"""Steps that the server refuses: all else on the tape lives on, and what is too large goes in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.client.flaky import FlakyTransport, flaky

import backhaul as bh
from backhaul.transport import Array
from backhaul.transport.statuses import message_too_large
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import Answer, Execute
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server


def refuse(
    monkeypatch: pytest.MonkeyPatch, transport: FlakyTransport, op: str, error: BackhaulError
) -> None:
    """Let the server refuse any request with a step of this op in it."""
    execute = transport.execute
    known: dict[bytes, bytes] = {}

    def refusing(request: Execute, *, timeout: float | None) -> Answer:
        block = request.block
        if block is not None:
            data = known.setdefault(block.hash, block.block or b"")
            if op.encode() in data:
                raise make_error(error.reason, error.message, **error.details)
        return execute(request, timeout=timeout)

    monkeypatch.setattr(transport, "execute", refusing)


ERRORS = [
    make_error("INTERNAL", "A bug.", incident="1234"),
    make_error("SHAPE_MISMATCH", "The server says so."),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: each.reason)
def test_a_step_that_the_server_refuses_fails_alone(
    monkeypatch: pytest.MonkeyPatch, error: BackhaulError
) -> None:
    with flaky() as (tape, transport):
        refuse(monkeypatch, transport, "tril", error)
        x = tape.leaf(np.ones((2, 2)))
        before = bh.sum(x * 2.0)
        bad = bh.tril(x)
        line = test_a_step_that_the_server_refuses_fails_alone.__code__.co_firstlineno + 8
        after = bh.sum(x * x * 3.0)
        of_bad = bh.sum(bad * 2.0)
        assert float(before) == 8.0
        np.testing.assert_array_equal(tape.pullback(after)[x], np.full((2, 2), 6.0))
        later = bh.sum(bad + x)
        for each in (bad, of_bad, later, bad * 1.0):
            with pytest.raises(type(error)) as raised:
                each.numpy()
            assert raised.value.reason == error.reason
            assert raised.value.details["source"] == f"{__file__}:{line}"
        with pytest.raises(type(error)):
            tape.pullback(after, wrt=[x, bad])
        with pytest.raises(type(error)):
            tape.pullback(x * 1.0, cotangent=bad)
        assert "failed" in repr(of_bad)
        gone = bad * 5.0
        del bad, later, of_bad
        with pytest.raises(type(error)):
            gone.numpy()
        assert float(bh.sum(after * before)) == 96.0


def test_a_step_that_needs_too_much_memory_fails_when_asking_again_does_not_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with flaky() as (tape, transport):
        refuse(monkeypatch, transport, "tril", make_error("MEMORY_LIMIT_EXCEEDED", "Too much."))
        x = tape.leaf(np.ones((2, 2)))
        bad, good = bh.tril(x), bh.sum(x)
        with pytest.raises(bh.MemoryLimitExceeded):
            good.numpy()
        assert float(good) == 4.0
        with pytest.raises(bh.MemoryLimitExceeded):
            bad.numpy()
        monkeypatch.undo()
        np.testing.assert_array_equal(bh.tril(x).numpy(), np.tril(np.ones((2, 2))))


def test_an_error_of_the_question_is_no_steps_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        y = x * 3.0
        error = make_error("INTERNAL", "A bug.", incident="1234")
        execute = transport.execute

        def refusing(request: Execute, *, timeout: float | None) -> Answer:
            if request.question is not None:
                raise make_error(error.reason, error.message, **error.details)
            return execute(request, timeout=timeout)

        monkeypatch.setattr(transport, "execute", refusing)
        for _ in range(2):
            with pytest.raises(bh.InternalError, match="A bug"):
                tape.pullback(y)
        assert float(y) == 6.0
        monkeypatch.undo()
        assert float(tape.pullback(y)[x]) == 3.0


def test_a_server_that_refuses_everything_is_no_steps_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)

        def refusing(request: Execute, *, timeout: float | None) -> Answer:
            raise make_error("INTERNAL", "A bug.", incident="1234")

        monkeypatch.setattr(transport, "execute", refusing)
        with pytest.raises(bh.InternalError):
            (x * 3.0).numpy()
        monkeypatch.undo()
        assert float(x * 3.0) == 6.0


def small_limits(transport: FlakyTransport, limit: int) -> None:
    """Let the transport refuse requests above a limit."""
    call = transport._call

    def checked(method: str, header: bytes, tensors: Any, *rest: Any) -> Any:
        size = len(header) + sum(each.nbytes for each in tensors)
        if size > limit:
            raise message_too_large(transport.target, size, limit)
        return call(method, header, tensors, *rest)

    transport._call = checked  # type: ignore[method-assign,assignment]  # a fault is put in


def test_what_is_too_large_together_goes_in_parts() -> None:
    with flaky() as (tape, transport):
        small_limits(transport, 10_000)
        leaves = [tape.leaf(np.full(1000, float(i))) for i in range(8)]
        loss = bh.sum(leaves[0])
        for each in leaves[1:]:
            loss = loss + bh.sum(each)
        assert float(loss) == 28_000.0
        assert {sum(each.nbytes for each in r.tensors) for r in transport.requests} == {0, 8000}


def test_a_tensor_that_is_too_large_alone_is_named() -> None:
    with flaky() as (tape, transport):
        small_limits(transport, 10_000)
        large, small = tape.leaf(np.ones(2000)), tape.leaf(3.0)
        line = test_a_tensor_that_is_too_large_alone_is_named.__code__.co_firstlineno + 3
        assert float(small * 2.0) == 6.0
        with pytest.raises(bh.MessageTooLarge, match=r"Node 1, float64\[2000\]") as error:
            bh.sum(large).numpy()
        assert error.value.details["source"] == f"{__file__}:{line}"


@pytest.fixture
def narrow() -> Iterator[str]:
    """A server that takes messages of 100 kB."""
    running = Server(Dispatcher(Engine(), max_message_bytes=100_000), ["127.0.0.1:0"])
    running.start()
    yield running.targets[0]
    running.stop(None)


def test_the_first_block_of_a_fresh_connection_may_be_above_the_limit(narrow: str) -> None:
    with bh.connect(narrow, timeout=60) as connection, bh.Tape(connection) as tape:
        leaves: list[bh.TrackedTensor] = [tape.leaf(np.ones(5000)) for _ in range(8)]
        total = bh.sum(bh.stack([bh.sum(each) for each in leaves]))
        assert float(total) == 40_000.0
        large: Array = np.ones(20_000)
        assert float(bh.sum(leaves[0] * bh.sum(tape.leaf(large)))) == 1e8
        assert connection.calls["ExecuteStream"] == 2
