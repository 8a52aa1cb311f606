"""What every host does, be the sessions in this process or elsewhere: one body of tests for all."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import numpy as np
import pytest

from backhaul_proto import codec, tensors
from backhaul_proto.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidArgument,
    LinearAlgebraError,
    MissingNode,
    SessionClosed,
    SessionLost,
)
from backhaul_proto.messages import Array, Block, BlockCall, Execute
from backhaul_proto.messages import Call as Step
from backhaul_proto.v1 import service_pb2
from backhaul_server.service.host import Host
from backhaul_server.workers.call import Call

_LARGE = np.random.default_rng(0).normal(size=(300, 300))
"""More than travels in line."""


def asked(host: Host, method: str, message: Any, *arrays: Array, call: Call | None = None) -> Any:
    """A call's answer."""
    header, results = host.answer(method, message, arrays, "alice", call or Call(60.0))
    reply = getattr(service_pb2, f"{method}Response").FromString(header)
    return codec.read_answer(reply, results) if method == "Execute" else reply


def opened(host: Host) -> service_pb2.SessionRef:
    """A new session."""
    session = service_pb2.SessionRef(id=secrets.token_bytes(16))
    session.epoch = asked(
        host, "OpenSession", service_pb2.OpenSessionRequest(session=session)
    ).epoch
    return session


def request(
    session: service_pb2.SessionRef, seq: int, steps: int, *arrays: Array, op: str = "add"
) -> tuple[Any, list[Array]]:
    """An Execute: leaves of these arrays, a chain of steps on the first, its last value asked."""
    leaves = len(arrays)
    wires = [each for i in range(steps) for each in (leaves + i - 1 if i else 0, 0)]
    calls = [Step("leaf"), Step(op, (), 2)]
    data = codec.write_block(Block(0, calls, [0] * leaves + [1] * steps, wires))
    call = BlockCall(codec.block_hash(data), data, 1, ())
    made = Execute(session.id, session.epoch, seq, b"d", call, list(arrays), [leaves + steps])
    header, beside = codec.write_execute(made)
    return service_pb2.ExecuteRequest.FromString(header), list(beside)


class HostBody:
    """The tests. A subclass has the fixture ``host``."""

    @pytest.mark.parametrize("array", [np.arange(4.0), _LARGE], ids=["small", "large"])
    def test_a_block_is_computed_and_answered(self, host: Host, array: Array) -> None:
        session = opened(host)
        message, arrays = request(session, 1, 2, array)
        answer = asked(host, "Execute", message, *arrays)
        np.testing.assert_array_equal(answer.values[0], array + array + array)
        assert answer.epoch == session.epoch

    def test_a_block_that_comes_in_pieces_is_the_same(self, host: Host) -> None:
        session = opened(host)
        message, arrays = request(session, 1, 1, _LARGE)
        for each in arrays:
            tensor = message.tensors.add(dtype=tensors.number_of(each.dtype), shape=each.shape)
            tensor.chunked.SetInParent()
        with host.arriving(message, _LARGE.nbytes, "alice", Call(60.0)) as answer:
            header, results = answer(arrays)
        found = codec.read_answer(service_pb2.ExecuteResponse.FromString(header), results)
        np.testing.assert_array_equal(found.values[0], 2 * _LARGE)

    def test_what_would_be_refused_is_before_its_pieces_come(self, host: Host) -> None:
        session = opened(host)
        message, _ = request(session, 1, 1, _LARGE)
        message.block.ClearField("block")
        with (
            pytest.raises(InvalidArgument) as caught,
            host.arriving(message, _LARGE.nbytes, "alice", Call(60.0)),
        ):
            raise AssertionError("it was let in")
        assert caught.value.reason == "BLOCK_UNKNOWN"

    def test_nodes_are_released_and_told_of(self, host: Host) -> None:
        session = opened(host)
        message, arrays = request(session, 1, 1, np.ones(3))
        asked(host, "Execute", message, *arrays)
        get = service_pb2.GetSessionRequest(session=session)
        assert asked(host, "GetSession", get).nodes == 2
        asked(host, "Release", service_pb2.ReleaseRequest(session=session, nodes=[2]))
        assert asked(host, "GetSession", get).nodes == 1
        with pytest.raises(MissingNode):
            asked(host, "GetValue", service_pb2.GetValueRequest(session=session, node=2))

    def test_sessions_are_listed_and_closed(self, host: Host) -> None:
        session = opened(host)
        before = asked(host, "ListSessions", service_pb2.ListSessionsRequest()).sessions
        asked(host, "CloseSession", service_pb2.CloseSessionRequest(session=session))
        after = asked(host, "ListSessions", service_pb2.ListSessionsRequest()).sessions
        assert len(before) == len(after) + 1
        with pytest.raises(SessionClosed):
            asked(host, "GetSession", service_pb2.GetSessionRequest(session=session))

    def test_the_same_request_twice_is_run_once(self, host: Host) -> None:
        session = opened(host)
        for _ in range(2):
            message, arrays = request(session, 1, 1, np.ones(2))
            answer = asked(host, "Execute", message, *arrays)
            np.testing.assert_array_equal(answer.values[0], [2.0, 2.0])
        info = asked(host, "GetSession", service_pb2.GetSessionRequest(session=session))
        assert (info.steps, info.last_seq) == (2, 1)

    def test_another_principals_session_does_not_exist(self, host: Host) -> None:
        session = opened(host)
        message = service_pb2.GetSessionRequest(session=session)
        with pytest.raises(Exception, match="knows no session") as caught:
            host.answer("GetSession", message, [], "bob", Call(60.0))
        assert type(caught.value).__name__ == "SessionNotFound"

    def test_another_epoch_is_a_lost_session(self, host: Host) -> None:
        session = opened(host)
        session.epoch = b"another!"
        with pytest.raises(SessionLost) as caught:
            asked(host, "GetSession", service_pb2.GetSessionRequest(session=session))
        assert caught.value.details["expected"] == b"another!".hex()

    def test_errors_are_typed(self, host: Host) -> None:
        message = service_pb2.InferRequest(op="linalg.cholesky")
        message.operands.add(dtype=tensors.number_of(np.dtype(float)), shape=[2, 3])
        with pytest.raises(InvalidArgument) as caught:
            asked(host, "Infer", message)
        assert caught.value.reason == "SHAPE_MISMATCH"
        session = opened(host)
        leaf = service_pb2.LeafRequest(session=session)
        tensors.fill(leaf.value, -np.eye(2))
        node = asked(host, "Leaf", leaf).node.node
        with pytest.raises(LinearAlgebraError) as failed:
            asked(
                host,
                "Apply",
                service_pb2.ApplyRequest(session=session, op="linalg.cholesky", operands=[node]),
            )
        assert failed.value.reason == "NOT_POSITIVE_DEFINITE"

    def test_work_ends_with_the_callers_time(self, host: Host) -> None:
        session = opened(host)
        message, arrays = request(session, 1, 3000, np.eye(150), op="matmul")
        with pytest.raises(DeadlineExceeded):
            asked(host, "Execute", message, *arrays, call=Call(0.05))
        info = asked(host, "GetSession", service_pb2.GetSessionRequest(session=session))
        assert info.nodes == 0

    def test_work_ends_when_the_caller_is_gone(self, host: Host) -> None:
        session = opened(host)
        message, arrays = request(session, 1, 3000, np.eye(150), op="matmul")
        call = Call(60.0)
        timer = threading.Timer(0.05, call.cancel)
        timer.start()
        with pytest.raises(Cancelled):
            asked(host, "Execute", message, *arrays, call=call)
        timer.join()
        info = asked(host, "GetSession", service_pb2.GetSessionRequest(session=session))
        assert info.nodes == 0
