"""Linear algebra without spectra: values, derivatives where they are delicate, and failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from tests.evaluation import ENGINE, assert_refused, gradient_and_hv, run, value
from tests.samples import normal

from backhaul_proto.catalog.avals import INEXACT
from backhaul_proto.errors import InvalidArgument, LinearAlgebraError
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
NAN = float("nan")


def failure(node: Node) -> LinearAlgebraError:
    assert isinstance(node.error, LinearAlgebraError)
    return node.error


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((2, 2), (2,)),
        ((40, 40), (40, 3)),
        ((5, 3, 3), (3, 2)),
        ((5, 3, 3), (3,)),
        ((3, 20, 20), (2, 1, 20, 2)),
        ((2, 1, 20, 20), (20,)),
        ((0, 20, 20), (20, 2)),
        ((3, 3), (4, 3, 0)),
    ],
)
def test_solve_is_numpys(a_shape: Any, b_shape: Any, dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(1)
    a = (normal(rng, a_shape, dtype) + 9 * np.eye(a_shape[-1])).astype(dtype)
    b = normal(rng, b_shape, dtype)
    got = value("linalg.solve", a, b)
    expected = np.linalg.solve(a, b)
    assert (got.shape, got.dtype) == (expected.shape, dtype)
    np.testing.assert_allclose(got, expected, rtol=0, atol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
@pytest.mark.parametrize("trans", ["N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_solve_triangular_is_scipys_and_reads_its_triangle_only(
    dtype: np.dtype[Any], trans: str, lower: bool, unit_diagonal: bool
) -> None:
    rng = np.random.default_rng(2)
    a = (normal(rng, (4, 4), dtype) + 4 * np.eye(4)).astype(dtype)
    b = normal(rng, (4, 2), dtype)
    how: dict[str, Any] = {"trans": trans, "lower": lower, "unit_diagonal": unit_diagonal}
    expected = scipy.linalg.solve_triangular(a, b, **how)
    spoiled = np.where(np.tri(4, dtype=bool) if lower else ~np.tri(4, k=-1, dtype=bool), a, NAN)
    if unit_diagonal:
        spoiled[np.diag_indices(4)] = NAN
    got = value("linalg.solve_triangular", spoiled, b, **how)
    assert got.dtype == dtype
    scale = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=40 * scale * np.finfo(dtype).eps)


@pytest.mark.parametrize("op", ["linalg.solve", "linalg.solve_triangular", "linalg.lstsq"])
def test_solutions_of_mixed_dtypes_are_as_precise_as_the_wider(op: str) -> None:
    rng = np.random.default_rng(3)
    a = np.triu(normal(rng, (3, 3), "float32") + 4 * np.eye(3)).astype(np.float32)
    b = normal(rng, (3, 2), "complex128")
    expected = np.linalg.solve(a.astype(complex), b)
    got = value(op, a, b)
    assert got.dtype == np.complex128
    np.testing.assert_allclose(got, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("linalg.inv", {}),
        ("linalg.det", {}),
        ("linalg.pinv", {}),
        ("linalg.expm", {}),
        ("linalg.cholesky", {}),
        ("linalg.matrix_power", {"n": -2}),
    ],
)
def test_integers_are_computed_with_as_float64(op: str, attributes: Any) -> None:
    whole = np.array([[2, 1], [1, 3]])
    got = value(op, whole, **attributes)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, value(op, whole.astype(float), **attributes))


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
def test_cholesky_reads_the_triangle_that_it_gives(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(4)
    x = normal(rng, (3, 3), dtype)
    a = (x @ x.conj().T + 3 * np.eye(3)).astype(dtype)
    low = value("linalg.cholesky", np.where(np.tri(3, dtype=bool), a, NAN))
    up = value("linalg.cholesky", np.where(np.tri(3, dtype=bool).T, a, NAN), upper=True)
    np.testing.assert_allclose(
        low, np.linalg.cholesky(a), rtol=1e-5 if low.itemsize < 9 and dtype.char in "fF" else 1e-13
    )
    np.testing.assert_array_equal(up, np.triu(up))
    tolerance = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(up.conj().T @ up, a, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
@pytest.mark.parametrize("rank", [1, 2])
def test_pinv_and_lstsq_are_numpys_at_any_rank(shape: tuple[int, int], rank: int) -> None:
    rng = np.random.default_rng(5)
    m, n = shape
    a = normal(rng, (m, rank), "complex128") @ normal(rng, (rank, n), "complex128")
    b = normal(rng, (m, 2), "complex128")
    np.testing.assert_allclose(value("linalg.pinv", a), np.linalg.pinv(a), rtol=0, atol=1e-12)
    expected = np.linalg.lstsq(a, b, rcond=None)[0]
    np.testing.assert_allclose(value("linalg.lstsq", a, b), expected, rtol=0, atol=1e-12)


def test_pinv_counts_singular_values_up_to_rtol_as_zero() -> None:
    a = np.diag([2.0, 0.1])
    np.testing.assert_allclose(value("linalg.pinv", a, rtol=0.04), np.diag([0.5, 10.0]))
    np.testing.assert_allclose(value("linalg.pinv", a, rtol=0.06), np.diag([0.5, 0.0]))
    np.testing.assert_allclose(value("linalg.lstsq", a, [1.0, 1.0], rcond=0.06), [0.5, 0.0])


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 2, 7])
def test_matrix_power_is_numpys(n: int) -> None:
    a = normal(np.random.default_rng(6), (2, 3, 3), "complex128")
    expected = np.linalg.matrix_power(a, n)
    np.testing.assert_allclose(value("linalg.matrix_power", a, n=n), expected, rtol=1e-12)


# ---------------------------------------------------------------- other derivatives


@pytest.mark.parametrize("size", [1e-12, 1.0, 1e6])
def test_expm_has_frechets_derivative_whatever_the_size_of_the_direction(size: float) -> None:
    rng = np.random.default_rng(10)
    a, w = rng.standard_normal((2, 4, 4))
    gradient, product = gradient_and_hv("linalg.expm", a, size * a.T, w)
    expected = scipy.linalg.expm_frechet(a.T, w, compute_expm=False)
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-13 * np.abs(expected).max())
    steps = [(a + s * a.T).T for s in (1e-5, -1e-5)]
    ahead, behind = (np.asarray(scipy.linalg.expm_frechet(x, w)[1]) for x in steps)
    differences = size * (ahead - behind) / 2e-5
    scale = np.abs(differences).max()
    np.testing.assert_allclose(product, differences, rtol=0, atol=1e-8 * scale)


def test_expm_of_a_nilpotent_matrix_is_differentiated_exactly() -> None:
    """exp(a) = 1 + a + a a / 2 has no further terms, and a is as far from normal as can be."""
    a = np.diag([1e3, 1e-3], 1)
    w = np.zeros((3, 3))
    w[0, 2] = 1.0
    gradient, product = gradient_and_hv("linalg.expm", a, np.eye(3), w)
    # d/de of (exp(a + e))[0, 2] for e = c 1 is e^c times itself.
    assert gradient.trace() == pytest.approx(0.5, rel=1e-13)
    assert product.trace() == pytest.approx(0.5, rel=1e-13)


@pytest.mark.parametrize("n", [-2, 0, 1, 3])
def test_matrix_power_is_differentiated_as_the_product_that_it_is(n: int) -> None:
    rng = np.random.default_rng(11)
    a = normal(rng, (3, 3), "complex128") + 3 * np.eye(3)
    v, w = normal(rng, (2, 3, 3), "complex128")
    got = gradient_and_hv("linalg.matrix_power", a, v, w, n=n)
    tape = Tape(ENGINE)
    leaf = tape.leaf(a, v)
    factor = tape.apply("linalg.inv", [leaf]) if n < 0 else leaf
    y = tape.constant(np.eye(3))
    for _ in range(abs(n)):
        y = tape.apply("matmul", [y, factor])
    if not n:
        np.testing.assert_array_equal(got, np.zeros((2, 3, 3)))
        return
    y = tape.apply("multiply", [y, tape.constant(w.conj())])
    ((gradients, products),) = tape.hvp(tape.apply("sum", [tape.apply("real", [y])]))
    np.testing.assert_allclose(got[0], gradients[leaf], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(got[1], products[leaf], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3)])
def test_pinv_and_lstsq_are_differentiated_at_constant_rank(shape: tuple[int, int]) -> None:
    """Along a = x y with x and y of two columns and rows, the rank stays 2."""
    rng = np.random.default_rng(12)
    x, dx = normal(rng, (2, shape[0], 2), "complex128")
    y, dy = normal(rng, (2, 2, shape[1]), "complex128")
    b = normal(rng, (shape[0], 2), "complex128")

    def at(s: float) -> Array:
        moved: Array = (x + s * dx) @ (y + s * dy)
        return moved

    direction = dx @ y + x @ dy
    for op, further in (("linalg.pinv", ()), ("linalg.lstsq", (b,))):
        tape = Tape(ENGINE)
        leaf = tape.leaf(at(0.0))
        attributes = {"rtol": 1e-8} if op == "linalg.pinv" else {"rcond": 1e-8}
        result = tape.apply(op, [leaf, *map(tape.constant, further)], **attributes)
        w = normal(rng, result.aval.shape, "complex128")
        (gradients,) = tape.pullback(result, [w])
        ahead, behind = (value(op, at(s), *further, **attributes) for s in (1e-6, -1e-6))
        expected = np.vdot(w, (ahead - behind) / 2e-6).real
        assert np.vdot(gradients[leaf], direction).real == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit_diagonal", [False, True])
def test_what_solve_triangular_does_not_read_has_exactly_no_gradient(
    lower: bool, unit_diagonal: bool
) -> None:
    rng = np.random.default_rng(13)
    a = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    tape = Tape(ENGINE)
    leaf = tape.leaf(a, rng.standard_normal((3, 3)))
    y = tape.apply(
        "linalg.solve_triangular",
        [leaf, tape.constant(np.ones(3))],
        lower=lower,
        unit_diagonal=unit_diagonal,
    )
    ((gradients, products),) = tape.hvp(tape.apply("sum", [tape.apply("multiply", [y, y])]))
    read = np.tri(3, k=-unit_diagonal, dtype=bool)
    for found in (gradients[leaf], products[leaf]):
        np.testing.assert_array_equal(found != 0, read if lower else read.T)


def test_solve_factorises_once_for_value_and_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    calls: list[tuple[int, ...]] = []
    factor = engine.xp.lu_factor

    def counted(a: Array) -> Any:
        calls.append(a.shape)
        return factor(a)

    monkeypatch.setattr(engine.xp, "lu_factor", counted)
    rng = np.random.default_rng(14)
    tape = Tape(engine)
    a = tape.leaf(rng.standard_normal((30, 30)), rng.standard_normal((30, 30)))
    b = tape.leaf(rng.standard_normal(30))
    loss = tape.apply("sum", [tape.apply("linalg.solve", [a, b])])
    tape.pullback(loss)
    tape.hvp(loss)
    assert calls == [(30, 30)]


# ---------------------------------------------------------------- failures


SINGULAR = [
    ("linalg.inv", ([[1.0, 2], [2, 4]],), {}),
    ("linalg.inv", ([[[1.0, 0], [0, 1]], [[1, 2], [2, 4]]],), {}),
    ("linalg.inv", ([[1e-310, 0.0], [0, 1]],), {}),
    ("linalg.solve", ([[1.0, 2], [2, 4]], [1.0, 0]), {}),
    ("linalg.solve", ([[[1.0, 0], [0, 1]], [[0, 0], [0, 0]]], [1.0, 0]), {}),
    ("linalg.solve", ([[1e-310, 0.0], [0, 1]], [1.0, 1]), {}),
    ("linalg.solve", (np.ones((20, 20)), np.ones(20)), {}),
    ("linalg.solve_triangular", ([[1.0, 2], [5, 0]], [1.0, 0]), {}),
    ("linalg.solve_triangular", ([[1.0, 2], [5, 0]], [1.0, 1]), {"lower": True}),
    ("linalg.matrix_power", ([[1.0, 2], [2, 4]],), {"n": -2}),
]


@pytest.mark.parametrize(("op", "operands", "attributes"), SINGULAR)
def test_a_singular_matrix_is_an_error_that_names_the_op(
    op: str, operands: Sequence[Any], attributes: Any
) -> None:
    error = failure(run(op, *operands, **attributes))
    assert error.reason == "SINGULAR_MATRIX"
    assert error.details["op"] == op
    assert str(np.shape(operands[0])) in error.message


def test_a_failed_step_fails_alone() -> None:
    tape = Tape(ENGINE)
    a = tape.leaf(np.ones((2, 2)))
    failed = tape.apply("linalg.inv", [a])
    assert failure(tape.apply("sum", [failed])) is failed.error
    jittered = tape.apply("add", [a, tape.constant(np.eye(2))])
    loss = tape.apply("sum", [tape.apply("linalg.inv", [jittered])])
    np.testing.assert_allclose(tape.pullback(loss)[0][a], np.full((2, 2), -1 / 9))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("linalg.det", {}),
        ("linalg.pinv", {}),
        ("linalg.expm", {}),
        ("linalg.matrix_power", {"n": 2}),
    ],
)
@pytest.mark.parametrize("bad", [NAN, np.inf])
def test_nan_and_inf_stay_in_their_own_matrix(op: str, attributes: Any, bad: float) -> None:
    good = np.array([[2.0, 1], [1, 3]])
    stack = np.stack([good, np.array([[bad, 1], [1, 1]]), good])
    v = np.ones_like(stack)
    with np.errstate(invalid="ignore"):  # of NumPy's products with Inf
        y = value(op, stack, **attributes)
        gradient, product = gradient_and_hv(op, stack, v, **attributes)
    alone, moved = gradient_and_hv(op, good, np.ones((2, 2)), **attributes)
    for i in (0, 2):
        np.testing.assert_allclose(y[i], value(op, good, **attributes), rtol=1e-14)
        np.testing.assert_allclose(gradient[i], alone, rtol=1e-13)
        np.testing.assert_allclose(product[i], moved, rtol=1e-12, atol=1e-12)
    if np.isnan(bad):
        assert np.isnan(y[1]).any()
        assert np.isnan(gradient[1]).any()


@pytest.mark.parametrize(("op", "further"), [("linalg.inv", ()), ("linalg.solve", ([1.0, 2],))])
@pytest.mark.parametrize("bad", [[[NAN, 1.0], [1, 1]], [[2.0, NAN], [1, 3]], [[2.0, 1], [NAN, 3]]])
def test_a_matrix_with_nan_gives_nan_or_counts_as_singular(op: str, further: Any, bad: Any) -> None:
    node = run(op, bad, *further)
    if node.error is not None:
        assert "holds NaN or Inf" in failure(node).message
    else:
        assert np.isnan(node.value).any()


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
@pytest.mark.parametrize("bad", [NAN, np.inf, -np.inf])
def test_singular_values_of_a_matrix_that_is_not_finite_are_nan(
    bad: float, dtype: np.dtype[Any]
) -> None:
    stack = normal(np.random.default_rng(0), (2, 3, 3), dtype)
    stack[0, 0, 0] = bad  # with Inf there, LAPACK's gesdd does not come back
    s = value("linalg.svdvals", stack)
    assert np.isnan(s[0]).all()
    np.testing.assert_array_equal(s[1], value("linalg.svdvals", stack[1]))
    assert np.isnan(value("linalg.pinv", stack)[0]).all()
    assert np.isnan(value("linalg.lstsq", stack[0], np.ones(3, dtype))).all()


def test_an_exponential_that_overflows_is_an_error_not_nan() -> None:
    node = run("linalg.expm", np.array([[-1e100, 1e100], [1e100, -2e100]]))
    assert isinstance(node.error, InvalidArgument)
    assert node.error.reason == "INVALID_VALUE"


REFUSED = [
    ("linalg.solve", ((3, 3), (2, 2)), {}, "SHAPE_MISMATCH", "has 3 rows"),
    ("linalg.solve", ((4, 2, 2), (4, 2)), {}, "SHAPE_MISMATCH", r"b\[\.\.\., None\]"),
    ("linalg.solve", ((3, 2), (3,)), {}, "SHAPE_MISMATCH", "must be square"),
    ("linalg.solve", ((3, 3), ()), {}, "SHAPE_MISMATCH", "b is 0-d"),
    ("linalg.inv", ((2, 3),), {}, "SHAPE_MISMATCH", "must be square"),
    ("linalg.inv", ((3,),), {}, "SHAPE_MISMATCH", "at least two axes"),
    ("linalg.det", ((2, 3),), {}, "SHAPE_MISMATCH", "must be square"),
    ("linalg.slogdet", ((2, 3),), {}, "SHAPE_MISMATCH", "must be square"),
    ("linalg.expm", ((2, 3),), {}, "SHAPE_MISMATCH", "must be square"),
    ("linalg.matrix_power", ((2, 2),), {"n": 0.5}, "INVALID_ATTRIBUTE", "n must be an integer"),
    ("linalg.pinv", ((2,),), {}, "SHAPE_MISMATCH", "at least two axes"),
    ("linalg.lstsq", ((3, 2), (2,)), {}, "SHAPE_MISMATCH", "has 3 rows"),
    ("linalg.solve_triangular", ((2, 2), (2,)), {"trans": "H"}, "INVALID_ATTRIBUTE", "trans='H'"),
]


@pytest.mark.parametrize(("op", "shapes", "attributes", "reason", "words"), REFUSED)
def test_operands_that_do_not_fit_are_refused(
    op: str, shapes: Any, attributes: Any, reason: str, words: str
) -> None:
    assert_refused(op, shapes, attributes, reason, words)
