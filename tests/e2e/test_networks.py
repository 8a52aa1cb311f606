"""Real tensor networks over a socket: value, gradient and H·v of ½‖result‖² along random directions."""

from __future__ import annotations

import json
import math
import os
import string
from pathlib import Path
from typing import Any

import numpy as np
import opt_einsum
import pytest

import backhaul as bh
from backhaul.demo import Network, load

Array = np.ndarray[Any, Any]
CORPUS = Path(os.environ.get("BACKHAUL_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
INSTANCES = CORPUS.parent / "instances"


STEP = 1e-5
# Central differences of fourth order: multiples of the step, and their weights.
STENCIL = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
# What runs among the fast tests: log10 of the FLOPs of the value, log2 of the elements of its largest array.
FAST = (8.0, 20.9)
GIGABYTE = 1 << 30


def _file(name: str) -> Path:
    path = INSTANCES / f"{name}.json"
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
        pytest.skip(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
    return path


def _network(name: str) -> Network:
    return load(_file(name))


def _loss(network: Network, leaves: list[bh.TrackedTensor], path: Any = ...) -> bh.TrackedTensor:
    """½‖result‖² along the path of the file, or another, or our own order for None."""
    result = bh.einsum(network.subscripts, *leaves, path=network.path if path is ... else path)
    return bh.sum(result * result) * 0.5


def _all_networks() -> list[Any]:
    """The name of each network in the folder; those that take long are marked slow."""
    found = []
    for file in sorted(INSTANCES.glob("*.json")):
        data = json.loads(file.read_text(encoding="utf-8"))
        if "shapes" not in data:
            continue
        cost = data["paths"]["opt_flops"]
        is_fast = cost["log10_flops"] <= FAST[0] and cost["log2_size"] <= FAST[1]
        found.append(pytest.param(file.stem, marks=() if is_fast else pytest.mark.slow))
    return found or ["any network"]


def _needs_memory(bytes_needed: float) -> None:
    meminfo = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in meminfo if "MemAvailable" in line)
    if free < bytes_needed:
        pytest.skip(f"{bytes_needed / GIGABYTE:.0f} GB are needed, {free / GIGABYTE:.0f} are free")


@pytest.mark.corpus
@pytest.mark.parametrize("name", _all_networks())
def test_value_and_gradient_along_the_path_of_the_file_and_our_own(name: str, target: str) -> None:
    network = _network(name)
    cost = json.loads(_file(name).read_text(encoding="utf-8"))["paths"]["opt_flops"]
    _needs_memory(8 * 8 * 2 ** cost["log2_size"])
    rng = np.random.default_rng(11)
    values = network.operands(rng)
    expected = opt_einsum.contract(network.subscripts, *values, optimize=list(network.path or ()))
    loss = 0.5 * float(np.vdot(expected, expected))
    directions = [network.operands(rng) for _ in range(2)]

    with bh.connect(target, timeout=600) as connection:

        def at(direction: list[Array], multiple: int) -> float:
            with bh.Tape(connection) as tape:
                moved = zip(values, direction, strict=True)
                leaves = [tape.leaf(x + multiple * STEP * d) for x, d in moved]
                return float(_loss(network, leaves))

        slopes = [
            sum(weight * at(direction, multiple) for multiple, weight in STENCIL.items()) / STEP
            for direction in directions
        ]
        assert loss > 0
        for path in (network.path, None):
            with bh.Tape(connection) as tape:
                leaves = [tape.leaf(x) for x in values]
                result = bh.einsum(network.subscripts, *leaves, path=path)
                gradients = tape.pullback(bh.sum(result * result) * 0.5, wrt=leaves)
                scale = float(np.abs(expected).max())
                np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=1e-10 * scale)
            for direction, slope in zip(directions, slopes, strict=True):
                along = [
                    float(np.vdot(gradients[leaf], d))
                    for leaf, d in zip(leaves, direction, strict=True)
                ]
                size = max(abs(slope), math.hypot(*along), loss)
                assert sum(along) == pytest.approx(slope, rel=0, abs=1e-7 * size)


@pytest.mark.corpus
def test_415_leaves_and_all_their_gradients_take_one_round_trip(target: str) -> None:
    network = _network("tensornetwork_permutation_light_415")
    _needs_memory(4 * GIGABYTE)
    values = network.operands(np.random.default_rng(13))
    with bh.connect(target, timeout=300) as connection, bh.Tape(connection) as tape:
        leaves = [tape.leaf(x) for x in values]
        assert len(leaves) == 415
        loss = _loss(network, leaves)
        before = connection.calls.total()
        gradients = tape.pullback(loss, wrt=leaves)
        assert connection.calls.total() == before + 1
    value = float(gradients.value)
    assert value > 1e-300
    for leaf, x in zip(leaves, values, strict=True):
        # Euler: the loss is homogeneous of degree 2 in each operand.
        assert float(np.vdot(gradients[leaf], x)) == pytest.approx(2 * value, rel=1e-9)


def _patterns() -> list[Any]:
    """Each transposition with its id, in small and, marked slow, in its own size."""
    file = INSTANCES / "permutation_patterns.json"
    patterns = json.loads(file.read_text(encoding="utf-8"))["patterns"] if file.is_file() else []
    found = []
    for pattern in patterns:
        less = [_less(axis, size) for axis, size in enumerate(pattern["shape"])]
        found.append(pytest.param({**pattern, "shape": less}, id=f"{pattern['id']}, small"))
        found.append(pytest.param(pattern, id=pattern["id"], marks=pytest.mark.slow))
    return found or [pytest.param({}, id="any pattern")]


def _less(axis: int, size: int) -> int:
    return size // 4 if size > 3 else (size if axis % 2 else 1)


def _source(pattern: dict[str, Any], rng: np.random.Generator) -> Array:
    """An array of random numbers whose axes lie in memory in the order that the pattern says."""
    shape, layout = tuple(pattern["shape"]), pattern["src_layout"]
    assert layout["kind"] in ("col_major", "explicit_strides")
    from_fastest = np.argsort(layout.get("strides", range(len(shape))))
    lying = rng.standard_normal([shape[axis] for axis in from_fastest[::-1]])
    return lying.transpose(np.argsort(from_fastest[::-1]))


@pytest.mark.corpus
@pytest.mark.parametrize("pattern", _patterns())
def test_permutations_of_axes(pattern: dict[str, Any]) -> None:
    _file("permutation_patterns")
    count = math.prod(pattern["shape"])
    _needs_memory(8 * 8 * count)
    rng = np.random.default_rng(17)
    source, perm = _source(pattern, rng), pattern["perm"]
    labels = string.ascii_letters[: source.ndim]
    subscripts = f"{labels}->{''.join(labels[axis] for axis in perm)}"
    cotangent = rng.standard_normal([pattern["shape"][axis] for axis in perm])
    with bh.connect("embedded") as connection, bh.Tape(connection) as tape:
        leaf = tape.leaf(source)
        result = bh.einsum(subscripts, leaf)
        gradients = tape.pullback(result, cotangent=cotangent)
        assert np.array_equal(result.numpy(), source.transpose(perm))
        assert np.array_equal(gradients[leaf], cotangent.transpose(np.argsort(perm)))


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "str_mps_varying_inner_product_200",
        pytest.param("lm_batch_likelihood_sentence_3_12d", marks=pytest.mark.slow),
    ],
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
        directions = [network.operands(rng) for _ in range(3)]
        along = [dict(zip(leaves, d, strict=True)) for d in directions]
        before = connection.calls.total()
        results = tape.hvp(loss, tangents=along, wrt=leaves)
        assert connection.calls.total() == before + 1
        assert float(results[0].value) > 0, "zeros would agree with anything"
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
