"""Real tensor networks over a socket: gradient and H·v of ½‖result‖² along random directions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backhaul as bh
from backhaul.demo import Network, load

Array = np.ndarray[Any, Any]
CORPUS = Path(os.environ.get("BACKHAUL_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
INSTANCES = CORPUS.parent / "instances"


def _network(name: str) -> Network:
    path = INSTANCES / f"{name}.json"
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
        pytest.skip(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
    return load(path)


def _loss(network: Network, leaves: list[bh.TrackedTensor]) -> bh.TrackedTensor:
    result = bh.einsum(network.subscripts, *leaves, path=network.path)
    return bh.sum(result * result) * 0.5


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name", ["str_mps_varying_inner_product_200", "lm_batch_likelihood_sentence_3_12d"]
)
def test_derivatives_against_finite_differences(name: str, target: str) -> None:
    network = _network(name)
    rng = np.random.default_rng(7)
    values = network.operands(rng)
    step = 1e-5

    def at(direction: list[Array], scale: float) -> tuple[float, list[Array]]:
        with bh.Tape(connection) as tape:
            moved = zip(values, direction, strict=True)
            leaves = [tape.leaf(x + scale * step * d) for x, d in moved]
            grads = tape.pullback(_loss(network, leaves), wrt=leaves)
            return float(grads.value), [grads[leaf] for leaf in leaves]

    with bh.connect(target, timeout=120) as connection, bh.Tape(connection) as tape:
        leaves = [tape.leaf(x) for x in values]
        loss = _loss(network, leaves)
        directions: list[list[Array]] = [
            [np.asarray(rng.standard_normal(x.shape)) for x in values] for _ in range(3)
        ]
        along = [dict(zip(leaves, d, strict=True)) for d in directions]
        before = connection.calls.total()
        results = tape.hvp(loss, tangents=along, wrt=leaves)
        assert connection.calls.total() == before + 1
        for direction, result in zip(directions, results, strict=True):
            (ahead, g_ahead), (behind, g_behind) = at(direction, 1), at(direction, -1)
            slope = sum(
                np.vdot(result.gradients[leaf], d)
                for leaf, d in zip(leaves, direction, strict=True)
            )
            assert slope == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)
            scale = max(float(np.abs(result.hvp[leaf]).max()) for leaf in leaves)
            for leaf, a, b in zip(leaves, g_ahead, g_behind, strict=True):
                np.testing.assert_allclose(
                    result.hvp[leaf], (a - b) / (2 * step), rtol=0, atol=1e-6 * scale
                )
