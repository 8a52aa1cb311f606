"""J·v of an output, forward only: with one body for the embedded and the gRPC transport."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backhaul as bh

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
A, B, DA, DB = (RNG.standard_normal((3, 3)) for _ in range(4))


def output(a: Any, b: Any) -> Any:
    return bh.einsum("ij,jk,kl->il", a, b, a) * b


def test_it_is_the_derivative_along_the_direction(connection: bh.Connection, tape: bh.Tape) -> None:
    a, b = tape.leaf(A), tape.leaf(B)
    y = output(a, b)
    before = connection.calls.total()
    result = tape.pushforward(y, tangents={a: DA, b: DB})
    assert connection.calls.total() == before + 1
    expected = (DA @ B @ A + A @ DB @ A + A @ B @ DA) * B + (A @ B @ A) * DB
    np.testing.assert_allclose(result.tangent, expected, rtol=1e-12)
    np.testing.assert_allclose(result.value, (A @ B @ A) * B, rtol=1e-12)
    np.testing.assert_array_equal(y.numpy(), result.value)
    assert connection.calls.total() == before + 1  # the value came with the answer


def test_it_is_the_adjoint_of_the_pullback(tape: bh.Tape) -> None:
    a, b = tape.leaf(A + 1j * B), tape.leaf(B)
    y = output(a, b)
    ct = RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3))
    tangent = tape.pushforward(y, tangents={a: DA + 1j * DB, b: DB}).tangent
    gradients = tape.pullback(y, cotangent=ct)
    left = np.vdot(ct, tangent).real
    right = np.vdot(gradients[a], DA + 1j * DB).real + np.vdot(gradients[b], DB).real
    assert left == pytest.approx(right, rel=1e-12)


def test_several_directions_in_one_trip(connection: bh.Connection, tape: bh.Tape) -> None:
    a, b = tape.leaf(A), tape.leaf(B)
    y = output(a, b)
    assert b.node_id is not None
    (by_id,) = tape.pushforward(y, tangents=[{b.node_id: DB}])
    before = connection.calls.total()
    along_a, along_b, both = tape.pushforward(
        y, tangents=[{a: DA}, {b: DB}, {a: DA, b: tape.constant(DB)}]
    )
    assert connection.calls.total() == before + 1
    np.testing.assert_allclose(along_a.tangent + along_b.tangent, both.tangent, rtol=1e-12)
    np.testing.assert_array_equal(by_id.tangent, along_b.tangent)


def test_without_directions_the_leaves_own_tangents_are_taken(tape: bh.Tape) -> None:
    x = tape.leaf_with_tangent([1.0, 2.0], [3.0, 4.0])
    y = tape.leaf([5.0, 6.0])
    np.testing.assert_array_equal(tape.pushforward(x * y).tangent, [15.0, 24.0])
    np.testing.assert_array_equal(tape.pushforward(y * y).tangent, [0.0, 0.0])
    np.testing.assert_array_equal(tape.pushforward(x).tangent, [3.0, 4.0])


def test_the_output_may_have_any_shape_and_dtype(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 0), "c8"))
    result = tape.pushforward(x * 2.0, tangents={x: np.ones((2, 0), "c8")})
    assert (result.tangent.shape, result.tangent.dtype) == ((2, 0), np.dtype("c8"))


def test_what_is_refused(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    with pytest.raises(bh.MissingNode):
        tape.pushforward(tape.constant(1.0), tangents={x: [1.0, 1.0]})
    with pytest.raises(bh.MissingNode):
        tape.pushforward(bh.Tape().leaf(1.0), tangents={x: [1.0, 1.0]})
    with pytest.raises(bh.TangentShapeMismatch):
        tape.pushforward(x * x, tangents={x: [1.0]})
    with pytest.raises(bh.InvalidArgument) as error:
        tape.pushforward(x * x)
    assert error.value.reason == "HVP_WITHOUT_TANGENT"
    with pytest.raises(bh.InvalidArgument) as error:
        tape.pushforward(x * x, tangents={x: np.ones(2, "f4")})
    assert error.value.reason == "TANGENT_DTYPE_MISMATCH"
    assert tape.pushforward(x * x, tangents={x: [1.0, 0.0]}).tangent.tolist() == [2.0, 0.0]


def test_an_output_that_failed_raises_its_error(tape: bh.Tape) -> None:
    x = tape.leaf(-np.eye(2))
    with pytest.raises(bh.LinearAlgebraError):
        tape.pushforward(bh.linalg.cholesky(x), tangents={x: np.eye(2)})
