"""Containers: taken apart, put together, and found alike."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backhaul as bh
from backhaul.functional.pytrees import flatten, flatten_like


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class Layer:
    w: Any
    b: Any
    act: str = field(default="tanh", metadata={"static": True})

    def __post_init__(self) -> None:
        if not hasattr(self.w, "shape"):
            raise TypeError("w is an array")


leaves = st.integers()
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.integers(), inner, max_size=3).map(OrderedDict),
        st.tuples(inner, inner).map(lambda x: Pair(*x)),
        st.none(),
    ),
    max_leaves=12,
)


@given(trees)
def test_what_is_taken_apart_is_put_together(value: Any) -> None:
    found, tree = flatten(value)
    again = tree.unflatten(found)
    assert again == value
    assert type(again) is type(value)
    assert len(found) == tree.size == len([*tree.paths()])
    assert flatten(again)[1] == tree
    assert hash(flatten(again)[1]) == hash(tree)
    assert flatten_like(tree, value, "it") == found


def test_dataclasses_without_their_init() -> None:
    layer = Layer(np.ones(2), 0.0, "relu")
    found, tree = flatten([layer])
    made = tree.unflatten([1, 2])[0]
    assert (made.w, made.b, made.act) == (1, 2, "relu")
    assert [*tree.paths("p")] == ["p[0].w", "p[0].b"]
    assert flatten([Layer(np.ones(2), 0.0, "tanh")])[1] != tree
    assert len(found) == 2


def test_static_fields_are_told_apart_exactly() -> None:
    same = [Layer(np.ones(1), 0, each) for each in ("1", 1, 1.0, True, 0.0, -0.0, (1,), (1.0,))]  # type: ignore[arg-type]
    structures = [flatten(each)[1] for each in same]
    assert len(set(structures)) == len(structures)
    assert structures == [flatten(each)[1] for each in same]


def test_the_order_of_keys_makes_no_difference() -> None:
    _, tree = flatten({"a": 1, "b": {"c": 2, "d": 3}})
    assert flatten_like(tree, {"b": {"d": 30, "c": 20}, "a": 10}, "it") == [10, 20, 30]
    assert flatten_like(tree, {"b": OrderedDict(d=30, c=20), "a": 10}, "it") == [10, 20, 30]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": 1}, "it is built otherwise.*one of ['a', 'b'], here one of ['a']"),
        ({"a": 1, "b": [2]}, "it['b'] is built otherwise.*a tuple, here a list"),
        ({"a": 1, "b": (1, 2)}, "it['b'] is built otherwise.*a tuple of 1, here one of 2"),
        ({"a": 1, "b": 3}, "a tuple, here a int"),
        ([1, 2], "a dict, here a list"),
        (None, "a dict, here a NoneType"),
    ],
)
def test_what_is_not_alike_is_told_with_its_place(value: Any, told: str) -> None:
    _, tree = flatten({"a": 1, "b": (2,)})
    with pytest.raises(bh.InvalidArgument) as error:
        flatten_like(tree, value, "it")
    assert error.value.reason == "TREE_MISMATCH"
    for part in told.split(".*"):
        assert part in error.value.message


def test_other_classes_are_leaves() -> None:
    unusual: defaultdict[str, list[int]] = defaultdict(list)
    assert flatten(unusual)[0] == [unusual]
    assert flatten(Layer)[0] == [Layer]


def test_gradients_of_namedtuples_and_dataclasses(connection: bh.Connection) -> None:
    def loss(layer: Any, pair: Any) -> Any:
        y = np.tanh(layer.w * pair.a + layer.b) if layer.act == "tanh" else layer.w
        return bh.sum(y) * pair.b

    layer, pair = Layer(np.array([0.1, 0.2]), 0.3), Pair(np.ones(2), 2.0)
    f = bh.jit(loss)
    for of in (loss, f, f):
        by_layer, by_pair = bh.grad(of, (0, 1), connection=connection)(layer, pair)
        y = np.tanh(layer.w + 0.3)
        assert (type(by_layer), type(by_pair)) == (Layer, Pair)
        np.testing.assert_allclose(by_layer.w, 2 * (1 - y * y))
        np.testing.assert_allclose(by_layer.b, np.sum(2 * (1 - y * y)))
        np.testing.assert_allclose(by_pair.b, y.sum())
        assert by_layer.act == "tanh"
    assert f.traces == 1
    linear = Layer(np.array([0.1, 0.2]), 0.3, "none")
    found = bh.grad(f, connection=connection)(linear, pair)
    np.testing.assert_array_equal(found.w, [2.0, 2.0])
    np.testing.assert_array_equal(found.b, 0.0)
    assert f.traces == 2


def test_a_static_field_that_cannot_be_hashed(connection: bh.Connection) -> None:
    layer = Layer(np.ones(2), 0.3, ["list"])  # type: ignore[arg-type]
    f = bh.grad(bh.jit(lambda p: bh.sum(p.w)), connection=connection)
    with pytest.raises(bh.InvalidArgument, match="cannot be hashed"):
        f(layer)
