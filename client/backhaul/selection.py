"""Functions of `backhaul_proto.catalog.selection` whose arguments the catalog cannot say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from backhaul.handle import Handle
from backhaul.recording import Operand, record
from backhaul_proto.catalog.ops import get
from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

__all__ = ["clip"]

_CLIP: Final = get("clip")


def clip(
    x: Operand,
    /,
    a_min: Operand | None = None,
    a_max: Operand | None = None,
    *,
    min: Operand | None = None,
    max: Operand | None = None,
) -> TrackedTensor:
    """`x` brought within bounds, element by element.

    The bounds belong to the interval: at them the derivative with respect to x is 1. Where x is beyond a
    bound, the derivative with respect to that bound is 1. Where the lower bound is above the upper, the
    upper is taken.

    Args:
        x: Tensor, array or number.
        a_min: The lower bound: tensor, array or number; None for none.
        a_max: The upper bound.
        min: The lower bound, by the array API's name.
        max: The upper bound, by the array API's name.

    Raises:
        InvalidArgument: complex operands; a bound given by both names.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([-1.0, 0.5, 2.0])
        >>> bh.clip(x, 0, 1).numpy(), bh.clip(x, None, 1).numpy()
        (array([0. , 0.5, 1. ]), array([-1. ,  0.5,  1. ]))
    """
    for name, old, new in (("min", a_min, min), ("max", a_max, max)):
        if old is not None and new is not None:
            raise make_error(
                "INVALID_ATTRIBUTE",
                f"clip: a_{name} and {name} are two names of one bound; give one of them.",
                op="clip",
                attribute=name,
            )
    lower = _bound(x, a_min if min is None else min, -math.inf)
    upper = _bound(x, a_max if max is None else max, math.inf)
    return record(_CLIP, (x, lower, upper))


def _bound(x: Operand, given: Operand | None, infinite: float) -> Operand:
    """The bound, or one that no x is beyond, in the dtype of x."""
    if given is not None:
        return given
    dtype = x.dtype if isinstance(x, Handle | np.ndarray | np.generic) else None  # type: ignore[union-attr]  # a tensor has one
    if dtype is None or dtype.kind in "fc":
        return infinite
    if dtype.kind == "b":
        return np.bool_(infinite > 0)
    limits = np.iinfo(dtype)
    return np.asarray(limits.max if infinite > 0 else limits.min, dtype)
