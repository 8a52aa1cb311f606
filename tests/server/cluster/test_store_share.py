"""What a worker's tapes keep of the object store."""

from __future__ import annotations

import numpy as np

from backhaul_server.cluster.store_share import LARGE, StoreShare


def arrays(*sizes: int) -> list[np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    """Read-only ones, of memory that they do not own, as they come."""
    return [np.frombuffer(bytes(size), np.uint8) for size in sizes]


def test_large_arrays_are_kept_as_they_came_and_small_ones_copied() -> None:
    share = StoreShare(4 * LARGE)
    came = arrays(LARGE, 10)
    kept = share.admit(came)
    assert kept[0] is came[0]
    assert not np.shares_memory(kept[1], came[1])
    assert share.used == LARGE


def test_what_has_no_room_is_copied() -> None:
    share = StoreShare(2 * LARGE)
    first = share.admit(arrays(LARGE))
    came = arrays(2 * LARGE)
    (copy,) = share.admit(came)
    assert not np.shares_memory(copy, came[0])
    np.testing.assert_array_equal(copy, came[0])
    assert share.used == first[0].nbytes


def test_room_is_given_back_when_the_last_view_of_a_requests_arrays_is_gone() -> None:
    share = StoreShare(4 * LARGE)
    one, other = share.admit(arrays(LARGE, LARGE))
    view = one[5:9]
    del one
    assert share.used == 2 * LARGE
    del other
    assert share.used == 2 * LARGE
    del view
    assert share.used == 0
