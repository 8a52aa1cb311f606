"""The gradient tests of JAX and PyTorch, rerun: values to NumPy's, derivatives to differences.

Theirs allow 1e-5 to 1e-1 in double precision; here the relative error of every directional derivative is
at most 1e-6.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from tests.oracles.cases import CASES, Case, Domain, Shape

import backhaul as bh

Array = np.ndarray[Any, Any]
TOLERANCE: Final = 1e-6


@pytest.fixture(scope="module")
def embedded() -> Iterator[bh.Connection]:
    with bh.connect("embedded") as connection:
        yield connection


def _adjoint(x: Any) -> Any:
    return bh.conj(bh.matrix_transpose(x))


def _of_svd(x: Any) -> Any:
    u, s, vh = bh.linalg.svd(x)
    return (u * bh.expand_dims(bh.tanh(s), axis=-2)) @ vh


def _svd_squares(x: Any) -> Any:
    u, s, vh = bh.linalg.svd(x)
    return bh.abs(u) ** 2, s, bh.abs(vh) ** 2


def _of_eigh(x: Any) -> Any:
    w, v = bh.linalg.eigh(x)
    return (v * bh.expand_dims(bh.tanh(w), axis=-2)) @ _adjoint(v)


def _eigh_squares(x: Any) -> Any:
    w, v = bh.linalg.eigh(x)
    return w, bh.abs(v) ** 2


def _of_qr(x: Any) -> Any:
    q, r = bh.linalg.qr(x)
    return q @ r


def _qr_squares(x: Any) -> Any:
    return tuple(bh.abs(each) ** 2 for each in bh.linalg.qr(x))


COMPOSED: Final[dict[str, Callable[..., Any]]] = {
    "svd_product": _of_svd,
    "svd_squares": _svd_squares,
    "eigh_product": _of_eigh,
    "eigh_squares": _eigh_squares,
    "qr_product": _of_qr,
    "qr_squares": _qr_squares,
    "pinv_of_product": lambda a, b: bh.linalg.pinv(a @ bh.matrix_transpose(b)),
    "linalg.cholesky": lambda x, upper: bh.linalg.cholesky((x + _adjoint(x)) * 0.5, upper=upper),
    "average": lambda x, weights: bh.average(x, weights=weights),
    "getitem": lambda x, index: x[index],
    "scatter_add": lambda x, updates: bh.scatter_add(x, np.array([0, 3, 0]), updates),
    "where": lambda a, b: bh.where(
        np.random.default_rng(5).random(np.broadcast_shapes(a.shape, b.shape)) > 0.5, a, b
    ),
    "einsum": lambda *operands, subscripts: bh.einsum(subscripts, *operands),
}

REFERENCES: Final[dict[str, Callable[..., Any]]] = {
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erfinv": scipy.special.erfinv,
    "lgamma": scipy.special.gammaln,
    "digamma": scipy.special.psi,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "log_sigmoid": scipy.special.log_expit,
    "softplus": lambda x: np.logaddexp(x, 0),
    "silu": lambda x: x * scipy.special.expit(x),
    "gelu": lambda x: x * scipy.special.ndtr(x),
    "relu": lambda x: np.maximum(x, 0),
    "xlogy": scipy.special.xlogy,
    "xlog1py": scipy.special.xlog1py,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logsumexp": scipy.special.logsumexp,
    "softmax": scipy.special.softmax,
    "log_softmax": scipy.special.log_softmax,
    "cumulative_logsumexp": np.logaddexp.accumulate,
    "average": lambda x, weights: np.average(x, weights=weights),
    "linalg.cholesky": np.linalg.cholesky,
    "linalg.expm": scipy.linalg.expm,
    "linalg.lstsq": lambda a, b: np.linalg.lstsq(a, b)[0],
    "getitem": lambda x, index: x[index],
    "einsum": lambda *operands, subscripts: np.einsum(subscripts, *operands),
    "reshape": np.reshape,
    "astype": lambda x, dtype: x.astype(dtype),
}
NO_REFERENCE: Final = frozenset({*COMPOSED, "linalg.solve_triangular"}) - frozenset(REFERENCES)


def function_of(case: Case) -> Callable[..., Any]:
    found = COMPOSED.get(case.op)
    if found is None:
        home, _, name = case.op.rpartition(".")
        found = getattr(bh.linalg if home else bh, name)
    return lambda *operands: found(
        *([list(operands)] if case.listed else operands), *case.after, **case.attributes
    )


def reference_of(case: Case) -> Callable[..., Any] | None:
    if case.op in NO_REFERENCE:
        return None
    found = REFERENCES.get(case.op)
    if found is None:
        home, _, name = case.op.rpartition(".")
        found = getattr(np.linalg if home else np, name)
    return lambda *operands: found(
        *([list(operands)] if case.listed else operands), *case.after, **case.attributes
    )


def draw(rng: np.random.Generator, shape: Shape, domain: Domain, kind: str) -> Array:
    """Numbers from a domain; complex ones have both parts from it."""

    def part() -> Any:
        match domain:
            case (low, high):
                return rng.uniform(low, high, shape)
            case "positive":
                return 0.5 + np.abs(rng.standard_normal(shape))
            case "apart" | "between":
                n = int(np.prod(shape))
                return (
                    (rng.permutation(n) - n // 2 + 0.3) * 0.37 + rng.uniform(0, 0.1, n)
                ).reshape(shape)
            case "normal":
                return 3 * rng.standard_normal(shape)
            case _:
                return rng.standard_normal(shape)

    x = np.asarray(part() + 1j * part() if kind == "c" else part())
    match domain:
        case "between":
            x = x + 0.185
        case "hermitian":
            x = (x + x.conj().mT) / 2 + np.diag(2.0 * np.arange(shape[-1]))
        case "definite":
            x = x @ x.conj().mT + shape[-1] * np.eye(shape[-1])
        case "invertible":
            x = x + 2 * np.eye(shape[-2], shape[-1]) * (1 + np.arange(shape[-1]))
        case "lower":
            x = np.tril(x) + 5 * np.eye(shape[-1])
        case "upper":
            x = np.triu(x) + 5 * np.eye(shape[-1])
    return np.asarray(x, complex if kind == "c" else float)


def operands_of(case: Case, kind: str) -> list[Array]:
    described = f"{case.op} {case.shapes} {case.attributes} {case.after} {kind}"
    seed = zlib.crc32(described.encode())
    print(f"{described}: numbers of seed {seed}")
    rng = np.random.default_rng(seed)
    domains = case.domain if isinstance(case.domain, list) else [case.domain] * len(case.shapes)
    return [draw(rng, *each, kind) for each in zip(case.shapes, domains, strict=True)]


PARAMETERS: Final = [
    pytest.param(case, kind, id=f"{case.op}-{i}-{kind}")
    for i, case in enumerate(CASES)
    for kind in case.kinds
]


def test_the_table_covers_what_it_claims() -> None:
    assert len(CASES) >= 500
    assert len({case.op for case in CASES}) >= 90


@pytest.mark.parametrize(("case", "kind"), PARAMETERS)
def test_derivatives_agree_with_differences(case: Case, kind: str, embedded: bh.Connection) -> None:
    operands = operands_of(case, kind)
    function, reference = function_of(case), reference_of(case)
    if reference is not None:
        with bh.Tape(embedded) as tape:
            found = function(*(tape.constant(x) for x in operands))
            listed = found if isinstance(found, tuple) else (found,)
            expected = reference(*operands)
            expected = expected if isinstance(expected, tuple) else (expected,)
            for got, right in zip(listed, expected, strict=True):
                assert got.shape == np.shape(right)
                scale = float(np.max(np.abs(right), initial=1.0))
                np.testing.assert_allclose(got.numpy(), right, 1e-12, 1e-12 * scale)
    report = bh.check_grad(
        function, *operands, order=case.order, tolerance=TOLERANCE, connection=embedded
    )
    assert report, f"{case.source}\n{report}"
