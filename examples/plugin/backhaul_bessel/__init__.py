"""Bessel functions on tensors.

>>> import backhaul as bh, backhaul_bessel
>>> tape = bh.Tape()
>>> x = tape.leaf([0.0, 1.0])
>>> backhaul_bessel.jv(x, order=0).numpy().round(6)
array([1.      , 0.765198])
"""

from __future__ import annotations

from typing import Any

import backhaul as bh


def jv(x: Any, *, order: int) -> bh.TrackedTensor:
    """The Bessel function of the first kind J of x, element by element."""
    result: bh.TrackedTensor = bh.apply("bessel.jv", x, order=order)
    return result


def kv(x: Any, *, order: int) -> bh.TrackedTensor:
    """The modified Bessel function of the second kind K of x, element by element. It has no H·v."""
    result: bh.TrackedTensor = bh.apply("bessel.kv", x, order=order)
    return result
