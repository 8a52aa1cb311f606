"""The numbers that generated tests try ops on: drawn as the catalog's samples say, the same every time."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from backhaul_proto.catalog.avals import INEXACT
from backhaul_proto.catalog.ops import CATALOG, Domain, Op, Sample

Array = np.ndarray[Any, Any]


def cases(*, private: bool = True, differentiable: bool = False) -> Iterator[Any]:
    """(entry, sample, dtype) of all ops, as parameters of a test.

    Args:
        private: helper ops too.
        differentiable: only those whose derivatives can be compared as they stand.
    """
    for entry in CATALOG.values():
        if (entry.private and not private) or (differentiable and not _has_derivatives(entry)):
            continue
        for i, sample in enumerate(entry.samples):
            for dtype in INEXACT:
                if dtype.kind in entry.kinds and dtype.kind in sample.kinds:
                    yield pytest.param(entry, sample, dtype, id=f"{entry.name}-{i}-{dtype}")


def _has_derivatives(entry: Op) -> bool:
    return entry.differentiable and not entry.gauge


@dataclass(frozen=True, slots=True)
class Drawn:
    """Operands of an op with a direction for each; None for one that is a constant."""

    rng: np.random.Generator
    operands: list[Array]
    directions: list[Array | None]

    def again(self, sample: Sample) -> list[Array | None]:
        """Other directions of the same kind."""
        return [
            None if d is None else _direction(self.rng, d.shape, d.dtype, domain)
            for d, domain in zip(self.directions, domains(sample), strict=True)
        ]


def draw(entry: Op, sample: Sample, dtype: np.dtype[Any]) -> Drawn:
    """Operands and directions for a sample."""
    seed = zlib.crc32(f"{entry.name} {sample.shapes} {sample.attributes} {dtype}".encode())
    rng = np.random.default_rng(seed)
    operands: list[Array] = []
    directions: list[Array | None] = []
    for i, (shape, domain) in enumerate(zip(sample.shapes, domains(sample), strict=True)):
        if i in sample.constants:
            operands.append(np.asarray(sample.constants[i]).reshape(shape))
            directions.append(None)
        else:
            operands.append(_operand(rng, shape, dtype, domain))
            directions.append(_direction(rng, shape, dtype, domain))
    return Drawn(rng, operands, directions)


def domains(sample: Sample) -> tuple[Domain, ...]:
    """The domain of each operand."""
    if isinstance(sample.domain, tuple):
        return sample.domain
    return (sample.domain,) * len(sample.shapes)


def normal(rng: np.random.Generator, shape: Sequence[int], dtype: Any) -> Array:
    """Normal numbers, complex ones for a complex dtype."""
    x = rng.standard_normal(tuple(shape))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(tuple(shape))
    return np.asarray(x).astype(dtype)


def _operand(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any], domain: Domain
) -> Array:
    x: Any = normal(rng, shape, dtype)
    match domain:
        case "positive":
            x = np.abs(x) + 0.5
        case "nonzero":
            x = x + 0.3 * np.where(x == 0, 1, x / np.where(x == 0, 1, np.abs(x)))
        case "unit":
            x = 0.9 * x / (1 + np.abs(x))
        case "above_one":
            x = np.abs(x) + 1.2
        case "distinct":
            x = (rng.permutation(x.size).reshape(x.shape) - x.size / 2 + 0.3) / 2
            x = x + 0.25j * rng.uniform(-1, 1, x.shape) if dtype.kind == "c" else x
        case "hermitian":
            x = (x + x.conj().mT) / 2 + np.diag(2.0 * np.arange(x.shape[-1]))
        case "positive_definite":
            x = x @ x.conj().mT + x.shape[-1] * np.eye(x.shape[-1])
        case "well_conditioned":
            x = x + 3 * np.eye(*x.shape[-2:])
        case "lower_triangular":
            x = np.tril(x) + 3 * np.eye(x.shape[-1])
        case "upper_triangular":
            x = np.triu(x) + 3 * np.eye(x.shape[-1])
        case "any":
            pass
    return np.asarray(x).astype(dtype)


def _direction(
    rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any], domain: Domain
) -> Array:
    x = normal(rng, shape, dtype)
    match domain:
        case "hermitian" | "positive_definite":
            return np.asarray((x + x.conj().mT) / 2).astype(dtype)
        case "lower_triangular":
            return np.tril(x)
        case "upper_triangular":
            return np.triu(x)
        case _:
            return x
