"""Index attributes: the shape that they pick is NumPy's, and they travel as they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul_proto import codec
from backhaul_proto.catalog.index import ARRAY, Index, Slice, canonical_index, select
from backhaul_proto.errors import InvalidArgument
from backhaul_proto.v1 import graph_pb2

PARTS = st.none() | st.integers(-6, 6)


@st.composite
def indices(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape, and an index of NumPy's that fits it."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    entries: list[Any] = []
    skipped = draw(st.integers(0, len(shape)))
    at = draw(st.integers(0, len(shape) - skipped))
    for axis, n in enumerate(shape):
        if at <= axis < at + skipped:
            continue
        if axis == at + skipped:
            entries.append(...)
        step = st.none() | st.sampled_from([-3, -1, 1, 2])
        array = st.lists(st.integers(-n, n - 1), min_size=2, max_size=2).map(np.array)
        entry = st.integers(-n, n - 1) | st.builds(slice, PARTS, PARTS, step) | array
        entries += [None] * draw(st.integers(0, 1))
        entries.append(draw(entry))
    if ... not in [each for each in entries if not isinstance(each, np.ndarray)]:
        entries += [...] * draw(st.integers(0, 1))
    return shape, tuple(entries)


@given(indices())
def test_shapes_are_those_that_numpy_picks(case: tuple[tuple[int, ...], tuple[Any, ...]]) -> None:
    shape, entries = case
    arrays = [each for each in entries if isinstance(each, np.ndarray)]
    index = canonical_index(
        tuple(ARRAY if isinstance(each, np.ndarray) else each for each in entries)
    )
    expected = np.empty(shape)[entries].shape
    assert select(index, shape, [each.shape for each in arrays]).shape == expected


@pytest.mark.parametrize(
    "index",
    [
        Index(()),
        Index((0, -(2**63), 2**63 - 1)),
        Index((None, Ellipsis, ARRAY)),
        Index((Slice(), Slice(0), Slice(0, -1, -2), Slice(step=5))),
    ],
)
def test_an_index_travels_as_it_is(index: Index) -> None:
    sent = codec.attribute_message("index", index).SerializeToString()
    received = codec.read_attributes([graph_pb2.Attribute.FromString(sent)])
    assert received == (("index", index),)
    assert isinstance(received[0][1], Index)


def test_entries_of_another_version_are_refused() -> None:
    for item in (graph_pb2.IndexItem(), graph_pb2.IndexItem(mark=99)):  # type: ignore[arg-type]
        sent = graph_pb2.Attribute(name="index", index_value=graph_pb2.Index(items=[item]))
        with pytest.raises(InvalidArgument) as error:
            codec.read_attributes([sent])
        assert error.value.reason == "INVALID_ATTRIBUTE"
