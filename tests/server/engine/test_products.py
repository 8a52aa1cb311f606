"""Products of arrays: values against NumPy's over dtypes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.evaluation import ENGINE, assert_refused, value
from tests.samples import normal

from backhaul_proto.catalog.avals import INEXACT
from backhaul_server.engine.tape import Tape

CASES = [
    ("dot", np.dot, ((2, 3, 4), (5, 4, 2)), {}),
    ("dot", np.dot, ((4,), (5, 4, 2)), {}),
    ("dot", np.dot, ((2, 1), (1, 3)), {}),
    ("dot", np.dot, ((2, 0), (0, 3)), {}),
    ("inner", np.inner, ((2, 3, 4), (5, 4)), {}),
    ("inner", np.inner, ((), (5, 4)), {}),
    ("vdot", np.vdot, ((2, 3), (3, 2)), {}),
    ("vecdot", np.vecdot, ((2, 1, 3), (4, 3)), {}),
    ("vecdot", np.vecdot, ((2, 3, 4), (2, 3, 4)), {"axis": 1}),
    ("vecdot", np.vecdot, ((2, 4, 3), (4, 1)), {"axis": -2}),
    ("outer", np.outer, ((2, 3), (2, 2)), {}),
    ("linalg.outer", np.outer, ((2,), (3,)), {}),
    ("kron", np.kron, ((2, 3), (4, 1, 2)), {}),
    ("kron", np.kron, ((2, 3, 2), (2, 2)), {}),
    ("kron", np.kron, ((), (2,)), {}),
    ("tensordot", np.tensordot, ((2, 3, 4), (3, 4, 5)), {}),
    ("tensordot", np.tensordot, ((2, 3), (4,)), {"axes": 0}),
    ("tensordot", np.tensordot, ((2, 3, 4), (4, 5, 2)), {"axes": ((2, 0), (0, -1))}),
    ("tensordot", np.tensordot, ((2, 3), (4, 3)), {"axes": (1, 1)}),
    ("tensordot", np.tensordot, ((2, 3), (4, 3)), {"axes": ((), ())}),
    ("cross", np.cross, ((2, 1, 3), (4, 3)), {}),
    ("cross", np.cross, ((3, 2), (3, 2)), {"axis": 0}),
]


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
@pytest.mark.parametrize(("op", "reference", "shapes", "attributes"), CASES)
def test_values_are_numpys(
    op: str, reference: Any, shapes: Any, attributes: Any, dtype: np.dtype[Any]
) -> None:
    rng = np.random.default_rng(7)
    operands = [normal(rng, shape, dtype) for shape in shapes]
    expected = reference(*operands, **attributes)
    got = value(op, *operands, **attributes)
    assert (got.shape, got.dtype) == (np.shape(expected), dtype)
    np.testing.assert_allclose(got, expected, rtol=20 * np.finfo(dtype).eps, atol=1e-15)


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
def test_vectors_meet_stacks_of_matrices(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(8)
    stack, vectors = normal(rng, (4, 1, 2, 3), dtype), normal(rng, (5, 3), dtype)
    rows = normal(rng, (5, 2), dtype)
    close = {"rtol": 0, "atol": 50 * np.finfo(dtype).eps}
    expected = np.einsum("abij,bj->abi", np.broadcast_to(stack, (4, 5, 2, 3)), vectors)
    np.testing.assert_allclose(value("matvec", stack, vectors), expected, **close)
    expected = np.einsum("bi,abij->abj", rows.conj(), np.broadcast_to(stack, (4, 5, 2, 3)))
    np.testing.assert_allclose(value("vecmat", rows, stack), expected, **close)


def test_a_chain_of_matrices_is_multiplied_in_the_cheap_order() -> None:
    rng = np.random.default_rng(9)
    chain = [normal(rng, shape, "float64") for shape in ((500,), (500, 500), (500, 500), (500, 2))]
    expected = chain[0] @ chain[1] @ chain[2] @ chain[3]
    np.testing.assert_allclose(value("linalg.multi_dot", *chain), expected, rtol=1e-11)
    call = ENGINE.prepare("linalg.multi_dot", {}, tuple(Tape(ENGINE).leaf(x).aval for x in chain))
    _, on_the_way = call.forward(*chain)
    assert [step.size <= 1000 for step in on_the_way] == [True, True]  # no 500 by 500 matrix


REFUSED = [
    ("dot", ((2, 3), (2, 3)), {}, "SHAPE_MISMATCH", "sizes 3 and 2"),
    ("inner", ((2, 3), (2, 4)), {}, "SHAPE_MISMATCH", "sizes 3 and 4"),
    ("dot", ((2, 1), (3,)), {}, "SHAPE_MISMATCH", "sizes 1 and 3"),
    ("vdot", ((2, 3), (5,)), {}, "SHAPE_MISMATCH", "6 and 5 elements"),
    ("vecdot", ((2, 3), (2, 1)), {}, "SHAPE_MISMATCH", "sizes 3 and 1"),
    ("vecdot", ((2, 3), (3,)), {"axis": 0}, "INVALID_ATTRIBUTE", "count it from the end"),
    ("vecdot", ((2, 3), (2, 3)), {"axis": 2}, "INVALID_ATTRIBUTE", "out of range"),
    ("matvec", ((3,), (3,)), {}, "SHAPE_MISMATCH", "x1"),
    ("vecmat", ((2,), (3, 2)), {}, "SHAPE_MISMATCH", "sizes 2 and 3"),
    ("linalg.outer", ((2, 2), (3,)), {}, "SHAPE_MISMATCH", "x1 must be a vector"),
    ("tensordot", ((2, 3), (3, 4)), {"axes": 3}, "INVALID_ATTRIBUTE", "axes=3"),
    ("tensordot", ((2, 3), (3, 4)), {"axes": -1}, "INVALID_ATTRIBUTE", "axes=-1"),
    ("tensordot", ((2, 3), (3, 4)), {"axes": [[1], [0, 1]]}, "INVALID_ATTRIBUTE", "equal length"),
    ("tensordot", ((2, 2), (2, 2)), {"axes": [[0, -2], [0, 1]]}, "INVALID_ATTRIBUTE", "twice"),
    ("tensordot", ((2, 3), (3, 4)), {"axes": [[1], [1]]}, "SHAPE_MISMATCH", "sizes 3 and 4"),
    ("tensordot", ((2, 3), (3, 4)), {"axes": "12"}, "INVALID_ATTRIBUTE", "axes"),
    ("linalg.multi_dot", ((2, 3),), {}, "OPERAND_COUNT", "two arrays"),
    ("linalg.multi_dot", ((2, 3), (3,), (3, 2)), {}, "SHAPE_MISMATCH", "operand 1"),
    ("linalg.multi_dot", ((2, 3), (2, 3)), {}, "SHAPE_MISMATCH", "sizes 3 and 2"),
    ("cross", ((2, 2), (2, 2)), {}, "SHAPE_MISMATCH", "must be 3"),
]


@pytest.mark.parametrize(("op", "shapes", "attributes", "reason", "words"), REFUSED)
def test_what_cannot_be_multiplied_is_refused(
    op: str, shapes: Any, attributes: Any, reason: str, words: str
) -> None:
    assert_refused(op, shapes, attributes, reason, words)
