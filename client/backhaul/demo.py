"""``backhaul demo``: the main job, on a server of its own or on one that runs, checked and printed."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

import backhaul as bh
from backhaul_proto.errors import make_error

Array = np.ndarray[Any, Any]

SEED: Final = 20261201
_STEP: Final = 1e-5
# Central differences of fourth order: multiples of the step, and their weights.
_STENCIL: Final = {-2: 1 / 12, -1: -2 / 3, 1: 2 / 3, 2: -1 / 12}
_AGREE: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Network:
    """A tensor network: its name, einsum and operand shapes."""

    name: str
    subscripts: str
    shapes: tuple[tuple[int, ...], ...]
    path: tuple[tuple[int, ...], ...] | None

    def operands(self, rng: np.random.Generator) -> list[Array]:
        """Random operands, scaled so that the result is of the order of one."""
        sizes: dict[str, int] = {}
        inputs, _, output = self.subscripts.partition("->")
        for term, shape in zip(inputs.split(","), self.shapes, strict=True):
            sizes.update(zip(term, shape, strict=True))
        # By logarithms: hundreds of labels have more terms together than a float can tell.
        summed = sum(math.log(n) for label, n in sizes.items() if label not in output and n)
        scale = math.exp(-0.5 * summed / len(self.shapes))
        return [np.asarray(scale * rng.standard_normal(shape)) for shape in self.shapes]


@dataclass(frozen=True, slots=True)
class Derivatives:
    """The loss ½‖result‖² of a network, its gradients and H·v, and how long they took."""

    loss: float
    gradients: list[Array]
    hvps: list[Array]
    other_hvps: list[Array]
    seconds: tuple[float, float]
    calls: int


# The norm of a matrix product state of six sites of dimension 3, its two copies as separate tensors.
_HALF: Final = ((3, 4), (4, 3, 6), (6, 3, 8), (8, 3, 6), (6, 3, 4), (4, 3))
SHIPPED: Final = Network(
    "matrix product states, 6 sites",
    "ab,bcd,def,fgh,hij,jk,al,lcm,men,ngo,oip,pk->",
    (*_HALF, *_HALF),
    None,
)


def run(
    console: Console,
    instance: Path | None,
    target: str | None = None,
    *,
    token: str | None = None,
    tls: bh.TLS | None = None,
) -> bool:
    """The demonstration; whether everything agreed. Without a target, on a server made for it."""
    network = SHIPPED if instance is None else load(instance)
    with (
        server_process() if target is None else nullcontext(target) as where,
        bh.connect(where, token=token, tls=tls, timeout=300) as connection,
    ):
        its_own = "its own process, " if target is None else ""
        console.print(f"server   {its_own}{connection.target}")
        console.print(f"client   this process ({os.getpid()})\n")
        basics = _basics(connection, console)
        remote = differentiate(connection, network)
        verdicts = _verdicts(connection, network, remote)
    with bh.connect("embedded") as connection:
        embedded = differentiate(connection, network)
    same = _equal(remote, embedded)
    console.print(_table(network, remote, embedded))
    checks = Table("check", "result", "", title="Checks", title_justify="left")
    for name, figure, right in [*verdicts, ("embedded = remote, bit for bit", str(same), same)]:
        checks.add_row(name, figure, "ok" if right else "WRONG")
    console.print(checks)
    return basics and same and all(right for _, _, right in verdicts)


def load(path: Path) -> Network:
    """A network from a file of the einsum benchmark's format.

    Raises:
        InvalidArgument: INVALID_VALUE, when the file is no such thing.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        subscripts = data.get("format_string_rowmajor") or data["format_string"]
        shapes = tuple(tuple(map(int, shape)) for shape in data["shapes"])
        found = data.get("paths", {}).get("opt_flops", {}).get("path")
        steps = None if found is None else tuple(tuple(map(int, pair)) for pair in found)
        return Network(str(data["name"]), str(subscripts), shapes, steps)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise make_error(
            "INVALID_VALUE",
            f"{path} is no tensor network: {error!r}. A network is JSON with name, format_string and "
            "shapes, as in the einsum benchmark.",
        ) from None


@contextmanager
def server_process() -> Iterator[str]:
    """A server in a process of its own on a free port of the loopback; gives its target."""
    command = [sys.executable, "-m", "backhaul", "serve", "--port", "0", "--log-level", "warning"]
    # Settings in the environment are for a server that others reach, as in the image.
    own = {name: value for name, value in os.environ.items() if not name.startswith("BACKHAUL_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(r"listening on (\S+)\n", line)
            if found is None:
                raise make_error(
                    "UNAVAILABLE",
                    f"The server did not start (it printed {line!r}); what it says stands above.",
                )
            yield found[1]
        finally:
            process.terminate()
            process.wait(30)


def differentiate(connection: bh.Connection, network: Network) -> Derivatives:
    """The network's derivatives along two random directions, each question one round trip."""
    rng = np.random.default_rng(SEED)
    values = network.operands(rng)
    directions = [[rng.standard_normal(v.shape) for v in values] for _ in range(2)]
    connection.ping()  # connects, so that this is not timed below
    before = connection.calls.total()
    with bh.Tape(connection) as tape:
        leaves = [tape.leaf_with_tangent(v, t) for v, t in zip(values, directions[0], strict=True)]
        started = time.perf_counter()
        loss = _loss(network, leaves)
        gradients = tape.pullback(loss, wrt=leaves)
        middle = time.perf_counter()
        first = tape.hvp(loss, wrt=leaves)
        ended = time.perf_counter()
        calls = connection.calls.total() - before
        second = tape.hvp(loss, tangents=dict(zip(leaves, directions[1], strict=True)), wrt=leaves)
        return Derivatives(
            gradients.value.item(),
            [gradients[leaf] for leaf in leaves],
            [first.hvp[leaf] for leaf in leaves],
            [second.hvp[leaf] for leaf in leaves],
            (middle - started, ended - middle),
            calls,
        )


def _loss(network: Network, leaves: list[bh.TrackedTensor]) -> bh.TrackedTensor:
    result = bh.einsum(network.subscripts, *leaves, path=network.path)
    return bh.sum(result * result) * 0.5


def _verdicts(
    connection: bh.Connection, network: Network, found: Derivatives
) -> list[tuple[str, str, bool]]:
    """Gradient and H·v against central finite differences, and the symmetry of the Hessian."""
    rng = np.random.default_rng(SEED)
    values = network.operands(rng)
    u: list[Array]
    u, v = ([np.asarray(rng.standard_normal(x.shape)) for x in values] for _ in range(2))
    points = [_at(connection, network, values, u, multiple * _STEP) for multiple in _STENCIL]
    weights = [weight / _STEP for weight in _STENCIL.values()]
    slope = sum(weight * loss for weight, (loss, _) in zip(weights, points, strict=True))
    curved = [
        sum(weight * each for weight, each in zip(weights, around, strict=True))
        for around in zip(*(gradients for _, gradients in points), strict=True)
    ]
    error_g = _relative(slope, _dot(found.gradients, u))
    scale = max(float(np.abs(each).max(initial=0.0)) for each in found.hvps) or 1.0
    error_h = max(
        float(np.abs(a - b).max(initial=0.0)) / scale
        for a, b in zip(curved, found.hvps, strict=True)
    )
    error_s = _relative(_dot(v, found.hvps), _dot(u, found.other_hvps))
    return [
        ("gradient · v = difference of the loss", f"{error_g:.1e}", error_g < _AGREE),
        ("H·v = difference of the gradient", f"{error_h:.1e}", error_h < _AGREE),
        ("⟨u, H·v⟩ = ⟨v, H·u⟩", f"{error_s:.1e}", error_s < 1e-9),
    ]


def _at(
    connection: bh.Connection,
    network: Network,
    values: list[Array],
    direction: list[Array],
    step: float,
) -> tuple[float, list[Array]]:
    with bh.Tape(connection) as tape:
        leaves = [tape.leaf(x + step * d) for x, d in zip(values, direction, strict=True)]
        gradients = tape.pullback(_loss(network, leaves), wrt=leaves)
        return gradients.value.item(), [gradients[leaf] for leaf in leaves]


def _basics(connection: bh.Connection, console: Console) -> bool:
    """The smallest programs: a matrix product, and a square with its H·v."""
    with bh.Tape(connection) as tape:
        a = tape.leaf(np.ones((2, 3)))
        b = tape.leaf(np.ones((3, 4)))
        c = bh.tracked_einsum("ij,jk->ik", [a, b])
        grads = tape.pullback(bh.tracked_einsum("ij,ij->", [c, c]))
        x = tape.leaf_with_tangent(np.ones(3), np.ones(3))
        result = tape.hvp(bh.tracked_einsum("i,i->", [x, x]))
        right = (
            np.array_equal(grads[a], np.full((2, 3), 24.0))
            and np.array_equal(result.gradients[x], np.full(3, 2.0))
            and np.array_equal(result.hvp[x], np.full(3, 2.0))
        )
        console.print(
            f"∂‖a·b‖²/∂a = {grads[a][0]} …,  H·v of x·x = {result.hvp[x]}", highlight=False
        )
        console.print(f"{'as it must be' if right else 'WRONG'}\n")
    return right


def _table(network: Network, remote: Derivatives, embedded: Derivatives) -> Table:
    table = Table(
        "",
        "loss",
        "‖grad‖",
        "‖H·v‖",
        "value, grad",
        "H·v",
        "calls",
        title=f"{network.name}: {len(network.shapes)} operands, loss ½‖result‖²",
        title_justify="left",
    )
    for name, found in (("remote", remote), ("embedded", embedded)):
        table.add_row(
            name,
            f"{found.loss:.5g}",
            f"{_norm(found.gradients):.5g}",
            f"{_norm(found.hvps):.5g}",
            f"{found.seconds[0] * 1e3:.0f} ms",
            f"{found.seconds[1] * 1e3:.0f} ms",
            str(found.calls),
        )
    return table


def _equal(a: Derivatives, b: Derivatives) -> bool:
    arrays = (a.gradients + a.hvps, b.gradients + b.hvps)
    return a.loss == b.loss and all(map(np.array_equal, *arrays))


def _dot(a: list[Array], b: list[Array]) -> float:
    return float(sum(np.vdot(x, y) for x, y in zip(a, b, strict=True)))


def _norm(arrays: list[Array]) -> float:
    return float(np.sqrt(_dot(arrays, arrays)))


def _relative(a: float, b: float) -> float:
    return abs(a - b) / max(abs(a), abs(b), 1e-300)
