"""Freed memory is kept for the next arrays, in all threads, until it is given back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from backhaul_server import allocator

_PROBE = """
import resource, threading
import numpy as np
from backhaul_server.allocator import give_back, keep_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()

def again():
    np.ones(SIZE)
    before = faults()
    np.ones(SIZE)
    found.append(faults() - before)

SIZE, found = (100 << 20) // 8, []
if KEEP:
    assert keep_memory()
thread = threading.Thread(target=again)
thread.start()
thread.join()
kept = resident()
give_back()
print(found[0], kept - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
@pytest.mark.parametrize("keep", [True, False])
def test_an_array_after_another_takes_no_fresh_pages(keep: bool) -> None:
    probe = _PROBE.replace("KEEP", str(keep))
    printed = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True).stdout
    fresh, given_back = map(int, printed.split())
    if keep:
        assert fresh < 20
        assert given_back > 90 << 20
    else:
        assert fresh >= 50  # of 2 MB each at least
        assert given_back < 10 << 20


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allocator.keep_memory()
    allocator.give_back()
