"""What all adapters stand on: one trip a question, sessions used again, replaced when they are lost."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.adapters.counting import counted

import backhaul as bh
from backhaul.adapters.evaluation import Evaluations

Array = np.ndarray[Any, Any]


def _sessions(connection: bh.Connection) -> int:
    return len(connection.sessions())


def _squares(x: Any) -> Any:
    return bh.sum(x * x)


def test_each_question_is_one_round_trip(connection: bh.Connection) -> None:
    evaluations = Evaluations(lambda x: bh.sum(x**3), connection)
    x, v = np.array([1.0, 2.0]), np.array([1.0, -1.0])
    evaluations.at([x]).value()
    with counted(connection) as trips:
        assert evaluations.at([x]).value() == 9.0
    assert trips.count == 1
    point = evaluations.at([x])
    with counted(connection) as trips:
        value, gradients = point.value_and_gradients()
    assert trips.count == 1
    assert value == 9.0
    assert_allclose(gradients[0], 3 * x**2)
    with counted(connection) as trips:
        _, _, (first, second) = point.hvp([[v], [2 * v]])
    assert trips.count == 1
    assert_allclose(first[0], 6 * x * v)
    assert_allclose(second[0], 12 * x * v)


def test_one_session_serves_evaluation_after_evaluation() -> None:
    with bh.connect("embedded") as connection:
        evaluations = Evaluations(_squares, connection)
        for i in range(20):
            assert evaluations.at([np.full(3, float(i))]).value() == 3.0 * i * i
        (session,) = connection.sessions()
        # x, its square and the sum, of the last evaluations at most.
        assert session.info.nodes <= 6


def test_threads_evaluate_at_once(connection: bh.Connection) -> None:
    evaluations = Evaluations(_squares, connection)
    found: dict[int, tuple[Array, list[Array]]] = {}
    together = threading.Barrier(6)

    def work(i: int) -> None:
        together.wait(120)
        for _ in range(5):
            found[i] = evaluations.at([np.full(4, float(i))]).value_and_gradients()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for i in range(6):
        value, (gradient,) = found[i]
        assert value == 4.0 * i * i
        assert_allclose(gradient, np.full(4, 2.0 * i))


def test_a_session_that_was_ended_is_replaced(connection: bh.Connection) -> None:
    evaluations = Evaluations(_squares, connection)
    point = evaluations.at([np.array([3.0])])
    assert point.value() == 9.0
    tape, used_before = evaluations.tapes.take()
    assert used_before
    session = tape._core.session
    connection.close_session(session.id, session.epoch)
    evaluations.tapes.give_back(tape)
    assert evaluations.at([np.array([2.0])]).value() == 4.0
    assert_allclose(point.value_and_gradients()[1][0], [6.0])  # recorded again, on another tape


def test_second_order_of_many_outputs(connection: bh.Connection) -> None:
    rng = np.random.default_rng(5)
    x, u, ct, dct = rng.standard_normal((4, 3))
    evaluations = Evaluations(lambda x: x**3, connection)
    ((tangents, dy),) = evaluations.at([x]).pullback_with_tangents(ct, [([u], dct)])
    assert_allclose(dy, 3 * x**2 * u)
    assert_allclose(tangents[0], 6 * x * ct * u + 3 * x**2 * dct)


def test_complex_second_order_is_the_derivative_of_the_pullback(connection: bh.Connection) -> None:
    rng = np.random.default_rng(6)
    x, u, ct, dct = rng.standard_normal((4, 3)) + 1j * rng.standard_normal((4, 3))
    evaluations = Evaluations(lambda x: bh.exp(x) * bh.conj(x), connection)
    ((tangents, dy),) = evaluations.at([x]).pullback_with_tangents(ct, [([u], dct)])
    h = 1e-6

    def moved(t: float) -> tuple[Array, Array]:
        value, ((gradient,),) = evaluations.at([x + t * u]).pullback([ct + t * dct])
        return value, gradient

    (y1, g1), (y0, g0) = moved(h), moved(-h)
    assert_allclose(tangents[0], (g1 - g0) / (2 * h), rtol=1e-6)
    assert_allclose(dy, (y1 - y0) / (2 * h), rtol=1e-6)


def test_many_points_are_one_round_trip(connection: bh.Connection) -> None:
    evaluations = Evaluations(lambda x, y: bh.sum(x * x) * y, connection)
    rng = np.random.default_rng(7)
    xs, ys = rng.standard_normal((5, 3)), rng.standard_normal(5)
    many = evaluations.batched(5)
    with counted(connection) as trips:
        values, ((of_x, of_y),) = many.at([xs, ys]).pullback([np.ones(5)])
    assert trips.count == 1
    squares = (xs * xs).sum(1)
    assert_allclose(values, squares * ys)
    assert_allclose(of_x, 2 * xs * ys[:, None])
    assert_allclose(of_y, squares)


def test_what_depends_on_no_argument_has_zero_derivatives(connection: bh.Connection) -> None:
    point = Evaluations(lambda x: 2.5, connection).at([np.ones(2)])
    value, gradients = point.value_and_gradients()
    assert value == 2.5
    assert_allclose(gradients[0], [0.0, 0.0])
    assert_allclose(point.hvp([[np.ones(2)]])[2][0][0], [0.0, 0.0])
    assert point.pushforward([[np.ones(2)]])[1][0] == 0.0


def test_arguments_without_derivatives_may_be_integers(connection: bh.Connection) -> None:
    point = Evaluations(lambda x, i: x[i], connection).at([np.arange(4.0), np.int64(2)])
    value, ((gradient,),) = point.pullback([np.array(1.0)])
    assert value == 2.0
    assert_allclose(gradient, [0.0, 0.0, 1.0, 0.0])


def test_errors_of_the_function_come_as_they_are(connection: bh.Connection) -> None:
    def misshapen(x: Any) -> Any:
        return bh.sum(x @ x)

    with pytest.raises(bh.InvalidArgument) as found:
        Evaluations(misshapen, connection).at([np.ones((2, 3))]).value()
    assert found.value.reason == "SHAPE_MISMATCH"
    singular = Evaluations(lambda x: bh.sum(bh.linalg.inv(x)), connection)
    with pytest.raises(bh.LinearAlgebraError, match="test_evaluation"):
        singular.at([np.zeros((2, 2))]).value_and_gradients()
    assert singular.at([np.eye(2)]).value() == 2.0  # the session goes on


def test_what_is_no_tensor_is_refused(connection: bh.Connection) -> None:
    with pytest.raises(bh.InvalidArgument, match="is to return one tensor") as found:
        Evaluations(lambda x: (x, x), connection).at([np.ones(2)]).value()
    assert found.value.reason == "INVALID_VALUE"
    with pytest.raises(bh.InvalidArgument, match="takes a function"):
        Evaluations(3)  # type: ignore[arg-type]
    with pytest.raises(bh.InvalidArgument, match="connection="):
        Evaluations(_squares, "localhost:1")  # type: ignore[arg-type]
