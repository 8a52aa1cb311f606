"""The tensor networks of a folder, with what contracting them along their file's path costs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from backhaul.demo import Network, load

Array = np.ndarray[Any, Any]

SEED: Final = 20261201
# Multiply-adds per element read or written: the least of the networks that the goals call compute-bound.
_INTENSE: Final = 6.0
_ITEM: Final = 8  # bytes of a float64
_ROOM: Final = 1 << 30
# Arrays as large as all intermediates together that a question keeps at once: residuals and, in part,
# cotangents; with tangents twice as many.
_KEPT: Final = {"forward": 0.5, "gradient": 1.5, "hvp": 3.0}


@dataclass(frozen=True, slots=True)
class Instance:
    """A network and the costs of its file's path.

    Attributes:
        file: where it stands.
        network: its expression, shapes and path.
        log_summed: logarithm of the number of terms of the sum; the number itself may be no float.
        multiply_adds: of the value.
        touched: elements read and written by all steps.
        intermediates: elements of all steps' results.
    """

    file: Path
    network: Network
    log_summed: float
    multiply_adds: int
    touched: int
    intermediates: int

    @property
    def matmul_bound(self) -> bool:
        """Whether arithmetic, rather than memory, is most of the work."""
        return self.multiply_adds >= _INTENSE * self.touched

    @property
    def is_small(self) -> bool:
        """Whether it takes milliseconds."""
        return self.multiply_adds <= 2e7 and self.touched <= 2e6

    def bytes_needed(self, question: str) -> int:
        """About the memory that answering takes at its peak."""
        return int(_KEPT[question] * self.intermediates * _ITEM) + _ROOM

    def data(self) -> tuple[list[Array], list[Array]]:
        """Operands, scaled so that the result is of the order of one, and tangents.

        They are the same in each process.
        """
        rng = np.random.default_rng(SEED)
        scale = math.exp(-0.5 * self.log_summed / len(self.network.shapes))
        operands = [scale * rng.standard_normal(shape) for shape in self.network.shapes]
        return operands, [np.asarray(rng.standard_normal(x.shape)) for x in operands]


def instances_folder(given: Path | None) -> Path | None:
    """The folder named, or the one beside the corpus; None when there is none."""
    if given is None:
        corpus = os.environ.get("BACKHAUL_CORPUS")
        if corpus is None:
            return None
        given = Path(corpus).parent / "instances"
    return given if given.is_dir() else None


def find(folder: Path) -> list[Instance]:
    """All networks of a folder that give a path, from the cheapest on."""
    files = [
        file for file in sorted(folder.glob("*.json")) if "shapes" in json.loads(file.read_text())
    ]
    return sorted(map(read, files), key=lambda each: each.multiply_adds)


def read(file: Path) -> Instance:
    """A network with its costs."""
    network = load(file)
    inputs, _, output = network.subscripts.partition("->")
    sizes: dict[str, int] = {}
    for term, shape in zip(inputs.split(","), network.shapes, strict=True):
        sizes.update(zip(term, shape, strict=True))

    def elements(labels: frozenset[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    terms = [frozenset(term) for term in inputs.split(",")]
    multiply_adds = touched = intermediates = 0
    for step in network.path or _one_step(terms):
        operands = [terms[position] for position in step]
        terms = [term for position, term in enumerate(terms) if position not in step]
        every = frozenset[str]().union(*operands)
        result = every & frozenset(output).union(*terms)
        terms.append(result)
        multiply_adds += elements(every)
        touched += sum(map(elements, operands)) + elements(result)
        intermediates += elements(result)
    log_summed = sum(math.log(size) for label, size in sizes.items() if label not in output)
    return Instance(file, network, log_summed, multiply_adds, touched, intermediates)


def _one_step(terms: Sequence[frozenset[str]]) -> list[tuple[int, ...]]:
    return [tuple(range(len(terms)))]
