"""Regions of shared memory: never two arrays in one place, and all of it back in the end."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backhaul.transport.regions import (
    KEPT_IDLE_SECONDS,
    SMALLEST_SEGMENT,
    Pool,
    Region,
    Segment,
    gaps,
    region_of,
)
from backhaul_proto.shared import ALIGNMENT, Place, aligned

KB = 1 << 10
FLOAT = np.dtype("float64")


def segment(nbytes: int) -> Segment:
    descriptor = os.memfd_create("test")
    try:
        os.ftruncate(descriptor, nbytes)
        return Segment(b"s" * 16, descriptor, nbytes)
    finally:
        os.close(descriptor)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool()
    made.segments.append(segment(64 * KB))
    yield made
    gc.collect()
    made.take_back()
    assert all(each.is_free for each in made.segments)


@given(st.lists(st.tuples(st.integers(1, 9000), st.integers(0, 5)), max_size=60))
def test_what_is_taken_never_overlaps_and_comes_back_whole(steps: list[tuple[int, int]]) -> None:
    of = segment(64 * KB)
    taken: list[tuple[int, int]] = []
    for nbytes, drop in steps:
        start = of.take(nbytes)
        if start is not None:
            assert start % ALIGNMENT == 0
            assert start + nbytes <= of.nbytes
            assert all(start >= s + n or s >= start + nbytes for s, n in taken)
            taken.append((start, nbytes))
        else:
            assert all(end - first < aligned(nbytes) for first, end in of.free)
        if drop < len(taken):
            of.give(*taken.pop(drop))
    for each in taken:
        of.give(*each)
    assert of.is_free


def test_a_region_is_its_arrays_until_the_last_view_is_gone(pool: Pool) -> None:
    region = pool.take(80, 0.0)
    assert region is not None
    array = region.array(FLOAT, (2, 5))
    array[:] = np.arange(10.0).reshape(2, 5)
    view = array[1, 1:3].T
    del region, array
    pool.take_back()
    other = pool.take(80, 0.0)
    assert other is not None
    other.array(FLOAT, (10,))[:] = -1.0
    np.testing.assert_array_equal(view, [6.0, 7.0])
    del view
    again = pool.take(80, 0.0)
    assert again is not None
    assert again.start == 0


def test_only_the_whole_array_of_a_region_is_sent_as_it(pool: Pool) -> None:
    region = pool.take(96, 0.0)
    assert region is not None
    array = region.array(FLOAT, (3, 4))
    assert region_of(array) is region
    views = (array.T, array[::-1], array[1:], array[:, :2])
    for other in (*views, array.copy(), np.ones((3, 4))):
        assert region_of(other) is None
    pool.retire(set(pool.segments))
    assert region_of(array) is None


def test_parts_of_a_region_leave_what_is_beside_them() -> None:
    room = Place(b"s", 128, 1000)
    parts = [Place(b"s", 128, 100), Place(b"s", 384, 64), Place(b"s", 448, 1)]
    assert list(gaps(room, parts)) == [(256, 128), (512, 640)]
    assert list(gaps(room, [])) == [(128, 1024)]
    assert list(gaps(room, [Place(b"s", 128, 1000)])) == []


def test_bytes_of_the_caller_are_counted_until_his_array_is_gone(pool: Pool) -> None:
    room = pool.take(1024, 0.0)
    assert room is not None
    place = Place(b"s" * 16, 64, 800)
    part = pool.cut(room.segment, place)
    array = part.array(FLOAT, (100,))
    del part
    assert pool.of_caller == 800
    room.nbytes = 0
    pool.returned.extend(
        (room.segment, start, n, False) for start, n in gaps(Place(b"s", 0, 1024), [place])
    )
    pool.take_back()
    assert pool.of_caller == 800
    del array
    pool.take_back()
    assert pool.of_caller == 0


def test_segments_are_powers_of_two_and_grow_with_the_pool() -> None:
    pool = Pool()
    most = 1 << 40
    assert pool.size_for(1, most) == SMALLEST_SEGMENT
    assert pool.size_for(SMALLEST_SEGMENT + 1, most) == 2 * SMALLEST_SEGMENT
    pool.segments += [segment(SMALLEST_SEGMENT) for _ in range(5)]
    assert pool.size_for(1, most) == 2 * SMALLEST_SEGMENT
    # Where a power of two is too much: whole pages.
    assert (
        pool.size_for(SMALLEST_SEGMENT + 1, 6 * SMALLEST_SEGMENT + 4096) == SMALLEST_SEGMENT + 4096
    )


def test_only_segments_without_a_region_become_idle(pool: Pool) -> None:
    later = KEPT_IDLE_SECONDS + 1.0
    pool.segments.append(segment(64 * KB))
    kept = pool.take(64, 0.0)
    assert isinstance(kept, Region)
    assert pool.idle(KEPT_IDLE_SECONDS) == set()
    assert pool.idle(later) == {pool.segments[1]}
