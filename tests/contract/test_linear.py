"""Gauss-Newton products by the tape, `hvp(linear=...)`: one body for both transports, and the bare stub."""

from __future__ import annotations

from typing import Any

import grpc
import numpy as np
import pytest
from tests.chaos.restarted import restarted

import backhaul as bh
from backhaul_proto import tensors
from backhaul_proto.v1 import service_pb2
from backhaul_proto.v1.service_pb2_grpc import BackhaulServiceStub
from backhaul_server.service.server import Server

RNG = np.random.default_rng(11)
A, W, V, U = RNG.normal(size=(5, 3)), RNG.normal(size=3), RNG.normal(size=3), RNG.normal(size=3)


def recorded(tape: bh.Tape) -> tuple[bh.TrackedTensor, bh.TrackedTensor, bh.TrackedTensor]:
    """Weights, outputs and a loss."""
    w = tape.leaf(W)
    y = bh.sin(bh.matmul(A, w))
    return w, y, bh.sum(np.exp(y))


def expected(v: Any) -> Any:
    J = np.cos(A @ W)[:, None] * A
    return J.T @ (np.exp(np.sin(A @ W)) * (J @ v))


def test_one_trip_for_value_gradient_and_products(connection: bh.Connection, tape: bh.Tape) -> None:
    w, y, loss = recorded(tape)
    before = connection.calls.total()
    first, second = tape.hvp(loss, tangents=[{w: V}, {w: U}], linear=[y])
    assert connection.calls.total() == before + 1
    np.testing.assert_allclose(first.hvp[w], expected(V), rtol=1e-12)
    np.testing.assert_allclose(second.hvp[w], expected(U), rtol=1e-12)
    np.testing.assert_array_equal(first.gradients[w], tape.pullback(loss)[w])
    assert y.node_id is not None
    by_id = tape.hvp(loss, tangents={w: V}, linear=[y.node_id])
    np.testing.assert_array_equal(by_id.hvp[w], first.hvp[w])


def test_products_may_stay_on_the_server(tape: bh.Tape) -> None:
    w, y, loss = recorded(tape)
    found = tape.hvp(loss, tangents={w: V}, linear=[y], wrt=[w], fetch=False)
    np.testing.assert_allclose(bh.vdot(found.hvp[w], V).numpy(), V @ expected(V), rtol=1e-12)


def test_what_cannot_be_linear_is_refused(tape: bh.Tape) -> None:
    w, _, loss = recorded(tape)
    with pytest.raises(bh.MissingNode, match=r"linear\[0\], .* requires no gradient"):
        tape.hvp(loss, tangents={w: V}, linear=[tape.constant(W)])
    with pytest.raises(bh.MissingNode, match=r"linear\[0\] is on"):
        tape.hvp(loss, tangents={w: V}, linear=[bh.Tape(tape._core.connection).leaf(W)])


def test_a_failed_node_has_its_error(tape: bh.Tape) -> None:
    w, _, loss = recorded(tape)
    inverse = bh.linalg.inv(bh.diag(w * 0.0))
    with pytest.raises(bh.LinearAlgebraError):
        tape.hvp(loss, tangents={w: V}, linear=[inverse])


def test_the_bare_stub_has_it(server: Server) -> None:
    with (
        grpc.insecure_channel(server.targets[0].removeprefix("grpc://")) as channel,
        bh.connect(server.targets[0]) as own,
    ):
        stub = BackhaulServiceStub(channel)
        tape = bh.Tape(own)
        w, y, loss = recorded(tape)
        tape.flush()
        session = service_pb2.SessionRef(id=tape._core.session.id)
        request = service_pb2.HvpRequest(session=session, loss=loss._id, linear=[y._id])
        tangent = request.directions.add().tangents.add(leaf=w._id)
        tensors.fill(tangent.tangent.tensor, V)
        answer = stub.Hvp(request)
        np.testing.assert_allclose(
            tensors.read(answer.sets[0].hvps[0].tensor), expected(V), rtol=1e-12
        )
        request.linear.append(10**6)
        with pytest.raises(grpc.RpcError) as error:
            stub.Hvp(request)
        assert error.value.code() == grpc.StatusCode.NOT_FOUND


def test_a_tape_that_was_made_again_keeps_its_products() -> None:
    with restarted() as server, bh.connect(server.target, timeout=60, recover=True) as connection:
        tape = bh.Tape(connection)
        w, y, loss = recorded(tape)
        kept = tape.hvp(loss, tangents={w: V}, linear=[y], wrt=[w], fetch=False).hvp[w]
        del y, loss
        server.restart()
        np.testing.assert_allclose((kept * 2.0).numpy(), 2 * expected(V), rtol=1e-12)
