"""Arrays beyond what a message of gRPC holds: up as a leaf and back as a value, in little more memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.server_process import serving

import backhaul as bh

GB = 10**9

CLIENT = """
import resource, sys
import numpy as np
import backhaul as bh

target, count = sys.argv[1], int(sys.argv[2])
array = np.arange(count, dtype=np.float64)
with bh.connect(target, timeout=600) as connection, bh.Tape(connection) as tape:
    bh.sum(tape.leaf(1.0)).numpy()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    x = tape.leaf(array)
    tape._core.flush()
    sent = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    expected = array.view(np.uint8)
    del array
    y = bh.reshape(x, (-1, 8))
    value = y.numpy()
    assert np.array_equal(value.reshape(-1).view(np.uint8), expected)
    received = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert connection.calls["ExecuteStream"] == 2, connection.calls
print(sent - before, received - before)
"""


def available() -> int:
    """Bytes of memory that can be had."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def peak(process: int) -> int:
    """Most bytes that were resident."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def need(nbytes: int) -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("memory is read from /proc, which is not here")
    if available() < nbytes:
        pytest.skip(f"needs {nbytes / GB:.0f} GB of free memory, {available() / GB:.1f} are there")


@pytest.mark.slow
@pytest.mark.parametrize("nbytes", [GB // 5, 3 * GB])
def test_a_large_array_goes_up_and_comes_back(nbytes: int) -> None:
    need(5 * nbytes)
    count = nbytes // 64 * 8
    with serving(
        "--session-memory",
        "8GB",
        "--memory-limit",
        "8GB",
        "--no-keep-memory",
        "--max-message-bytes",
        "65536",
    ) as server:
        with bh.connect(server.target, timeout=60) as connection:
            connection.ping()
        before = peak(server.process.pid)
        client = subprocess.run(
            [sys.executable, "-c", CLIENT, server.target, str(count)],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert client.returncode == 0, client.stderr
        sent, received = map(int, client.stdout.split())
        assert sent < 1.3 * nbytes  # the tape's copy of the array, and a few chunks
        assert received < 2.2 * nbytes
        assert peak(server.process.pid) - before < 1.3 * nbytes


@pytest.mark.slow
def test_an_array_above_2_gib_in_this_process() -> None:
    nbytes = 2**31 + 64
    need(4 * nbytes)
    array = np.ones(nbytes, np.int8)
    array[-1] = 7
    with bh.connect("embedded") as connection, bh.Tape(connection, memory_limit=2 * nbytes) as tape:
        back = bh.reshape(tape.constant(array), (-1, 64)).numpy()
    assert back[-1, -1] == 7
    assert back.nbytes == nbytes
