"""The same questions to each library: the value, its gradient, and its gradient with H·v.

The loss is ½‖result‖², every operand is differentiated, and all contract in the order of the file. JAX
and torch are not among our dependencies: what is not installed is left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import opt_einsum
from benchmarks.einsum.networks import Array, Instance

from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Answer = Sequence[Any]  # arrays: the result or the loss, then gradients, then H·v
Job = Callable[[], Answer]


def ours(instance: Instance, question: str) -> Job:
    """The engine in this process, on a tape of its own each time."""
    network = instance.network
    values, tangents = instance.data()
    engine = Engine()
    attributes = {"subscripts": network.subscripts, "path": network.path}

    def run() -> Answer:
        tape = Tape(engine)
        leaves = [tape.leaf(value) for value in values]
        result = tape.apply("einsum", leaves, **attributes)
        if question == "forward":
            return [result.value]
        squared = tape.apply("sum", [tape.apply("multiply", [result, result])])
        loss = tape.apply("multiply", [squared, tape.constant(np.array(0.5))])
        if question == "gradient":
            (gradients,) = tape.pullback(loss, wrt=leaves)
            return [loss.value, *(gradients[leaf] for leaf in leaves)]
        direction = dict(zip(leaves, tangents, strict=True))
        ((gradients, hvp),) = tape.hvp(loss, [direction], wrt=leaves)
        answer = [loss.value, *(gradients[leaf] for leaf in leaves)]
        return [*answer, *(hvp[leaf] for leaf in leaves)]

    shapes = Tape(engine)
    avals = tuple(shapes.constant(value).aval for value in values)
    engine.prepare("einsum", attributes, avals)
    return run


def contract(instance: Instance, question: str) -> Job:
    """opt_einsum on NumPy as one calls it; it has no derivatives."""
    assert question == "forward"
    values, _ = instance.data()
    network = instance.network
    return lambda: [opt_einsum.contract(network.subscripts, *values, optimize=_path(instance))]


def expression(instance: Instance, question: str) -> Job:
    """opt_einsum on NumPy with everything that does not depend on the values done before."""
    assert question == "forward"
    values, _ = instance.data()
    network = instance.network
    prepared = opt_einsum.contract_expression(
        network.subscripts, *network.shapes, optimize=_path(instance)
    )
    return lambda: [prepared(*values)]


def jax(instance: Instance, question: str) -> Job:
    """JAX, compiled for these shapes in advance; H·v is the jvp of the gradient."""
    lib: Any = importlib.import_module("jax")
    lib.config.update("jax_enable_x64", True)
    values, tangents = ([lib.numpy.asarray(x) for x in each] for each in instance.data())
    subscripts, path = instance.network.subscripts, _path(instance)

    def loss(operands: list[Any]) -> Any:
        result = lib.numpy.einsum(subscripts, *operands, optimize=path)
        return 0.5 * (result * result).sum()

    def gradient(operands: list[Any]) -> Any:
        return lib.value_and_grad(loss)(operands)

    def hvp(operands: list[Any], along: list[Any]) -> Any:
        return lib.jvp(gradient, (operands,), (along,))

    if question == "gradient":
        compiled = lib.jit(gradient).lower(values).compile()

        def run() -> Answer:
            value, gradients = lib.block_until_ready(compiled(values))
            return [value, *gradients]
    else:
        compiled = lib.jit(hvp).lower(values, tangents).compile()

        def run() -> Answer:
            (value, gradients), (_, moved) = lib.block_until_ready(compiled(values, tangents))
            return [value, *gradients, *moved]

    return run


def torch(instance: Instance, question: str) -> Job:
    """Torch through opt_einsum, which knows its many labels; H·v is reverse over reverse."""
    lib: Any = importlib.import_module("torch")
    values, tangents = ([lib.from_numpy(x) for x in each] for each in instance.data())
    for value in values:
        value.requires_grad_(True)
    subscripts, path = instance.network.subscripts, _path(instance)

    def run() -> Answer:
        result: Any = opt_einsum.contract(subscripts, *values, optimize=path)
        loss = 0.5 * (result * result).sum()
        if question == "gradient":
            return [loss.detach(), *lib.autograd.grad(loss, values)]
        gradients = lib.autograd.grad(loss, values, create_graph=True)
        moved = lib.autograd.grad(gradients, values, grad_outputs=tangents)
        return [loss.detach(), *(each.detach() for each in gradients), *moved]

    return run


PEERS: Final[dict[str, Callable[[Instance, str], Job]]] = {
    "ours": ours,
    "contract": contract,
    "expression": expression,
    "jax": jax,
    "torch": torch,
}


def installed(peer: str) -> bool:
    """Whether a peer can be asked at all."""
    return peer not in ("jax", "torch") or importlib.util.find_spec(peer) is not None


def fingerprint(answer: Answer) -> list[float]:
    """Numbers to tell by whether two answers are the same: a norm for each array."""
    arrays: list[Array] = [np.asarray(each) for each in answer]
    return [float(np.linalg.norm(array)) for array in arrays]


def _path(instance: Instance) -> Any:
    path = instance.network.path
    return "auto" if path is None else [tuple(step) for step in path]
