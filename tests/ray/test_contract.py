"""The contract suite and the corpus through two front ends of workers on two nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.ray.clusters import Nodes, nodes

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def two() -> Iterator[Nodes]:
    with nodes(1, 1) as made:
        yield made


@pytest.mark.parametrize("suite", ["contract", "corpus"])
def test_a_suite_passes_through_ray(two: Nodes, suite: str) -> None:
    fronts = [two.front(), two.front()]
    found = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
            *(word for each in fronts for word in ("--target", each.target)),
            str(ROOT / "tests" / suite),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    print(found.stdout[-4000:])
    assert found.returncode == 0, found.stdout[-4000:]
    assert "passed" in found.stdout
