"""Sets of a batch that failed while others did not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from backhaul.functional.tapes import Watched
from backhaul.handle import Handle
from backhaul_proto.errors import AutodiffError

Array = np.ndarray[Any, Any]


def failed_sets(
    tape: Watched[Any], results: Sequence[Iterable[Any]], error: AutodiffError, *, nan: bool
) -> set[int]:
    """The positions of the sets of which a step failed.

    Args:
        tape: where they were recorded.
        results: the tensors that were asked for, by set.
        error: what the question was answered by.
        nan: whether the others are to be had all the same.

    Raises:
        AutodiffError: the error, which says which set it is of; or that of no set, as it is.
    """
    reason = tape._core.failures.reason
    failed = [
        i
        for i, each in enumerate(results)
        if any(isinstance(x, Handle) and reason(x._id) is not None for x in each)
    ]
    if failed and nan:
        return set(failed)
    if failed:
        error.message = f"set {failed[0]}: {error.message}"
        error.details["set"] = str(failed[0])
    raise error


def nan_like(tensor: Any) -> Array:
    """NaN in the shape and dtype of a tensor."""
    return np.full(tensor.shape, np.nan, tensor.dtype)
