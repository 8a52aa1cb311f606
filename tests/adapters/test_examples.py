"""The examples that use adapters, run as they stand against a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_EXAMPLES = Path(__file__).parents[2] / "examples"


def _run(name: str, target: str) -> str:
    done = subprocess.run(
        [sys.executable, str(_EXAMPLES / name)],
        env={**os.environ, "BACKHAUL_TARGET": target},
        check=True,
        capture_output=True,
        text=True,
        timeout=900,
    )
    return done.stdout


def test_newton_logistic(target: str) -> None:
    printed = _run("newton_logistic.py", target)
    gradient = re.search(r"\|gradient\| (\S+)", printed)
    assert gradient is not None
    assert float(gradient[1]) < 1e-6
    right = re.search(r"([\d.]+)% of the rows", printed)
    assert right is not None
    assert float(right[1]) > 90.0


def test_train_torch(target: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed: make adapters-test")
    losses = [float(each) for each in re.findall(r"loss (\S+)", _run("train_torch.py", target))]
    assert len(losses) == 5
    assert losses[-1] < 0.2 * losses[0]


def test_bayes_pymc(target: str) -> None:
    pytest.importorskip("pymc", reason="PyMC is not installed: make adapters-test")
    noise = re.search(r"noise (\S+) ± (\S+)", _run("bayes_pymc.py", target))
    assert noise is not None
    assert abs(float(noise[1]) - 0.1) < 4 * float(noise[2])
