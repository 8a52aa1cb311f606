"""Adapters are imported when they are asked for, and say what is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

import backhaul as bh
from backhaul.adapters.libraries import library

_LIBRARIES = ("jax", "torch", "pytensor", "pymc", "autoray", "quimb", "cotengra")


def test_backhaul_alone_imports_no_other_library() -> None:
    program = (
        "import sys, backhaul as bh\n"
        "bh.adapters.scipy.objective(lambda x: bh.sum(x * x)).fun([1.0])\n"
        f"print([name for name in {_LIBRARIES!r} if name in sys.modules], 'scipy.optimize' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[] False"


def test_a_missing_library_names_its_extra() -> None:
    with pytest.raises(bh.MissingLibrary, match=r"pip install 'backhaul\[jax\]'") as found:
        library("no_such_library.of_ours", extra="jax")
    assert found.value.reason == "LIBRARY_MISSING"
    assert found.value.details == {"library": "no_such_library", "extra": "jax"}
    assert isinstance(found.value, ImportError)


def test_a_library_that_is_broken_says_so_itself() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"numpy\.no_such_module"):
        library("numpy.no_such_module", extra="jax")


def test_a_module_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "backhaul.adapters.torch", raising=False)
    monkeypatch.delitem(vars(bh.adapters), "torch", raising=False)
    with pytest.raises(bh.MissingLibrary, match=r"backhaul\[torch\]"):
        _ = bh.adapters.torch


def test_there_is_no_other_adapter() -> None:
    assert "scipy" in dir(bh.adapters)
    assert all(hasattr(bh.adapters, name) for name in dir(bh.adapters))
    with pytest.raises(AttributeError, match="no attribute 'tensorflow'"):
        _ = bh.adapters.tensorflow
