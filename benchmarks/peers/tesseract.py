"""Tesseract: its API served by its own runtime as a process beside, over HTTP; no container in between.

The value is ``apply``'s, the gradients ``vector_jacobian_product``'s. Arrays travel as base64, or (binref)
as files of a folder in memory, with its pool of mapped buffers. ``one call``: gradients are outputs too.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.peers.job import Answer, Array, Ask

_MEMORY: Final = "/dev/shm"


@contextmanager
def connected(variant: str, n: int, port: int) -> Iterator[Ask]:
    sdk: Any = importlib.import_module("tesseract_core")
    with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
        inputs, outputs = Path(folder, "in"), Path(folder, "out")
        inputs.mkdir()
        outputs.mkdir()
        binref = variant.startswith("binref")
        served = sdk.Tesseract.from_source(
            Path(__file__).parent / "tesseract_api.py",
            input_path=inputs,
            output_path=outputs,
            output_format="json+binref" if binref else "json+base64",
            runtime_config={"debug": False},
            python_executable=sys.executable,
            experimental_binref_pool=binref,
        )
        with served:
            one = np.array(1.0)

            def ask(a: Array, b: Array) -> Answer:
                given = {"a": a, "b": b, "with_gradients": False}
                value = served.apply(given)["loss"]
                gradients = served.vector_jacobian_product(
                    given, ["a", "b"], ["loss"], {"loss": one}
                )
                return float(value), gradients["a"], gradients["b"]

            def ask_once(a: Array, b: Array) -> Answer:
                found = served.apply({"a": a, "b": b, "with_gradients": True})
                return float(found["loss"]), *found["gradients"]

            yield ask_once if variant.endswith("one call") else ask
