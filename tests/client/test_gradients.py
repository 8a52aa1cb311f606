"""Gradients are a read-only mapping that tells apart what is unreached, foreign and unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import backhaul as bh


@pytest.fixture
def tape() -> bh.Tape:
    return bh.Tape()


def test_it_is_a_mapping_from_node_id_to_array(tape: bh.Tape) -> None:
    x, y, unused = tape.leaf([1.0, 2.0]), tape.leaf(3.0), tape.leaf(4.0)
    grads = tape.pullback(bh.sum(x * y))
    assert isinstance(grads, Mapping)
    assert dict(grads).keys() == {x.node_id, y.node_id}
    assert len(grads) == 2
    assert grads[x].tolist() == [3.0, 3.0]
    assert grads[x.node_id or 0] is grads[x]
    keys: list[Any] = [x, x.node_id, unused, bh.Tape().leaf(1.0), "x"]
    assert [key in grads for key in keys] == [True, True, False, False, False]
    assert float(grads.value) == 9.0
    assert str(tape) in repr(grads)
    readonly: Any = grads
    with pytest.raises(TypeError):
        readonly[x] = 1.0


def test_get_is_none_for_what_the_loss_does_not_reach(tape: bh.Tape) -> None:
    x, unused = tape.leaf(1.0), tape.leaf(2.0)
    grads = tape.pullback(x * 2.0)
    later = tape.leaf(3.0)
    for each in (unused, later):
        assert grads.get(each) is None
        assert grads.get(each.node_id or 0) is None
        assert grads.get(each, 7) == 7
        with pytest.raises(bh.MissingNode, match="does not depend") as error:
            grads[each]
        assert isinstance(error.value, KeyError)
        assert error.value.reason == "MISSING_GRADIENT"


def test_get_refuses_what_is_no_node_of_the_tape(tape: bh.Tape) -> None:
    x = tape.leaf(1.0)
    grads = tape.pullback(x * 2.0)
    unknown: list[Any] = [99, 0, -1, None, bh.Tape().leaf(1.0), tape.constant(1.0), x.detach()]
    for each in unknown:
        for look in (grads.get, grads.__getitem__):
            with pytest.raises(bh.MissingNode) as error:
                look(each)
            assert not isinstance(error.value, KeyError)


def test_a_dropped_or_released_leaf_still_finds_its_gradient(tape: bh.Tape) -> None:
    x = tape.leaf(3.0)
    grads = tape.pullback(x * x)
    tape.release(x)
    assert grads[x] == 6.0
    assert grads.get(x) == 6.0


def test_the_arrays_are_the_callers_own(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(2))
    weights = np.array([2.0, 3.0])
    loss = bh.sum(x * weights)
    grads = tape.pullback(loss)
    grads[x][:] = 99.0
    grads.value[...] = 99.0
    assert float(loss) == 5.0
    assert tape.pullback(loss)[x].tolist() == [2.0, 3.0]
    leaf_gradient = tape.pullback(x, cotangent=weights)[x]
    leaf_gradient[:] = 0.0
    assert weights.tolist() == [2.0, 3.0]


def test_an_hvp_result_cannot_be_changed(tape: bh.Tape) -> None:
    x = tape.leaf_with_tangent([1.0, 2.0], [1.0, 0.0])
    result = tape.hvp(bh.sum(x * x * x))
    assert result.gradients[x].tolist() == [3.0, 12.0]
    assert result.hvp[x].tolist() == [6.0, 0.0]
    assert float(result.value) == float(result.gradients.value) == 9.0
    frozen: Any = result
    with pytest.raises(AttributeError):
        frozen.value = 1.0
