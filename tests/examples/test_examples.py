"""The examples do what they say, against a server, and as programs as their first lines show."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_matrix_product_state_learns_its_data(target: str) -> None:
    found = load("matrix_product_state").fit(target)
    assert found.losses[0] > 4
    assert 0 <= found.losses[-1] - np.log(8) < 1e-4
    np.testing.assert_allclose(found.probabilities, np.full(8, 1 / 8), rtol=1e-2)


def test_laplace_is_the_approximation_by_the_whole_hessian(target: str) -> None:
    laplace = load("laplace")
    found = laplace.approximate(target)
    inputs, labels, _ = laplace.data()
    margin = labels * (inputs @ found.mode)
    p = 1 / (1 + np.exp(margin))
    gradient = -inputs.T @ (labels * p) + laplace.PRIOR * found.mode
    hessian = (inputs.T * (p * (1 - p))) @ inputs + laplace.PRIOR * np.eye(laplace.FEATURES)
    np.testing.assert_allclose(gradient, 0, atol=1e-8)
    np.testing.assert_allclose(
        found.deviations, np.sqrt(np.diag(np.linalg.inv(hessian))), rtol=1e-9
    )
    prior = (
        -laplace.FEATURES / 2 * np.log(2 * np.pi / laplace.PRIOR)
        - laplace.PRIOR / 2 * found.mode @ found.mode
    )
    joint = -np.logaddexp(0, -margin).sum() + prior
    volume = laplace.FEATURES / 2 * np.log(2 * np.pi) - np.linalg.slogdet(hessian)[1] / 2
    np.testing.assert_allclose(found.log_evidence, joint + volume, rtol=1e-12)


def test_an_example_runs_as_its_first_lines_show() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "laplace.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "log evidence" in done.stdout
    assert not done.stderr
