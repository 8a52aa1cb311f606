"""PyTorch: a remote function that `torch.autograd` differentiates, twice where it is asked to.

    >>> import torch, backhaul as bh
    >>> f = bh.adapters.torch.wrap(lambda x: bh.sum(x**3))
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (gradient,) = torch.autograd.grad(f(x), x, create_graph=True)
    >>> gradient
    tensor([ 3., 12.], grad_fn=<_GradientBackward>)
    >>> torch.autograd.grad(gradient.sum(), x)
    (tensor([ 6., 12.]),)

PyTorch's gradient of a real number by a complex one is backhaul's, dL/dRe + i dL/dIm.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backhaul.adapters.evaluation import Evaluations, Point, third_order
from backhaul.adapters.libraries import library
from backhaul.connection import Connection
from backhaul_proto.errors import make_error

torch: Any = library("torch", extra="torch")
Function: Any = torch.autograd.Function

__all__ = ["wrap"]

Array = np.ndarray[Any, Any]


def wrap(
    function: Callable[..., Any], *, connection: Connection | None = None
) -> Callable[..., Any]:
    """A function of tensors of a tape as one of torch tensors, for `torch.autograd`.

    Round trips: one for the value; of a real number that requires a gradient it brings that along,
    and ``backward`` makes none. A result of many elements, or a complex one, takes one more for
    ``backward``, which sends the cotangent alone, and so does each second derivative its direction. Forward
    mode (`torch.autograd.forward_ad`) is there too. Tensors of other devices are copied to the host.

    Args:
        function: of tensors, with one tensor as its result, of any shape. Integers and bools are
            constants, and so are arguments that require no gradient: those are sent once, however often
            they come. It is to have no effects.
        connection: where to; left out: the default connection.

    Returns:
        The function, of torch tensors and numbers. It raises what ``function`` and the server raise, in
        ``backward`` too.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no function or connection.

    Example:
        >>> import torch, backhaul as bh
        >>> squares = bh.adapters.torch.wrap(lambda x, scale: x * x * scale)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> squares(x, torch.tensor([1.0, 10.0])).sum().backward()
        >>> x.grad
        tensor([ 2., 40.])
    """
    evaluations = Evaluations(function, connection)

    @functools.wraps(function)
    def on_tensors(*arguments: Any) -> Any:
        return _Value.apply(evaluations, *map(torch.as_tensor, arguments))

    return on_tensors


class _Value(Function):
    """y. Of a real number, its gradient comes with it."""

    @staticmethod
    def forward(ctx: Any, evaluations: Evaluations, *arguments: Any) -> Any:
        wrt = tuple(i for i, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
        point = evaluations.at([_array(each) for each in arguments], wrt)
        ctx.evaluations, ctx.point, ctx.wrt, ctx.gradients = evaluations, point, wrt, None
        ctx.save_for_backward(*arguments)
        ctx.save_for_forward(*arguments)
        device = _device(arguments)
        if wrt:
            value, gradients = point.value_and_gradients_if_real()
            ctx.gradients = gradients and [_tensor(each, device) for each in gradients]
        else:
            value = point.value()
        return _tensor(value, device)

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> tuple[Any, ...]:
        arguments = ctx.saved_tensors  # raises when one was changed in place
        wanted = [arguments[i] for i in ctx.wrt]
        found = _Gradient.apply(ctx.point, ctx.gradients, cotangent, *wanted)
        by_position = dict(zip(ctx.wrt, found, strict=True))
        return None, *(by_position.get(i) for i in range(len(arguments)))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Any:
        arguments = ctx.saved_tensors
        wrt = [i for i, each in enumerate(tangents) if each is not None]
        point = ctx.evaluations.at([_array(each) for each in arguments], wrt)
        _, (found,) = point.pushforward([[_array(tangents[i]) for i in wrt]])
        return _tensor(found, _device(arguments))


class _Gradient(Function):
    """Jᴴ·ct by the arguments of the point, which are given again to be differentiated by."""

    @staticmethod
    def forward(
        ctx: Any, point: Point, gradients: Sequence[Any] | None, cotangent: Any, *arguments: Any
    ) -> tuple[Any, ...]:
        ctx.point = point
        ctx.save_for_backward(cotangent, *arguments)
        ctx.save_for_forward(cotangent, *arguments)
        if gradients is not None:
            return tuple(each * cotangent for each in gradients)
        _, (found,) = point.pullback([_array(cotangent)])
        return tuple(_tensor(each, cotangent.device) for each in found)

    @staticmethod
    def backward(ctx: Any, *directions: Any) -> tuple[Any, ...]:
        dy, *products = _Second.apply(ctx.point, len(directions), *ctx.saved_tensors, *directions)
        return None, None, dy, *products

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, of_cotangent: Any, *tangents: Any) -> tuple[Any, ...]:
        cotangent = ctx.saved_tensors[0]
        along = [None if each is None else _array(each) for each in tangents]
        of_ct = None if of_cotangent is None else _array(of_cotangent)
        ((found, _dy),) = ctx.point.pullback_with_tangents(_array(cotangent), [(along, of_ct)])
        return tuple(_tensor(each, cotangent.device) for each in found)


class _Second(Function):
    """J·u and H_ct·u, for the directions u: the derivatives of Re Σ conj(u)·Jᴴ·ct by ct and the arguments."""

    @staticmethod
    def forward(
        ctx: Any, point: Point, count: int, cotangent: Any, *further: Any
    ) -> tuple[Any, ...]:
        directions = [_array(each) for each in further[count:]]
        ((found, dy),) = point.pullback_with_tangents(_array(cotangent), [(directions, None)])
        return tuple(_tensor(each, cotangent.device) for each in (dy, *found))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[Any, ...]:
        raise third_order()


def _array(tensor: Any) -> Array:
    """A tensor's elements, which are not copied where they lie on the host.

    Raises:
        InvalidArgument: DTYPE_NOT_SUPPORTED for a dtype that NumPy has not.
    """
    try:
        array: Array = tensor.detach().cpu().resolve_conj().resolve_neg().numpy()
    except TypeError as error:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"A torch tensor of dtype {tensor.dtype} cannot be put on a tape. Convert it, for example with "
            ".float().",
            actual=tensor.dtype,
        ) from error
    return array


def _tensor(array: Array, device: Any) -> Any:
    return torch.from_numpy(np.array(array)).to(device)


def _device(arguments: Sequence[Any]) -> Any:
    """Where the first argument that is on no host is, else the host."""
    return next((x.device for x in arguments if x.device.type != "cpu"), torch.device("cpu"))
