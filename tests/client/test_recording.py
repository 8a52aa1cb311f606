"""What calls of ops record: shapes and dtypes at once, operands of every kind, errors at the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.client.flaky import flaky

import backhaul as bh
from backhaul_proto.catalog.ops import CATALOG
from backhaul_proto.messages import Call


@pytest.fixture
def tape() -> bh.Tape:
    return bh.Tape()


def calls(tape: bh.Tape) -> list[Call]:
    """The calls of the steps recorded so far."""
    columns = tape._recorder.columns
    return [columns.calls[i] for i in columns.steps]


def test_nodes_are_counted_in_the_order_they_were_made(tape: bh.Tape) -> None:
    a = tape.leaf(1.0)
    constant = tape.constant(2.0)
    b = tape.leaf(3.0)
    first, second = bh.unstack(bh.stack([a, b]))
    total = first + second
    assert [a.node_id, constant.node_id, b.node_id] == [1, None, 3]
    assert [first.node_id, second.node_id, total.node_id] == [5, 6, 7]
    assert [call.op for call in calls(tape)] == [
        "leaf",
        "constant",
        "leaf",
        "stack",
        "unstack",
        "add",
    ]
    assert tape._recorder.columns.operands == [1, 3, 4, 5, 6]


def test_nothing_is_sent_while_recording() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(np.ones((2, 3)))
        y = bh.einsum("ij,ij->i", x * 2.0, np.ones((2, 3)))
        assert (y.shape, y.dtype, y.ndim, y.size, y.nbytes) == ((2,), np.dtype("f8"), 1, 2, 16)
        assert transport.calls.total() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(
    ("number", "complex_result"), [(2, False), (2.5, False), (True, False), (2j, True)]
)
def test_python_numbers_are_weak(
    tape: bh.Tape, dtype: str, number: complex, complex_result: bool
) -> None:
    x = tape.leaf(np.ones(2, dtype))
    expected = np.result_type(x.dtype, np.complex64) if complex_result else x.dtype
    for result in (x * number, number * x, x + number, number - x, bh.einsum("i,", x, number)):
        assert result.dtype == expected


def test_numpy_scalars_arrays_and_lists_are_not_weak(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(2, "f4"))
    other: Any
    for other in (np.float64(2), np.ones(2), [1.0, 2.0], [1, 2], np.array(2.0)):
        assert (x * other).dtype == np.dtype("f8")
        assert (other * x).dtype == np.dtype("f8")
    for other in (np.float32(2), np.int64(2), np.ones(2, "i8"), np.bool_(True)):
        assert (x * other).dtype == np.dtype("f4")


def test_a_number_alone_in_a_list_of_operands_takes_the_others_dtype(tape: bh.Tape) -> None:
    x = tape.leaf(np.float32(1.0))
    assert bh.stack([x, 2.0, 3]).dtype == np.dtype("f4")
    np.testing.assert_array_equal(bh.stack([x, 2.0, 3]).numpy(), np.array([1, 2, 3], "f4"))


def test_operands_are_frozen_at_the_call(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(3))
    other = np.array([1.0, 2.0, 3.0])
    y = x * other
    other[:] = 0
    np.testing.assert_array_equal(y.numpy(), [1.0, 2.0, 3.0])


def test_a_number_too_large_for_its_dtype_is_refused(tape: bh.Tape) -> None:
    with pytest.raises(bh.InvalidArgument) as error:
        tape.leaf(1.0) * 10**400
    assert error.value.reason == "INVALID_VALUE"


def test_a_list_of_tensors_does_not_quietly_become_an_array(tape: bh.Tape) -> None:
    x = tape.leaf(1.0)
    with pytest.raises(bh.InvalidArgument, match="stack") as error:
        bh.add(x, [[x], [2.0]])
    assert error.value.details["operand"] == "1"


def test_all_forms_of_einsum_are_the_same_op(tape: bh.Tape) -> None:
    a, b = tape.leaf(np.ones((2, 3))), tape.leaf(np.ones((3, 4)))
    results = [
        bh.einsum("ij,jk->ik", a, b),
        bh.einsum(" ij, jk -> ik ", a, b),
        bh.tracked_einsum("ij,jk->ik", [a, b]),
        bh.apply("einsum", a, b, subscripts="ij,jk->ik"),
        bh.einsum("ij,jk", a, b),
        bh.einsum(a, [0, 1], b, [1, 2], [0, 2]),
        bh.einsum(a, [0, 1], b, [1, 2]),
        bh.einsum("ij,jk->ik", a, b, path=[(0, 1)]),
    ]
    assert {each.shape for each in results} == {(2, 4)}
    recorded = calls(tape)[2:]
    assert len({*recorded[:4]}) == 1
    assert {call.op for call in recorded} == {"einsum"}
    for each in results:
        np.testing.assert_array_equal(each.numpy(), np.full((2, 4), 3.0))


def test_einsum_with_arrays_numbers_and_sizes(tape: bh.Tape) -> None:
    a = tape.leaf(np.ones((2, 3)))
    assert bh.einsum("ij,jk->ik", a, np.ones((3, 4))).shape == (2, 4)
    assert bh.einsum(",ij->j", 2.0, a).shape == (3,)
    assert bh.einsum("ij->ijk", a, sizes={"k": 4}).shape == (2, 3, 4)


def test_an_op_by_name_is_the_op(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 3)))
    assert bh.apply("sum", x, axis=1, keepdims=True).shape == (2, 1)
    assert [each.shape for each in bh.apply("unstack", x, axis=1)] == [(2,)] * 3
    assert bh.apply("stack", x, x, axis=2).shape == (2, 3, 2)


def test_attributes_may_be_lists_and_numpy_integers(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 3, 4)))
    assert bh.sum(x, axis=[0, -1]).shape == (3,)
    numpys: list[Any] = [np.int64(1), np.array([6, 4])]
    assert bh.sum(x, axis=numpys[0]).shape == (2, 4)
    assert bh.reshape(x, numpys[1]).shape == (6, 4)
    assert bh.astype(x, np.complex64).dtype == np.dtype("c8")


def test_a_bool_is_no_axis_even_after_the_equal_number(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 3)))
    assert bh.sum(x, axis=1).shape == (2,)
    with pytest.raises(bh.InvalidArgument) as error:
        bh.sum(x, axis=True)
    assert error.value.reason == "INVALID_ATTRIBUTE"


def test_an_axis_without_elements_has_no_parts(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((0, 3)))
    with pytest.raises(bh.InvalidArgument, match="size 0"):
        bh.unstack(x)
    assert list(x) == []
    assert bh.sum(x).numpy() == 0.0


def requires(x: bh.TrackedTensor) -> tuple[bool, bool]:
    return x.requires_grad, x.has_tangent


def test_what_requires_a_gradient_and_reaches_a_tangent(tape: bh.Tape) -> None:
    plain, constant = tape.leaf(1.0), tape.constant(1.0)
    moved = tape.leaf_with_tangent(1.0, 2.0)
    assert requires(plain) == (True, False)
    assert requires(moved) == (True, True)
    assert requires(constant) == (False, False)
    assert requires(plain * constant) == (True, False)
    assert requires(plain * moved) == (True, True)
    assert requires(constant * constant) == (False, False)
    assert requires(bh.stop_gradient(moved)) == (False, False)
    assert requires(moved.detach() * plain) == (True, False)
    counts = tape.constant(np.array([1, 2]))
    assert requires(bh.sum(counts)) == (False, False)
    assert requires(counts * moved) == (True, True)


SEVEN: Any = 7
INVALID: list[tuple[str, Callable[[bh.TrackedTensor], Any]]] = [
    ("SHAPE_MISMATCH", lambda x: x + np.ones(5)),
    ("SHAPE_MISMATCH", lambda x: bh.reshape(x, (7,))),
    ("SHAPE_MISMATCH", lambda x: x @ np.ones((5, 2))),
    ("INVALID_ATTRIBUTE", lambda x: bh.sum(x, axis=2)),
    ("INVALID_ATTRIBUTE", lambda x: bh.apply("sum", x, axis="a")),
    ("INVALID_ATTRIBUTE", lambda x: bh.apply("sum", x, colour=1)),
    ("OPERAND_COUNT", lambda x: bh.apply("add", x)),
    ("EINSUM_SYNTAX", lambda x: bh.einsum("i!j->i", x)),
    ("EINSUM_SYNTAX", lambda x: bh.tracked_einsum(SEVEN, [x])),
    ("EINSUM_SYNTAX", lambda x: bh.einsum(x, x)),
    ("EINSUM_SYNTAX", lambda x: bh.einsum(x, [0, 1], x)),
    ("EINSUM_OPERAND_COUNT", lambda x: bh.einsum("ij,jk->ik", x)),
    ("EINSUM_OPERAND_COUNT", lambda x: bh.tracked_einsum("ij->i", [])),
    ("EINSUM_OPERAND_COUNT", lambda x: bh.einsum()),
    ("EINSUM_RANK", lambda x: bh.einsum("ijk->i", x)),
    ("EINSUM_DIMENSION", lambda x: bh.einsum("ij,ij->i", x, np.ones((2, 5)))),
    ("EINSUM_OUTPUT", lambda x: bh.einsum("ij->ik", x)),
    ("DTYPE_NOT_SUPPORTED", lambda x: x * np.array(["a"])),
    ("DTYPE_NOT_SUPPORTED", lambda x: x * np.array([None])),
    ("DTYPE_NOT_SUPPORTED", lambda x: x * np.ones(3, "f2")),
    ("INVALID_VALUE", lambda x: x * [[1.0], [1.0, 2.0]]),
    ("INVALID_VALUE", lambda x: bh.sum(np.ones(3))),
    ("INVALID_VALUE", lambda x: bh.einsum("i->", np.ones(3))),
    ("OPERAND_COUNT", lambda x: bh.stack([])),
    ("EINSUM_RANK", lambda x: bh.einsum("ij->", np.ones(3))),
    ("UNKNOWN_OP", lambda x: bh.apply("multipy", x, x)),
    ("UNKNOWN_OP", lambda x: bh.apply("unbroadcast", x, shape=())),
    ("UNKNOWN_OP", lambda x: bh.apply("multipy", 1.0)),
]


@pytest.mark.parametrize(("reason", "call"), INVALID)
def test_what_cannot_be_right_is_refused_at_the_callers_line(
    tape: bh.Tape, reason: str, call: Callable[[bh.TrackedTensor], Any]
) -> None:
    x = tape.leaf(np.ones((2, 3)))
    before = tape._recorder.next_id
    with pytest.raises(bh.InvalidArgument) as error:
        call(x)
    assert error.value.reason == reason
    assert all(call.op in ("leaf", "constant") for call in calls(tape))
    del error
    y = x + 1.0
    assert y.node_id is not None
    assert y.node_id > before - 1
    np.testing.assert_array_equal(y.numpy(), np.full((2, 3), 2.0))


def test_an_unknown_op_names_the_nearest(tape: bh.Tape) -> None:
    with pytest.raises(bh.InvalidArgument, match="did you mean multiply"):
        bh.apply("multipy", tape.leaf(1.0))


def test_an_op_that_only_the_server_knows_is_inferred_there_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {name: op for name, op in CATALOG.items() if name not in ("sum", "unstack")}
    monkeypatch.setattr("backhaul.functions.CATALOG", known)
    with flaky() as (tape, transport):
        x = tape.leaf(np.arange(6.0).reshape(2, 3))
        for _ in range(2):
            total = bh.apply("sum", x, axis=[0], keepdims=np.True_)
            assert (total.shape, total.requires_grad) == ((1, 3), True)
        assert transport.calls == {"Infer": 1}
        np.testing.assert_array_equal(total.numpy(), [[3.0, 5.0, 7.0]])
        assert [each.shape for each in bh.apply("unstack", x)] == [(3,), (3,)]
        with pytest.raises(bh.InvalidArgument) as error:
            bh.apply("sum", x, axis=object())
        assert error.value.reason == "INVALID_ATTRIBUTE"


def test_tensors_of_two_tapes_do_not_mix(tape: bh.Tape) -> None:
    other = bh.Tape()
    x, y = tape.leaf(1.0), other.leaf(2.0)
    with pytest.raises(bh.MissingNode) as error:
        x * y
    assert str(tape) in str(error.value)
    assert str(other) in str(error.value)
    assert error.value.details == {"op": "multiply", "operand": "1"}


def test_a_released_tensor_is_no_operand(tape: bh.Tape) -> None:
    x, y = tape.leaf(1.0), tape.leaf(2.0)
    tape.release(y)
    with pytest.raises(bh.MissingNode, match="released"):
        x * y
    with pytest.raises(bh.MissingNode, match="released"):
        y * x


def test_steps_of_many_threads_are_all_recorded(tape: bh.Tape) -> None:
    x = tape.leaf(1.0)
    results: list[list[bh.TrackedTensor]] = [[] for _ in range(8)]

    def work(mine: list[bh.TrackedTensor]) -> None:
        for _ in range(200):
            mine.append(x * 2.0 + 1.0)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in results]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    ids = [each.node_id for mine in results for each in mine]
    assert len(set(ids)) == 1600
    total = bh.sum(bh.stack([each for mine in results for each in mine]))
    assert float(total) == 4800.0


def test_an_error_on_the_server_names_the_users_line(tape: bh.Tape) -> None:
    a = tape.leaf(-np.eye(2))
    factor = bh.linalg.cholesky(a)
    line = int(test_an_error_on_the_server_names_the_users_line.__code__.co_firstlineno) + 2
    for _ in range(2):
        with pytest.raises(bh.LinearAlgebraError) as error:
            (factor @ factor).numpy()
        assert error.value.details["source"] == f"{__file__}:{line}"
        assert f"(recorded at {__file__}:{line})" in str(error.value)


def test_the_line_is_the_users_through_operators_and_numpy_too() -> None:
    with flaky() as (tape, _):
        x = tape.leaf(np.ones((2, 2)))
        first = np.linalg.cholesky(x)
        second = np.einsum("ij,jk->ik", x, x)
        third = 2.0 * x
        fourth = bh.unstack(x)[1]
        start = test_the_line_is_the_users_through_operators_and_numpy_too.__code__.co_firstlineno
        sources = tape._recorder.sources
        for offset, tensor in enumerate((x, first, second), start=2):
            assert sources.find(tensor._id) == f"{__file__}:{start + offset}"
        assert sources.find(third._id) == f"{__file__}:{start + 5}"
        assert sources.find(fourth._id) == f"{__file__}:{start + 6}"
        assert sources.find(10_000) is None
