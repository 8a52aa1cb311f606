"""The corpus's replayer on backhaul: its op names mapped to our functions, its errors to our reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import backhaul as bh

Array = np.ndarray[Any, Any]


def _clip(x: Any, lo: Any = None, hi: Any = None) -> bh.TrackedTensor:
    return bh.clip(x, lo, hi)


def _softmax(x: Any, axis: Any = -1) -> bh.TrackedTensor:
    return bh.softmax(x, axis)


def _log_softmax(x: Any, axis: Any = -1) -> bh.TrackedTensor:
    return bh.log_softmax(x, axis)


def _cumsum(x: Any, axis: int = 0) -> bh.TrackedTensor:
    return bh.cumsum(x, axis)


# Ops that the corpus names or calls in another way than we do, and many that it does not.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": bh.add,
    "sub": bh.subtract,
    "mul": bh.multiply,
    "div": bh.divide,
    "neg": bh.negative,
    "power": bh.power,
    "square": bh.square,
    "sqrt": bh.sqrt,
    "reciprocal": bh.reciprocal,
    "abs": bh.abs,
    "exp": bh.exp,
    "expm1": bh.expm1,
    "log": bh.log,
    "log1p": bh.log1p,
    "logaddexp": bh.logaddexp,
    "sin": bh.sin,
    "cos": bh.cos,
    "tan": bh.tan,
    "sinh": bh.sinh,
    "cosh": bh.cosh,
    "tanh": bh.tanh,
    "arcsin": bh.arcsin,
    "arctan": bh.arctan,
    "arctanh": bh.arctanh,
    "arctan2": bh.arctan2,
    "sigmoid": bh.sigmoid,
    "softplus": bh.softplus,
    "relu": bh.relu,
    "maximum": bh.maximum,
    "minimum": bh.minimum,
    "where": bh.where,
    "clip": _clip,
    "greater": bh.greater,
    "less": bh.less,
    "sum": bh.sum,
    "mean": bh.mean,
    "prod": bh.prod,
    "max": bh.max,
    "min": bh.min,
    "var": bh.var,
    "logsumexp": bh.logsumexp,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "cumsum": _cumsum,
    "norm": bh.linalg.norm,
    "real": bh.real,
    "imag": bh.imag,
    "conj": bh.conj,
    "reshape": bh.reshape,
    "broadcast_to": bh.broadcast_to,
    "matmul": bh.matmul,
    "stop_gradient": bh.stop_gradient,
    "astype": bh.astype,
    "transpose": bh.transpose,
    "squeeze": bh.squeeze,
    "expand_dims": bh.expand_dims,
    "flip": bh.flip,
    "roll": bh.roll,
    "pad": lambda x, widths: bh.pad(x, widths),
    "tril": bh.tril,
    "triu": bh.triu,
    "diag": bh.diag,
    "diagonal": bh.linalg.diagonal,
    "trace": bh.linalg.trace,
    "tile": bh.tile,
    "repeat": lambda x, n, axis: bh.repeat(x, n, axis),
    "moveaxis": lambda x, src, dst: bh.moveaxis(x, src, dst),
    "swapaxes": lambda x, a, b: bh.swapaxes(x, a, b),
    "take": lambda x, indices, axis=0: bh.take(x, indices, axis),
    "getitem": lambda x, index: x[_index(index)],
    "concatenate": lambda *arrays, axis=0: bh.concat(arrays, axis),
    "stack": lambda *arrays, axis=0: bh.stack(arrays, axis),
    "cholesky": bh.linalg.cholesky,
    "eigh": bh.linalg.eigh,
    "eigvalsh": bh.linalg.eigvalsh,
    "qr": bh.linalg.qr,
    "svd": bh.linalg.svd,
    "svdvals": bh.linalg.svdvals,
    "dot": bh.dot,
    "outer": bh.outer,
    "kron": bh.kron,
    "tensordot": bh.tensordot,
    "inv": bh.linalg.inv,
    "det": bh.linalg.det,
    "slogdet": bh.linalg.slogdet,
    "pinv": bh.linalg.pinv,
}


def solve(a: bh.TrackedTensor, b: bh.TrackedTensor) -> bh.TrackedTensor:
    """The corpus's: b is a stack of vectors where it has one axis fewer than a."""
    if 1 < b.ndim < a.ndim:
        return bh.reshape(bh.linalg.solve(a, bh.reshape(b, (*b.shape, 1))), b.shape)
    return bh.linalg.solve(a, b)


def triangular_solve(
    a: bh.TrackedTensor, b: bh.TrackedTensor, lower: bool = True, trans: bool = False
) -> bh.TrackedTensor:
    """The corpus's: ``trans`` is a bool, and lower triangles are the default."""
    return bh.linalg.solve_triangular(a, b, int(trans), lower)


FUNCTIONS |= {"solve": solve, "triangular_solve": triangular_solve}

UNKNOWN_NODE = 10**9


class Adapter:
    """What the replayer asks of a product, on a connection; left out, the default one.

    So the replayer's own command line takes it, embedded or with BACKHAUL_TARGET set:
    ``PYTHONPATH=. python CORPUS/tools/replay.py CORPUS --adapter tests.corpus.adapter:Adapter``
    """

    def __init__(self, connection: bh.Connection | None = None) -> None:
        self._connection = connection

    def supports(self, op: str) -> bool:
        return op == "einsum" or _function(op) is not None

    def new_tape(self) -> bh.Tape:
        return bh.Tape(self._connection)

    def close(self, tape: bh.Tape) -> None:
        tape.close()

    def leaf(self, tape: bh.Tape, value: Array, tangent: Array | None = None) -> bh.TrackedTensor:
        return tape.leaf(value) if tangent is None else tape.leaf_with_tangent(value, tangent)

    def const(self, tape: bh.Tape, value: Array) -> bh.TrackedTensor:
        return tape.constant(value)

    def op(
        self, tape: bh.Tape, name: str, args: Sequence[Any], attrs: dict[str, Any], nout: int
    ) -> Any:
        if name == "einsum":
            return bh.einsum(*einsum_arguments(args, attrs))
        function = _function(name)
        assert function is not None
        return function(*args, **attrs)

    def value(self, tape: bh.Tape, node: Any) -> Array:
        return np.asarray(node.numpy() if isinstance(node, bh.TrackedTensor) else node)

    def pullback(self, tape: bh.Tape, node: Any) -> Callable[[Any], Array]:
        return _or_zeros(tape.pullback(node))

    def hvp(
        self, tape: bh.Tape, node: Any
    ) -> tuple[Callable[[Any], Array], Callable[[Any], Array]]:
        result = tape.hvp(node)
        return _or_zeros(result.gradients), _or_zeros(result.hvp)

    def unknown_node(self, tape: bh.Tape) -> int:
        return UNKNOWN_NODE

    def error_kind(self, error: BaseException) -> str | None:
        if not isinstance(error, bh.BackhaulError) or isinstance(error, bh.InternalError):
            return None
        kind = error.reason.lower()
        return "missing_session" if isinstance(error, bh.SessionError) else kind


def _function(op: str) -> Callable[..., Any] | None:
    """Ours for an op of the corpus: by the table, else of the same name."""
    for module in (bh, bh.linalg):
        if op in module.__all__ and op not in FUNCTIONS:
            found: Callable[..., Any] = getattr(module, op)
            return found
    return FUNCTIONS.get(op)


def einsum_arguments(operands: Sequence[Any], attrs: dict[str, Any]) -> list[Any]:
    """The arguments of a call in either notation."""
    if "spec" in attrs:
        return [attrs["spec"], *operands]
    sublists = [*attrs["sublists"]]
    arguments: list[Any] = []
    for operand, sublist in zip(operands, sublists, strict=True):
        arguments += [operand, _labels(sublist)]
    if attrs.get("out_sublist") is not None:
        arguments.append(_labels(attrs["out_sublist"]))
    return arguments


def _index(items: Sequence[Any]) -> tuple[Any, ...]:
    """The index that a list of the corpus means: integers, [start, stop, step], "newaxis" and "..."."""
    named = {"newaxis": None, "...": Ellipsis}
    return tuple(
        slice(*each) if isinstance(each, list) else named.get(each, each) for each in items
    )


def _labels(sublist: Sequence[Any]) -> list[Any]:
    return [Ellipsis if label == "..." else label for label in sublist]


def _or_zeros(gradients: bh.Gradients[Array]) -> Callable[[Any], Array]:
    """Leaves that the loss does not reach have no gradient here; the corpus expects zeros."""

    def get(leaf: Any) -> Array:
        found = gradients.get(leaf)
        return np.zeros(leaf.shape, leaf.dtype) if found is None else found

    return get
