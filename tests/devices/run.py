"""Run the tests that need a GPU, and leave a report of what they ran on: ``make test-gpu``.

Its status is 0 when all passed, 1 when one did not, and 2 when there is no GPU: then nothing was run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backhaul_proto._version import __version__
from backhaul_proto.errors import BackhaulError
from backhaul_server.accelerators import Accelerator, open_accelerator

DEVICE = os.environ.get("BACKHAUL_TEST_DEVICE", "cuda:0")
NOTHING_RUN = 2
MOVED = 256 << 20


class Outcomes:
    """A plugin of pytest that takes down how tests ended.

    Attributes:
        counts: how many ended so.
        failed: names of those that did not pass.
    """

    def __init__(self) -> None:
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] += 1
            if report.failed:
                self.failed.append(report.nodeid)


def main(words: list[str]) -> int:
    """Run, and write the report; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.devices.run", description=__doc__)
    parser.add_argument("--report", type=Path, default=Path("build/gpu-report.json"))
    given, pytest_args = parser.parse_known_args(words)
    report: dict[str, Any] = {
        "backhaul": __version__,
        "device": DEVICE,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "numpy": np.__version__,
    }
    try:
        opened = open_accelerator(DEVICE)
    except BackhaulError as error:
        report |= {"model": None, "why": str(error), "passed": 0, "failed": 0, "skipped": 0}
        _write(given.report, report)
        print(f"No GPU, so nothing was run: {error}", file=sys.stderr)
        return NOTHING_RUN
    report |= _facts(opened)
    outcomes = Outcomes()
    began = time.perf_counter()
    tests = str(Path(__file__).parents[1])
    status = pytest.main(["-m", "gpu", "-n", "0", tests, *pytest_args], plugins=[outcomes])
    report |= {"seconds": round(time.perf_counter() - began, 1), **outcomes.counts}
    report["failures"] = outcomes.failed
    report["figures"] = _figures(opened)
    _write(given.report, report)
    print(f"{opened.name} ({opened.model}): {outcomes.counts['passed']} passed, ", end="")
    print(f"{outcomes.counts['failed']} failed; see {given.report}")
    return 0 if status == pytest.ExitCode.OK and outcomes.counts["passed"] else 1


def _facts(opened: Accelerator) -> dict[str, Any]:
    """What the tests run on."""
    import cupy

    runtime = cupy.cuda.runtime
    return {
        "model": opened.model,
        "memory_for_sessions": opened.memory,
        "cupy": cupy.__version__,
        "cuda_driver": runtime.driverGetVersion(),
        "cuda_runtime": runtime.runtimeGetVersion(),
        "accelerators": os.environ.get("CUPY_ACCELERATORS", "CuPy's default"),
        "devices": runtime.getDeviceCount(),
    }


def _figures(opened: Accelerator) -> dict[str, float]:
    """How fast arrays go there and back through the staging buffers, in GB/s: the best of five."""
    xp, lane = opened.xp, opened.xp.lane()
    assert lane is not None
    x = np.ones(MOVED, np.uint8)
    there, back = [], []
    for _ in range(5):
        began = time.perf_counter()
        with lane.around(nullcontext()):
            moved = xp.from_host(x)
        there.append(time.perf_counter() - began)
        began = time.perf_counter()
        with lane.around(nullcontext()):
            xp.to_host(moved)
        back.append(time.perf_counter() - began)
    return {
        "to_device_gb_per_s": round(MOVED / min(there) / 1e9, 2),
        "to_host_gb_per_s": round(MOVED / min(back) / 1e9, 2),
    }


def _write(path: Path, report: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
