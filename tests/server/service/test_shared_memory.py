"""Segments of shared memory, and who may use them."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import backhaul as bh
from backhaul_proto.shared import MIN_BYTES, Place, SharedArray, aligned
from backhaul_server.service.shared_memory import SEGMENTS_OF_ONE, Segment, Segments

MB = 1 << 20
OWNER = object()
FLOAT = np.dtype("float64")


@contextmanager
def allocated(segments: Segments, nbytes: int = MB) -> Iterator[tuple[Segment, int]]:
    segment, _, descriptor = segments.allocate(OWNER, nbytes)
    try:
        yield segment, descriptor
    finally:
        os.close(descriptor)


def shared(segment: bytes, offset: int, *shape: int) -> tuple[str, SharedArray]:
    nbytes = 8 * int(np.prod(shape))
    return "tensor 0", SharedArray(Place(segment, offset, nbytes), FLOAT, shape)


def reason_of(call: Callable[[], object]) -> str:
    with pytest.raises(bh.BackhaulError) as error:
        call()
    return error.value.reason


def enter(segments: Segments, principal: str, *named: tuple[str, SharedArray]) -> None:
    with segments.request(principal, named, []):
        pass


def test_the_nonce_stands_at_the_start_of_what_both_ends_map() -> None:
    segments = Segments(8 * MB)
    segment, nonce, descriptor = segments.allocate(OWNER, MB)
    with mmap.mmap(descriptor, MB) as theirs:
        os.close(descriptor)
        assert theirs[:16] == nonce
        assert len(set(nonce)) > 1
        theirs[64:72] = np.float64(2.5).tobytes()
        with segments.request("", [shared(segment.id, 64, 1)], []) as lent:
            array = lent.read(shared(segment.id, 64, 1)[1], "")
        theirs[64:72] = bytes(8)
        np.testing.assert_array_equal(array, [2.5])  # it was copied out
        assert array.flags.aligned


def test_a_client_can_neither_cut_nor_grow_nor_seal_it() -> None:
    segments = Segments(8 * MB)
    with allocated(segments) as (segment, descriptor):
        for change in (
            lambda: os.ftruncate(descriptor, 4096),
            lambda: os.ftruncate(descriptor, 2 * MB),
            lambda: fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE),
        ):
            with pytest.raises(PermissionError) as refused:
                change()
            assert refused.value.errno == errno.EPERM
        assert os.fstat(descriptor).st_size == segment.nbytes


def test_a_segment_is_the_principals_who_named_it_first() -> None:
    segments = Segments(8 * MB)
    with allocated(segments) as (segment, _):
        named = shared(segment.id, 0, 2)
        wrong = shared(segment.id, 8, 2)
        assert reason_of(lambda: enter(segments, "eve", wrong)) == "SEGMENT_RANGE"
        enter(segments, "ann", named)  # a refused request bound nothing
        enter(segments, "ann", named)
        errors = []
        for principal, name in (("eve", segment.id), ("", segment.id), ("eve", b"unknown")):
            with pytest.raises(bh.InvalidArgument) as error:
                enter(segments, principal, shared(name, 0, 2))
            errors.append(str(error.value))
        assert len(set(errors)) == 1
        assert "SEGMENT_UNKNOWN" in errors[0]
        enter(segments, "ann", named)


def test_a_freed_segment_stays_until_the_request_that_uses_it_ends() -> None:
    segments = Segments(8 * MB)
    with allocated(segments) as (segment, _):
        segment.memory[64:72] = np.frombuffer(np.float64(7).tobytes(), np.uint8)
        named = shared(segment.id, 64, 1)
        with segments.request("", [named], []) as lent:
            segments.free_all(OWNER)
            assert segments.nbytes == MB
            assert reason_of(lambda: enter(segments, "", named)) == "SEGMENT_UNKNOWN"
            np.testing.assert_array_equal(lent.read(named[1], ""), [7.0])
        assert segments.nbytes == 0
        assert segments.count(OWNER) == 0


def test_only_the_owner_frees_a_segment() -> None:
    segments = Segments(8 * MB)
    with allocated(segments) as (segment, _):
        segments.free(object(), segment.id)
        assert segments.count(OWNER) == 1
        segments.free(OWNER, segment.id)
        segments.free(OWNER, segment.id)
        assert segments.count(OWNER) == 0


def test_bytes_and_segments_are_limited_for_one_and_for_all() -> None:
    segments = Segments(8 * MB)
    refused = "QUOTA_EXCEEDED"
    assert reason_of(lambda: segments.allocate("one", 5 * MB)) == refused
    held = [segments.allocate("one", 4 * MB), segments.allocate("two", 3 * MB)]
    assert reason_of(lambda: segments.allocate("one", 4096)) == refused
    assert reason_of(lambda: segments.allocate("three", 2 * MB)) == refused
    held.append(segments.allocate("three", MB))
    segments.free_all("one")
    held += [segments.allocate("four", 4096) for _ in range(SEGMENTS_OF_ONE)]
    assert reason_of(lambda: segments.allocate("four", 4096)) == refused
    for _, _, descriptor in held:
        os.close(descriptor)


@pytest.mark.parametrize("nbytes", [0, -4096, 100, 4097])
def test_a_size_that_is_no_multiple_of_a_page_is_refused(nbytes: int) -> None:
    segments = Segments(8 * MB)
    assert reason_of(lambda: segments.allocate(OWNER, nbytes)) == "MALFORMED_REQUEST"
    assert segments.nbytes == 0


def test_without_memory_to_share_every_segment_is_refused() -> None:
    assert reason_of(lambda: Segments(0).allocate(OWNER, 4096)) == "QUOTA_EXCEEDED"


def test_answers_go_to_the_buffers_as_far_as_they_are_large_and_have_room() -> None:
    segments = Segments(8 * MB)
    rng = np.random.default_rng(0)
    small = rng.standard_normal(MIN_BYTES // 8 - 1)
    large = rng.standard_normal((100, MIN_BYTES // 800 + 1)).T  # not in C order
    logical = rng.standard_normal(MIN_BYTES + 1) > 0
    with allocated(segments) as (segment, _):
        before = segment.memory.copy()
        buffers = [Place(segment.id, 128, 2 * MIN_BYTES + 4096)]
        with segments.request("", [], buffers) as lent:
            sent = lent.put([small, large, logical, large])
        assert sent[0] is small
        assert sent[3] is large  # no room
        ends = [128]
        for array, found in zip((large, logical), sent[1:3], strict=True):
            assert isinstance(found, SharedArray)
            place = found.place
            assert place.offset == aligned(ends[-1])
            ends.append(place.end)
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            assert segment.memory[place.offset : place.end].tobytes() == array.tobytes()
        np.testing.assert_array_equal(segment.memory[ends[-1] :], before[ends[-1] :])
        np.testing.assert_array_equal(segment.memory[:128], before[:128])
