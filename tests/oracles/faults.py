"""One fault that other libraries had, as a case: where it was reported, and the right answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Fault:
    """A function at a point where a derivative was once wrong or NaN elsewhere.

    Attributes:
        name: what it is about.
        origin: the threads that told of it, as 'owner/name#number'.
        loss: of as many tensors as there are points; summed when it is no scalar, the real part of it.
        at: the points.
        gradients: of the loss, one a point, from mathematics or from the convention of the API at a kink.
        products: H·v along ``along``; None where it is not asked for.
        along: the direction; None: ones.
        value: of the loss before it is summed; None where it is not asked for.
        refused: the reason code of the error instead, where there is no derivative.
        tolerance: relative and absolute.
    """

    name: str
    origin: str
    loss: Callable[..., Any]
    at: tuple[Any, ...]
    gradients: tuple[Any, ...] = ()
    products: tuple[Any, ...] | None = None
    along: tuple[Any, ...] | None = None
    value: Any = None
    refused: str = ""
    tolerance: float = 1e-12
