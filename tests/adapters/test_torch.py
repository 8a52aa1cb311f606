"""The adapter for PyTorch, in PyTorch's own checks and a training loop."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.adapters.counting import counted

import backhaul as bh

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed: make adapters-test")


def _leaf(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=made, dtype=dtype or torch.float64, requires_grad=True)


_FUNCTIONS: list[Any] = [
    pytest.param(lambda x, y: bh.sum(bh.exp(x) * y * x), id="number"),
    pytest.param(lambda x, y: bh.exp(x) * y * x + x[::-1] * y**2, id="elements"),
    pytest.param(lambda x, y: bh.sum(x * y**2, keepdims=True), id="one element"),
    pytest.param(lambda x, y: bh.sum(x**3) + bh.sum(y), id="separate"),
]

_COMPLEX: list[Any] = [
    pytest.param(lambda z, w: bh.exp(z) * bh.conj(w) * z + bh.conj(z) * z, id="elements"),
    pytest.param(lambda z, w: bh.sum(bh.real(z * z * bh.conj(w))), id="real number"),
    pytest.param(lambda z, w: bh.sum(z * bh.conj(z) * w), id="complex number"),
]


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_gradcheck_and_gradgradcheck(connection: bh.Connection, function: Any) -> None:
    f = bh.adapters.torch.wrap(function, connection=connection)
    at = _leaf(3, seed=1), _leaf(3, seed=2)
    assert torch.autograd.gradcheck(f, at, check_forward_ad=True, check_batched_grad=False)
    assert torch.autograd.gradgradcheck(f, at, check_fwd_over_rev=True)


@pytest.mark.parametrize("function", _COMPLEX)
def test_gradcheck_and_gradgradcheck_complex(connection: bh.Connection, function: Any) -> None:
    f = bh.adapters.torch.wrap(function, connection=connection)
    at = _leaf(2, seed=1, dtype=torch.complex128), _leaf(2, seed=2, dtype=torch.complex128)
    assert torch.autograd.gradcheck(f, at, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, at, check_fwd_over_rev=True)


def test_one_argument_of_two(connection: bh.Connection) -> None:
    f = bh.adapters.torch.wrap(lambda x, y: bh.sum(x * x * y), connection=connection)
    y = _leaf(3, seed=2)
    x = _leaf(3, seed=1).detach()
    assert torch.autograd.gradcheck(f, (x, y))
    f(x, y).backward()
    assert x.grad is None
    assert_allclose(y.grad, x * x)


def test_round_trips(connection: bh.Connection) -> None:
    number = bh.adapters.torch.wrap(lambda x: bh.sum(x**3), connection=connection)
    elements = bh.adapters.torch.wrap(lambda x: x**3, connection=connection)
    x = _leaf(4)
    number(x)
    with counted(connection) as trips:
        number(x).backward()
    assert trips.count == 1
    with counted(connection) as trips:
        number(x.detach())
    assert trips.count == 1
    with counted(connection) as trips:
        elements(x).sum().backward()
    assert trips.count == 2
    with counted(connection) as trips:
        (gradient,) = torch.autograd.grad(number(x), x, create_graph=True)
        (product,) = torch.autograd.grad(gradient @ torch.ones_like(x), x)
    assert trips.count == 2
    assert_allclose(product, 6 * x.detach())


class _Fit(torch.nn.Module):  # type: ignore[misc]
    """A linear layer of torch before a function of the server."""

    def __init__(self, connection: bh.Connection) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.remote = bh.adapters.torch.wrap(
            lambda h, scale: bh.sum(bh.tanh(h) * scale, axis=1), connection=connection
        )

    def forward(self, x: Any) -> Any:
        return self.remote(self.inner(x), self.scale)


def test_training_a_module(connection: bh.Connection) -> None:
    torch.manual_seed(0)
    model = _Fit(connection)
    data = torch.randn(64, 3)
    wanted = torch.tanh(data @ torch.tensor([1.0, -0.5, 0.2]))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((model(data) - wanted) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 * losses[0]
    assert model.scale.grad.dtype == torch.float32


def test_the_gradient_is_that_of_torch(connection: bh.Connection) -> None:
    z = _leaf(3, seed=3, dtype=torch.complex128)
    remote = bh.adapters.torch.wrap(
        lambda z: bh.sum(bh.abs(z * z - 1.0) ** 2), connection=connection
    )
    (found,) = torch.autograd.grad(remote(z), z)
    (expected,) = torch.autograd.grad(((z * z - 1.0).abs() ** 2).sum(), z)
    assert_allclose(found, expected)
    # A lazily conjugated view is what it says, not what lies in memory.
    assert_allclose(remote(z.conj().detach()), remote(z.detach()))


def test_a_graph_is_kept_and_its_nodes_go_with_it() -> None:
    with bh.connect("embedded") as connection:
        f = bh.adapters.torch.wrap(lambda x: x**2, connection=connection)
        x = _leaf(3)
        y = f(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        assert_allclose(x.grad, 4 * x.detach())
        for _ in range(30):
            y = f(x)
            y.sum().backward()
        del y
        gc.collect()
        f(x.detach())
        (session,) = connection.sessions()
        assert session.info.nodes <= 6


def test_what_was_changed_in_place_is_refused(connection: bh.Connection) -> None:
    f = bh.adapters.torch.wrap(lambda x: x**2, connection=connection)
    x = _leaf(3)
    y = f(x)
    with torch.no_grad():
        x += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_errors_are_ours(connection: bh.Connection) -> None:
    f = bh.adapters.torch.wrap(lambda x: bh.sum(bh.linalg.inv(x)), connection=connection)
    with pytest.raises(bh.LinearAlgebraError, match="test_torch"):
        f(torch.zeros(2, 2, requires_grad=True))
    with pytest.raises(bh.InvalidArgument) as found:
        f(torch.zeros(2, 2, dtype=torch.bfloat16))
    assert found.value.reason == "DTYPE_NOT_SUPPORTED"
    roots = bh.adapters.torch.wrap(lambda x: bh.linalg.svdvals(x), connection=connection)
    x = _leaf(2, 2)
    (first,) = torch.autograd.grad(roots(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    with pytest.raises(bh.HvpNotSupported, match="third derivative"):
        torch.autograd.grad(second.sum(), x)


def test_numbers_and_integers_are_arguments(connection: bh.Connection) -> None:
    f = bh.adapters.torch.wrap(lambda x, i, scale: x[i] * scale, connection=connection)
    x = _leaf(4)
    f(x, torch.tensor([0, 2]), 3.0).sum().backward()
    assert_allclose(x.grad, [3.0, 0.0, 3.0, 0.0])


def test_backward_after_the_session_was_ended(connection: bh.Connection) -> None:
    f = bh.adapters.torch.wrap(lambda x: np.exp(x), connection=connection)
    x = _leaf(2)
    y = f(x)
    point = y.grad_fn.point
    session = point._recorded.tape._core.session
    connection.close_session(session.id, session.epoch)
    y.sum().backward()
    assert_allclose(x.grad, y.detach())
