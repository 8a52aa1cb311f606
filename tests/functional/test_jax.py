"""The same functions differentiated by JAX: equal values, in equal containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backhaul as bh

jax = pytest.importorskip("jax", reason="the oracle is JAX itself: pip install jax")
jax.config.update("jax_enable_x64", True)
jnp = jax.numpy

RNG = np.random.default_rng(23)
Z = RNG.normal(size=3) + 1j * RNG.normal(size=3)
P = {"w": RNG.normal(size=(3, 2)), "b": (RNG.normal(size=2), np.array(0.4))}
V = {"w": RNG.normal(size=(3, 2)), "b": (RNG.normal(size=2), np.array(-1.0))}
X = RNG.normal(size=(4, 3))


def outputs(xp: Any, p: Any, x: Any) -> Any:
    return {"y": xp.tanh(x @ p["w"] + p["b"][0]), "s": p["b"][1] * xp.sum(p["w"])}


def loss(xp: Any, p: Any, x: Any) -> Any:
    out = outputs(xp, p, x)
    return xp.sum(xp.exp(out["y"])) * out["s"] + xp.sum(p["w"] ** 3)


def ours(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: f(bh, *args)


def theirs(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: f(jnp, *args)


def same(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-10, atol=1e-12)


def test_gradients_jacobians_and_hessians(connection: bh.Connection) -> None:
    c: dict[str, Any] = {"connection": connection}
    same(
        bh.value_and_grad(ours(loss), (0, 1), **c)(P, X),
        jax.value_and_grad(theirs(loss), (0, 1))(P, X),
    )
    for mode, take in (("reverse", jax.jacrev), ("forward", jax.jacfwd)):
        same(
            bh.jacobian(ours(outputs), (0, 1), mode=mode, **c)(P, X),
            take(theirs(outputs), (0, 1))(P, X),
        )
    same(bh.hessian(ours(loss), **c)(P, X), jax.hessian(theirs(loss))(P, X))


def test_products(connection: bh.Connection) -> None:
    c: dict[str, Any] = {"connection": connection}
    tangents = (V, np.ones_like(X))
    same(bh.jvp(ours(outputs), (P, X), tangents, **c), jax.jvp(theirs(outputs), (P, X), tangents))
    value, pull = bh.vjp(ours(outputs), P, X, **c)
    expected, pull_theirs = jax.vjp(theirs(outputs), P, X)
    same(value, expected)
    ct = {"y": RNG.normal(size=(4, 2)), "s": np.array(2.0)}
    same(pull(ct), pull_theirs(ct))
    found = bh.hvp(ours(loss), (P, X), tangents, **c)
    gradient, product = jax.jvp(jax.grad(theirs(loss), (0, 1)), (P, X), tangents)
    same(found.gradient, gradient)
    same(found.product, product)


def test_gauss_newton_products(connection: bh.Connection) -> None:
    def of_outputs(xp: Any, out: Any) -> Any:
        return xp.sum(xp.exp(out["y"])) * out["s"] ** 2

    found = bh.gauss_newton_product(
        lambda p: outputs(bh, p, X), ours(of_outputs), (P,), (V,), connection=connection
    )

    def f(p: Any) -> Any:
        return outputs(jnp, p, X)

    out, along = jax.jvp(f, (P,), (V,))
    _, curved = jax.jvp(jax.grad(theirs(of_outputs)), (out,), (along,))
    _, pull = jax.vjp(f, P)
    same(found.product, pull(curved))


def test_complex_gradients_are_conjugates(connection: bh.Connection) -> None:
    def f(xp: Any, z: Any) -> Any:
        return xp.sum(xp.abs(z * z + 1j) ** 2) + xp.sum(xp.real(z)) * xp.sum(xp.imag(xp.exp(z)))

    found = bh.grad(ours(f), connection=connection)(Z)
    same(found, np.conj(jax.grad(theirs(f))(Z)))
    v = RNG.normal(size=3) + 1j * RNG.normal(size=3)
    product = bh.hvp(ours(f), (Z,), (v,), connection=connection).product[0]
    same(product, np.conj(jax.jvp(jax.grad(theirs(f)), (Z,), (v,))[1]))

    def holomorphic(xp: Any, z: Any) -> Any:
        return xp.exp(z) * xp.sum(z)

    for mode, take in (("reverse", jax.jacrev), ("forward", jax.jacfwd)):
        same(
            bh.jacobian(ours(holomorphic), holomorphic=True, mode=mode, connection=connection)(Z),
            take(theirs(holomorphic), holomorphic=True)(Z),
        )


def test_many_sets_are_those_of_vmap(connection: bh.Connection) -> None:
    sets = {"w": RNG.normal(size=(5, 3, 2)), "b": (RNG.normal(size=(5, 2)), RNG.normal(size=5))}
    found = bh.batched(bh.value_and_grad(ours(loss)), (0, None), connection=connection)(sets, X)
    same(found, jax.vmap(jax.value_and_grad(theirs(loss)), (0, None))(sets, X))
