"""Operands of an op, drawn from the domains that its entry's samples name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from backhaul_proto.catalog.ops import Domain, Op, Sample

Array = np.ndarray[Any, Any]


def first_sample(op: Op) -> Sample:
    """The entry's first sample that is of real numbers and not empty."""
    able = [s for s in op.samples if not any(0 in shape for shape in s.shapes) and "f" in s.kinds]
    return (able or op.samples)[0]


def resized(sample: Sample, shape: tuple[int, ...]) -> Sample:
    """The sample with operands of one shape, as ops on each element take them."""
    return replace(sample, shapes=(shape,) * len(sample.shapes), constants={})


def draw(op: Op, sample: Sample) -> list[Array]:
    """Operands of float64; integers for ops that take none."""
    rng = np.random.default_rng(3)
    domain = sample.domain
    domains = domain if isinstance(domain, tuple) else (domain,) * len(sample.shapes)
    drawn: list[Array] = []
    for i, (shape, each) in enumerate(zip(sample.shapes, domains, strict=True)):
        if i in sample.constants:
            drawn.append(np.asarray(sample.constants[i]).reshape(shape))
        elif "f" not in op.kinds:
            bits = rng.integers(0, 9, shape)
            drawn.append(bits > 4 if op.kinds == "b" else bits)
        else:
            drawn.append(np.asarray(_numbers(rng, shape, each), dtype=np.float64))
    if op.name == "clip":  # bounds in their order
        drawn[1:] = [np.minimum(*drawn[1:]), np.maximum(*drawn[1:])]
    return drawn


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], domain: Domain) -> Array:
    x: Array = np.asarray(rng.standard_normal(shape))
    match domain:
        case "positive":
            return np.abs(x) + 0.5
        case "nonzero":
            return np.asarray(x + np.copysign(0.3, x))
        case "unit":
            return np.asarray(0.9 * x / (1 + np.abs(x)))
        case "above_one":
            return np.abs(x) + 1.2
        case "distinct":
            return np.asarray((rng.permutation(x.size).reshape(shape) - x.size / 2 + 0.3) / 2)
        case "hermitian":
            return (x + x.mT) / 2 + np.diag(2.0 * np.arange(shape[-1]))
        case "positive_definite":
            return x @ x.mT + shape[-1] * np.eye(shape[-1])
        case "well_conditioned":
            return np.asarray(x + 3 * np.eye(shape[-2], shape[-1]))
        case "lower_triangular":
            return np.tril(x) + 3 * np.eye(shape[-1])
        case "upper_triangular":
            return np.triu(x) + 3 * np.eye(shape[-1])
        case "any":
            return x
