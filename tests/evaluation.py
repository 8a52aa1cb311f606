"""Ops run on the engine by name: values and derivatives of one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backhaul_proto.errors import InvalidArgument
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
ENGINE = Engine()


def run(op: str, *operands: Any, **attributes: Any) -> Any:
    """The node of an op on constants, or a tuple of them; it may have failed."""
    tape = Tape(ENGINE)
    return tape.apply(op, [tape.constant(np.asarray(x)) for x in operands], **attributes)


def assert_refused(op: str, shapes: Any, attributes: Any, reason: str, words: str) -> None:
    """An op on operands of these shapes is refused at the call, with this reason and words."""
    tape = Tape(ENGINE)
    operands = [tape.leaf(np.ones(shape)) for shape in shapes]
    with pytest.raises(InvalidArgument, match=words) as caught:
        tape.apply(op, operands, **attributes)
    assert caught.value.reason == reason


def value(op: str, *operands: Any, **attributes: Any) -> Array:
    """The value of an op with one result."""
    node = run(op, *operands, **attributes)
    assert node.error is None
    return np.asarray(node.value)


def gradient_and_hv(
    op: str, x: Array, direction: Array, weights: Array | None = None, **attributes: Any
) -> tuple[Array, Array]:
    """Gradient and H·v of the sum of Re(conj(w) y), or of Re y for w left out."""
    tape = Tape(ENGINE)
    leaf = tape.leaf(x, direction)
    y = tape.apply(op, [leaf], **attributes)
    if weights is not None:
        y = tape.apply("multiply", [y, tape.constant(np.conj(weights))])
    loss = tape.apply("sum", [tape.apply("real", [y])])
    ((gradients, products),) = tape.hvp(loss)
    np.testing.assert_array_equal(gradients[leaf], tape.pullback(loss)[0][leaf])
    return gradients[leaf], products[leaf]
