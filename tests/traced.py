"""Bytes that a job allocates, NumPy's arrays among them, as the interpreter traces them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple


class Traced(NamedTuple):
    """Bytes at the peak of a job, its answer included, and bytes that stay while that is held."""

    peak: int
    stays: int


def traced(job: Callable[[], Any]) -> Traced:
    """What a job allocates. What it makes the first time counts too: run it before, where it should not."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        answer = job()
        after, peak = tracemalloc.get_traced_memory()
        del answer
    finally:
        tracemalloc.stop()
    return Traced(peak - before, after - before)
