"""autoray, and what is written with it: cotengra, quimb.

    >>> import autoray, numpy as np, backhaul as bh
    >>> bh.adapters.autoray.register()
    >>> tape = bh.Tape()
    >>> x = tape.leaf(np.ones((2, 3)))
    >>> loss = autoray.do("sum", autoray.do("multiply", x, autoray.do("ones", (2, 3), like=x)))
    >>> tape.pullback(loss)[x].shape
    (2, 3)

autoray finds most functions of a tensor by itself, as it looks for them in the package that the tensor's
class is from. What is registered is the rest: arrays that are made like a tensor, and steps of which no
operand is a tensor, as they come in contractions with plain arrays. Both give NumPy arrays: constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

import backhaul
from backhaul.adapters.libraries import library
from backhaul.handle import Handle
from backhaul.tensor import TrackedTensor

autoray: Any = library("autoray", extra="autoray")

__all__ = ["register"]

_BACKEND: Final = "backhaul"

_MADE: Final = ("arange", "empty", "eye", "full", "identity", "linspace", "ones", "zeros")
"""Functions that make arrays of no other array."""


def register() -> None:
    """Tell autoray what it does not find by itself. Calling it again changes nothing.

    Example:
        >>> import cotengra, numpy as np, backhaul as bh
        >>> bh.adapters.autoray.register()
        >>> x = bh.Tape().leaf(np.ones((2, 3)))
        >>> float(cotengra.einsum("ij,jk,kl->", np.ones((4, 5)), np.ones((5, 2)), x))
        120.0
    """
    for prefix, module in (("", backhaul), ("linalg.", backhaul.linalg)):
        for name in module.__all__:
            function = getattr(module, name)
            if callable(function) and not isinstance(function, type):
                _set(prefix + name, _of_either(prefix + name, function))
    for name in _MADE:
        _set(name, getattr(np, name))
    for name in ("array", "asarray", "copy"):
        _set(name, _as_it_is)
    for name in ("ones_like", "zeros_like", "empty_like", "full_like"):
        _set(name, _like(name.removesuffix("_like")))
    _set("allclose", _allclose)
    _set("complex", _complex)


def _set(name: str, function: Callable[..., Any]) -> None:
    autoray.register_function(_BACKEND, name, function)


def _of_either(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors, which for arrays alone is NumPy's."""

    def of_either(*arguments: Any, **keywords: Any) -> Any:
        if _has_tensor(arguments) or _has_tensor(keywords.values()):
            return function(*arguments, **keywords)
        return autoray.do(name, *arguments, like="numpy", **keywords)

    return of_either


def _has_tensor(arguments: Iterable[Any]) -> bool:
    return any(
        isinstance(each, Handle) or (isinstance(each, list | tuple) and _has_tensor(each))
        for each in arguments
    )


def _as_it_is(x: Any, *arguments: Any, **keywords: Any) -> Any:
    return x if isinstance(x, TrackedTensor) else np.array(x, *arguments, **keywords)


def _like(name: str) -> Callable[..., Any]:
    make = getattr(np, name)

    def made(x: Any, *arguments: Any, dtype: Any = None, **keywords: Any) -> Any:
        return make(x.shape, *arguments, dtype=x.dtype if dtype is None else dtype, **keywords)

    return made


def _allclose(a: Any, b: Any, *arguments: Any, **keywords: Any) -> bool:
    a, b = (x.numpy() if isinstance(x, TrackedTensor) else x for x in (a, b))
    return bool(np.allclose(a, b, *arguments, **keywords))


def _complex(re: Any, im: Any) -> Any:
    return re + 1j * im
