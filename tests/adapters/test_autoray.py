"""autoray, cotengra and quimb on tensors of a tape."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.adapters.counting import counted

import backhaul as bh

autoray: Any = pytest.importorskip("autoray", reason="autoray is not installed: make adapters-test")


@pytest.fixture(autouse=True)
def registered() -> None:
    bh.adapters.autoray.register()


def test_functions_of_tensors_are_recorded(tape: bh.Tape) -> None:
    array = np.random.default_rng(1).standard_normal((3, 3))
    x = tape.leaf(array)
    assert autoray.infer_backend(x) == "backhaul"
    found = {
        "sum": autoray.do("sum", x, axis=0),
        "linalg.norm": autoray.do("linalg.norm", x),
        "stack": autoray.do("stack", (x, x)),
        "astype": autoray.do("astype", x, "float32"),
        "tensordot": autoray.do("tensordot", x, array, 1),
        "conj": autoray.do("conj", x),
    }
    for name, each in found.items():
        assert isinstance(each, bh.TrackedTensor), name
        assert each.requires_grad, name
    assert_allclose(found["sum"].numpy(), array.sum(0))
    assert_allclose(found["linalg.norm"].numpy(), np.linalg.norm(array))
    assert_allclose(found["tensordot"].numpy(), array @ array)
    u, s, vh = autoray.do("linalg.svd", x)
    assert_allclose((u * s @ vh).numpy(), array)
    assert autoray.shape(x) == (3, 3)
    assert autoray.get_dtype_name(x) == "float64"
    assert_allclose(autoray.to_numpy(x), array)


def test_arrays_made_like_a_tensor_are_constants(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 2), np.float32))
    assert_allclose(autoray.do("eye", 2, like=x), np.eye(2))
    assert_allclose(autoray.do("zeros", (3,), like=x), np.zeros(3))
    assert_allclose(autoray.do("array", [1.0, 2.0], like=x), [1.0, 2.0])
    assert autoray.do("asarray", x, like=x) is x
    ones = autoray.do("ones_like", x)
    assert (ones.shape, ones.dtype) == ((2, 2), np.float32)
    assert autoray.do("full_like", x, 3.0)[0, 0] == 3.0
    assert autoray.do("allclose", x, np.ones((2, 2)))
    assert not autoray.do("allclose", x, np.zeros((2, 2)))
    z = autoray.do("complex", x, 2.0 * x)
    assert z.dtype == np.complex64
    assert_allclose(z.numpy(), np.full((2, 2), 1.0 + 2.0j))


def test_arrays_alone_are_numpys(tape: bh.Tape) -> None:
    a = np.arange(4.0).reshape(2, 2)
    found = autoray.do("tensordot", a, a, 1, like="backhaul")
    assert type(found) is np.ndarray
    assert_allclose(found, a @ a)
    assert autoray.do("linalg.norm", a, like="backhaul") == np.linalg.norm(a)


def test_cotengra_contracts_tensors(connection: bh.Connection, tape: bh.Tape) -> None:
    ctg: Any = pytest.importorskip("cotengra", reason="cotengra is not installed")
    a, b, c = (np.random.default_rng(i).standard_normal((4, 4)) for i in range(3))
    y = tape.leaf(c)
    with counted(connection) as trips:
        grads = tape.pullback(ctg.einsum("ij,jk,kl->", a, b, y))
    assert trips.count == 1
    assert_allclose(grads.value, (a @ b @ c).sum())
    assert_allclose(grads[y], np.outer((a @ b).sum(0), np.ones(4)))
    tree = ctg.array_contract_tree(
        [("i", "j"), ("j", "k"), ("k", "i")], (), dict.fromkeys("ijk", 4)
    )
    sliced = tree.slice(target_slices=4)
    assert_allclose(float(sliced.contract([a, b, y])), np.trace(a @ b @ c))


def _energy(qtn: Any, hamiltonian: Any) -> Any:
    """⟨ψ|H|ψ⟩/⟨ψ|ψ⟩ of a matrix product state, as quimb computes it."""

    def energy(state: Any) -> Any:
        bra, middle, ket = qtn.tensor_network_align(state.H, hamiltonian, state)
        return (bra & middle & ket).contract() / (state.H & state).contract()

    return energy


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_gradient_of_a_quimb_tensor_network(
    connection: bh.Connection, tape: bh.Tape, dtype: str
) -> None:
    qtn: Any = pytest.importorskip("quimb.tensor", reason="quimb is not installed")
    state = qtn.MPS_rand_state(5, 3, seed=1, dtype=dtype)
    energy = _energy(qtn, qtn.MPO_ham_heis(5))
    arrays, skeleton = qtn.pack(state)
    leaves = {key: tape.leaf(each) for key, each in arrays.items()}
    with counted(connection) as trips:
        loss = bh.real(energy(qtn.unpack(leaves, skeleton)))
        grads = tape.pullback(loss)
    assert trips.count == 1
    assert_allclose(grads.value, np.real(energy(state)))
    rng = np.random.default_rng(2)
    along = {key: rng.standard_normal(each.shape).astype(dtype) for key, each in arrays.items()}
    if dtype == "complex128":
        along = {key: each * np.exp(0.7j) for key, each in along.items()}
    h = 1e-5

    def moved(t: float) -> float:
        there = {key: each + t * along[key] for key, each in arrays.items()}
        return float(np.real(energy(qtn.unpack(there, skeleton))))

    slope = sum(np.vdot(grads[leaf], along[key]).real for key, leaf in leaves.items())
    assert_allclose(slope, (moved(h) - moved(-h)) / (2 * h), rtol=1e-6)


def test_a_ground_state_by_scipy(connection: bh.Connection) -> None:
    qtn: Any = pytest.importorskip("quimb.tensor", reason="quimb is not installed")
    from scipy.optimize import minimize

    sites = 6
    energy = _energy(qtn, qtn.MPO_ham_heis(sites))
    arrays, skeleton = qtn.pack(qtn.MPS_rand_state(sites, 8, seed=3, dtype="float64"))
    keys = list(arrays)

    def loss(*tensors: Any) -> Any:
        return energy(qtn.unpack(dict(zip(keys, tensors, strict=True)), skeleton))

    at = bh.adapters.scipy.objective(loss, list(arrays.values()), connection=connection)
    found = minimize(at.fun, at.pack(*arrays.values()), jac=at.jac, method="L-BFGS-B")
    exact: Any = importlib.import_module("quimb").groundenergy(
        importlib.import_module("quimb").ham_heis(sites)
    )
    assert_allclose(found.fun, exact, rtol=1e-5)
