"""JAX: a remote function that `jax.grad`, `jit`, `jvp`, `hessian` and `vmap` work on.

    >>> import jax, jax.numpy as jnp, backhaul as bh
    >>> f = bh.adapters.jax.wrap(lambda x: bh.sum(x**3))
    >>> jax.jit(jax.grad(f))(jnp.array([1.0, 2.0]))
    Array([ 3., 12.], dtype=float32)

The function is one primitive of JAX, `remote`, with a question as its parameter: its value, or a derivative
that is again linear in its last arguments. JAX's rules of the primitive lead from question to question:

| question | linear in | derivative by x | transpose |
| --- | --- | --- | --- |
| `Value` y | | `Push`, or from `Gradient` when y is a real number | |
| `Gradient` y and g | | `Second` with the cotangent 1 | |
| `Push` J·dx | dx | `PushTwice` | `Pull` |
| `Pull` Jᵀ·ct | ct | `Second` | `Push` |
| `Second` H_ct·dx | dx | HvpNotSupported | itself |
| `PushTwice` D²y[dx, dz] | dz | HvpNotSupported | `Second` |

JAX pairs a cotangent with a tangent as Re Σ ct·dx, backhaul as Re Σ conj(ct)·dx: so JAX's cotangents and
gradients are the conjugates of the tape's.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from backhaul.adapters.evaluation import Evaluations, Point, Tapes, third_order
from backhaul.adapters.libraries import library
from backhaul.connection import Connection

jax: Any = library("jax", extra="jax")
jnp: Any = library("jax.numpy", extra="jax")
ad: Any = library("jax.interpreters.ad", extra="jax")
batching: Any = library("jax.interpreters.batching", extra="jax")
mlir: Any = library("jax.interpreters.mlir", extra="jax")
Primitive: Any = library("jax.extend.core", extra="jax").Primitive

__all__ = ["wrap"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def wrap(
    function: Callable[..., Any], *, result: Any = None, connection: Connection | None = None
) -> Callable[..., Any]:
    """A function of tensors as one of JAX arrays, for JAX's transformations.

    Each evaluation is one round trip: value, value and gradient of a real scalar function, J·v, a pullback; a
    ``vmap`` over arguments or directions too, and so all columns of ``jax.hessian`` and ``jax.jacrev``. Under
    ``jit`` it is called back from the compiled program. Derivatives go to the second order.

    Args:
        function: of tensors, with one tensor as its result, of any shape. Arguments may be pytrees of
            arrays; integers and bools are constants. It is to have no effects.
        result: shape and dtype of the result, as `jax.ShapeDtypeStruct`. Left out: what the function
            gives when it is recorded at zeros, for which nothing is sent. Needed where it looks at values.
        connection: where to; left out: the default connection.

    Returns:
        The function. It raises what ``function`` and the server raise; from a compiled program that
        arrives as `jax.errors.JaxRuntimeError`, with the error's name and text in it.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no function or connection.

    Example:
        >>> import jax, jax.numpy as jnp, backhaul as bh
        >>> f = bh.adapters.jax.wrap(lambda x: bh.sum(x**3))
        >>> x, v = jnp.array([1.0, 2.0]), jnp.array([1.0, 0.0])
        >>> jax.jvp(jax.grad(f), (x,), (v,))[1]
        Array([6., 0.], dtype=float32)
    """
    evaluations = Evaluations(function, connection)
    given = None if result is None else Kind(tuple(result.shape), np.dtype(result.dtype))
    remotes: dict[Any, Remote] = {}
    lock = threading.Lock()

    @functools.wraps(function)
    def on_arrays(*arguments: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(arguments)
        arrays = [jnp.asarray(each) for each in leaves]
        kinds = tuple(Kind(tuple(each.shape), np.dtype(each.dtype)) for each in arrays)
        with lock:
            remote = remotes.get((tree, kinds))
        if remote is None:
            remote = Remote(_flat(function, tree), evaluations.tapes, kinds, given)
            with lock:
                remote = remotes.setdefault((tree, kinds), remote)
        return remote_p.bind(*arrays, question=Value(remote))[0]

    return on_arrays


def _flat(function: Callable[..., Any], tree: Any) -> Callable[..., Any]:
    def of_leaves(*leaves: Any) -> Any:
        return function(*jax.tree_util.tree_unflatten(tree, leaves))

    return of_leaves


class Kind(NamedTuple):
    """Shape and dtype."""

    shape: Shape
    dtype: np.dtype[Any]


class Remote:
    """A function of arrays of certain shapes and dtypes.

    Attributes:
        evaluations: it.
        arguments: their shapes and dtypes.
        result: those of its result, as the tape has it.
        output: as JAX has it, which may have no 64 bits.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        tapes: Tapes,
        arguments: tuple[Kind, ...],
        result: Kind | None,
    ) -> None:
        self.evaluations = Evaluations(function, tapes)
        self.arguments = arguments
        self.result = result or Kind(*self.evaluations.result(arguments))
        self.output = Kind(self.result.shape, jax.dtypes.canonicalize_dtype(self.result.dtype))
        self.is_scalar = not self.result.shape and self.result.dtype.kind == "f"

    def at(self, arguments: Sequence[Array], wrt: Sequence[int], batch: Shape) -> Point:
        """A point, or with a batch as many."""
        many = self.evaluations.batched(math.prod(batch)) if batch else self.evaluations
        return many.at(arguments, sorted(wrt))


# ---------------------------------------------------------------- questions


@dataclass(frozen=True)
class Question:
    """What is asked of a function: the parameter of the primitive.

    Its arguments are those of the function, then the ``fixed`` and then the ``linear`` ones, that
    the results are linear in. All of them have the axes of the batch before their own; linear ones and
    results have before those the axis of directions where ``count`` says how many there are.

    Attributes:
        remote: the function.
        batch: sizes of the axes of ``vmap`` over the function's arguments.
        count: the number of directions, or cotangents, at one point.
        rows: positions of the arguments that gradients are wanted of.
        columns: positions of those that tangents are given of.
    """

    remote: Remote
    batch: Shape = ()
    count: int | None = None
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()

    def fixed(self) -> list[Kind]:
        return []

    def linear(self) -> list[Kind]:
        return []

    def results(self) -> list[Kind]:
        raise NotImplementedError

    def ask(self, point: Point, fixed: list[Array], linear: list[list[Array]]) -> list[Any]:
        """The results; ``linear`` and, where there are directions, the results of each direction."""
        raise NotImplementedError

    def x(self, positions: Sequence[int]) -> list[Kind]:
        return [self.remote.arguments[i] for i in positions]

    def split(self, arguments: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """The function's arguments, the fixed and the linear ones."""
        n = len(self.remote.arguments)
        m = n + len(self.fixed())
        return list(arguments[:n]), list(arguments[n:m]), list(arguments[m:])

    def shape(self, kind: Kind, is_counted: bool) -> Shape:
        counted = (self.count,) if is_counted and self.count is not None else ()
        return (*counted, *self.batch, *kind.shape)

    def wrt(self) -> set[int]:
        return {*self.rows, *self.columns}

    def answer(self, arguments: Sequence[Array]) -> list[Array]:
        """On the host: one round trip."""
        xs, fixed, linear = self.split([np.asarray(each) for each in arguments])
        rows = (math.prod(self.batch),) if self.batch else ()
        kinds = self.results()
        if 0 in self.batch or self.count == 0:
            return [np.zeros(self.shape(each, bool(linear)), each.dtype) for each in kinds]
        xs = [
            x.reshape(rows + each.shape) for x, each in zip(xs, self.remote.arguments, strict=True)
        ]
        fixed = [x.reshape(rows + each.shape) for x, each in zip(fixed, self.fixed(), strict=True)]
        each_way = (self.count or 1,)
        ways = [
            x.reshape(each_way + rows + each.shape)
            for x, each in zip(linear, self.linear(), strict=True)
        ]
        directions = [[x[i] for x in ways] for i in range(each_way[0])]
        point = self.remote.at(xs, tuple(self.wrt()), self.batch)
        found = self.ask(point, fixed, directions)
        return [
            np.ascontiguousarray(x, each.dtype).reshape(self.shape(each, bool(linear)))
            for x, each in zip(found, kinds, strict=True)
        ]

    def tangents(self, some: Sequence[Array], positions: Sequence[int]) -> list[Array | None]:
        """A direction of a point, whose leaves are ``wrt``, from tangents of some arguments."""
        known = dict(zip(positions, some, strict=True))
        return [known.get(i) for i in sorted(self.wrt())]

    def gradients(self, found: Sequence[Array]) -> list[Array]:
        """Those of ``rows``, as JAX has them."""
        by_position = dict(zip(sorted(self.wrt()), found, strict=True))
        return [by_position[i].conj() for i in self.rows]


class Value(Question):
    """y."""

    def results(self) -> list[Kind]:
        return [self.remote.output]

    def ask(self, point: Point, fixed: list[Array], linear: list[list[Array]]) -> list[Any]:
        return [point.value()]


class Gradient(Question):
    """y, a real number, and its gradients by ``rows``."""

    def results(self) -> list[Kind]:
        return [self.remote.output, *self.x(self.rows)]

    def ask(self, point: Point, fixed: list[Array], linear: list[list[Array]]) -> list[Any]:
        if self.batch:
            ones = np.ones(math.prod(self.batch))
            value, (found,) = point.pullback([ones])
        else:
            value, found = point.value_and_gradients()
        return [value, *self.gradients(found)]


class Push(Question):
    """J·dx, dx of ``columns``."""

    def linear(self) -> list[Kind]:
        return self.x(self.columns)

    def results(self) -> list[Kind]:
        return [self.remote.output]

    def ask(self, point: Point, fixed: list[Array], linear: list[list[Array]]) -> list[Any]:
        along = [self.tangents(each, self.columns) for each in linear]
        return [np.stack(point.pushforward(along)[1])]


class Pull(Question):
    """Jᵀ·ct by ``rows``."""

    def linear(self) -> list[Kind]:
        return [self.remote.output]

    def results(self) -> list[Kind]:
        return self.x(self.rows)

    def ask(self, point: Point, fixed: list[Array], linear: list[list[Array]]) -> list[Any]:
        _, found = point.pullback([ct.conj() for (ct,) in linear])
        return _by_result([self.gradients(each) for each in found])


class Second(Question):
    """H_ct·dx by ``rows``, dx of ``columns``: the derivative of `Pull` by x."""

    def fixed(self) -> list[Kind]:
        return [self.remote.output]

    def linear(self) -> list[Kind]:
        return self.x(self.columns)

    def results(self) -> list[Kind]:
        return self.x(self.rows)

    def ask(self, point: Point, fixed: list[Array], linear: list[list[Array]]) -> list[Any]:
        along = [(self.tangents(each, self.columns), None) for each in linear]
        found = point.pullback_with_tangents(fixed[0].conj(), along)
        return _by_result([self.gradients(each) for each, _ in found])


class PushTwice(Question):
    """D²y[dx, dz], dx of ``columns`` and dz of ``rows``: an evaluation for each element of y."""

    def fixed(self) -> list[Kind]:
        return self.x(self.columns)

    def linear(self) -> list[Kind]:
        return self.x(self.rows)

    def results(self) -> list[Kind]:
        return [self.remote.output]

    def answer(self, arguments: Sequence[Array]) -> list[Array]:
        # Re<ct, D²y[dx, dz]> = Re Σ dx·(H_ct·dz): y's elements by unit cotangents, all in one question.
        remote = self.remote
        shape, dtype = remote.output
        units = np.eye(math.prod(shape), dtype=dtype).reshape(-1, *shape)
        if dtype.kind == "c":
            units = np.concatenate([units, -1j * units])
        xs, dxs, dzs = self.split([np.asarray(each) for each in arguments])
        many = len(units)
        second = Second(remote, (many, *self.batch), self.count, self.columns, self.rows)
        axis = 0 if self.count is None else 1
        given = [np.broadcast_to(x, (many, *x.shape)) for x in xs]
        ct = np.broadcast_to(
            units.reshape(many, *(1 for _ in self.batch), *shape), (many, *self.batch, *shape)
        )
        along = [np.stack([z] * many, axis) for z in dzs]
        products = second.answer([*given, ct, *along])
        total: Any = 0.0
        for dx, product, kind in zip(dxs, products, self.fixed(), strict=True):
            last = tuple(range(product.ndim - len(kind.shape), product.ndim))
            total = total + (dx * product).real.sum(last)
        total = np.moveaxis(total, axis, -1)
        if dtype.kind == "c":
            half = many // 2
            total = total[..., :half] + 1j * total[..., half:]
        (found,) = self.results()
        return [np.ascontiguousarray(total, dtype).reshape(self.shape(found, True))]


def _by_result(by_direction: Sequence[Sequence[Array]]) -> list[Array]:
    return [np.stack(each) for each in zip(*by_direction, strict=True)]


# ---------------------------------------------------------------- JAX's rules

remote_p: Final = Primitive("backhaul")
remote_p.multiple_results = True


def _ask(question: Question, *arguments: Any) -> list[Any]:
    found: list[Any] = remote_p.bind(*arguments, question=question)
    return found


def _now(*arguments: Any, question: Question) -> list[Any]:
    return [jnp.asarray(each) for each in question.answer(arguments)]


def _avals(*_: Any, question: Question) -> list[Any]:
    is_counted = bool(question.linear())
    return [
        jax.core.ShapedArray(question.shape(each, is_counted), each.dtype)
        for each in question.results()
    ]


def _compiled(*arguments: Any, question: Question) -> Any:
    is_counted = bool(question.linear())
    results = [
        jax.ShapeDtypeStruct(question.shape(each, is_counted), each.dtype)
        for each in question.results()
    ]
    return jax.pure_callback(lambda *arrays: tuple(question.answer(arrays)), results, *arguments)


def _is_zero(tangent: Any) -> bool:
    return type(tangent) is ad.Zero or tangent.dtype == jax.dtypes.float0


def _known(tangents: Sequence[Any]) -> tuple[tuple[int, ...], list[Any]]:
    """Positions and values of those that are not zero."""
    positions = tuple(i for i, each in enumerate(tangents) if not _is_zero(each))
    return positions, [tangents[i] for i in positions]


def _of_numbers(question: Question, gradients: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The tangent of a real number from its gradients."""
    batch = tuple(range(len(question.batch)))
    dtype = question.remote.output.dtype
    total = None
    for g, dx in zip(gradients, tangents, strict=True):
        # One step an argument, for JAX takes a tenth of a millisecond for each that is not compiled.
        own = tuple(range(len(batch), g.ndim))
        part = jax.lax.dot_general(
            g, dx, ((own, own), (batch, batch)), precision=jax.lax.Precision.HIGHEST
        )
        part = part.real if part.dtype.kind == "c" else part
        part = part if part.dtype == dtype else part.astype(dtype)
        total = part if total is None else total + part
    return total


def _counted_as_batch(question: Question) -> Question:
    """The same question, with a point for each direction."""
    return replace(question, batch=question.shape(Kind((), np.dtype(bool)), True), count=None)


def _as_batch(question: Question, arguments: Sequence[Any]) -> list[Any]:
    """Its arguments, or their tangents."""
    xs, fixed, linear = question.split(arguments)
    at_each = [
        x if _is_zero(x) else jnp.broadcast_to(x, (question.count, *x.shape)) for x in [*xs, *fixed]
    ]
    return [*at_each, *linear]


def _zeros(results: Sequence[Any]) -> list[Any]:
    return [ad.Zero(jax.typeof(each).to_tangent_aval()) for each in results]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, question: Question
) -> tuple[list[Any], list[Any]]:
    xs, _, linear = question.split(primals)
    dxs, d_fixed, d_linear = question.split(tangents)
    columns, along = _known(dxs)
    if isinstance(question, Value | Gradient):
        return _jvp_of_value(xs, columns, along, question)
    is_at_one_point = not columns and all(map(_is_zero, d_fixed))
    if not is_at_one_point and not isinstance(question, Push | Pull):
        raise third_order()
    if not is_at_one_point and question.count is not None:
        primals, tangents = _as_batch(question, primals), _as_batch(question, tangents)
        return _jvp(primals, tangents, question=_counted_as_batch(question))
    results = _ask(question, *primals)
    parts = []
    if columns:
        further = (
            PushTwice(question.remote, question.batch, rows=columns, columns=question.columns)
            if isinstance(question, Push)
            else Second(question.remote, question.batch, rows=question.rows, columns=columns)
        )
        parts.append(_ask(further, *xs, *linear, *along))
    if not all(map(_is_zero, d_linear)):
        moved = [
            jnp.zeros_like(x) if _is_zero(dx) else dx
            for x, dx in zip(linear, d_linear, strict=True)
        ]
        parts.append(_ask(question, *primals[: len(primals) - len(linear)], *moved))
    if not parts:
        return results, _zeros(results)
    return results, [functools.reduce(jnp.add, each) for each in zip(*parts, strict=True)]


def _jvp_of_value(
    xs: Sequence[Any], columns: tuple[int, ...], along: Sequence[Any], question: Question
) -> tuple[list[Any], list[Any]]:
    """A real number brings its gradient along, in the same round trip."""
    remote, batch = question.remote, question.batch
    if not columns or remote.output.dtype.kind not in "fc":
        results = _ask(question, *xs)
        return results, _zeros(results)
    if not remote.is_scalar:
        return _ask(question, *xs), _ask(Push(remote, batch, columns=columns), *xs, *along)
    rows = tuple(sorted({*question.rows, *columns}))
    y, *gradients = _ask(Gradient(remote, batch, rows=rows), *xs)
    by_row = dict(zip(rows, gradients, strict=True))
    dy = _of_numbers(question, [by_row[i] for i in columns], along)
    if isinstance(question, Value):
        return [y], [dy]
    second = Second(remote, batch, rows=question.rows, columns=columns)
    return (
        [y, *(by_row[i] for i in question.rows)],
        [dy, *_ask(second, *xs, jnp.ones_like(y), *along)],
    )


def _transpose(cts: Sequence[Any], *arguments: Any, question: Question) -> list[Any]:
    xs, fixed, linear = question.split(arguments)
    nothing: list[Any] = [None] * len(arguments)
    known, given = _known(cts)
    if not known:
        return nothing
    remote, batch, count = question.remote, question.batch, question.count
    if isinstance(question, Push):
        back: Question = Pull(remote, batch, count, rows=question.columns)
    elif isinstance(question, Pull):
        back = Push(remote, batch, count, columns=tuple(question.rows[i] for i in known))
    elif isinstance(question, Second):
        rows = tuple(question.rows[i] for i in known)
        back = Second(remote, batch, count, rows=question.columns, columns=rows)
    else:
        # D²y[dx, dz] by dz: here ct is one of each point, and dx the direction.
        if count is not None:
            xs_and_dxs = _as_batch(question, [*xs, *fixed])
            xs, fixed = xs_and_dxs[: len(xs)], xs_and_dxs[len(xs) :]
            batch = (count, *batch)
        back = Second(remote, batch, rows=question.rows, columns=question.columns)
        return [*nothing[: -len(linear)], *_ask(back, *xs, *given, *fixed)]
    return [*nothing[: -len(linear)], *_ask(back, *xs, *fixed, *given)]


def _batch(
    arguments: Sequence[Any], axes: Sequence[Any], *, question: Question
) -> tuple[list[Any], list[int]]:
    size = next(x.shape[i] for x, i in zip(arguments, axes, strict=True) if i is not None)

    def mapped(x: Any, axis: Any, to: int) -> Any:
        if axis is None:
            x = jnp.expand_dims(x, to)
            return jnp.broadcast_to(x, (*x.shape[:to], size, *x.shape[to + 1 :]))
        return jnp.moveaxis(x, axis, to)

    xs, fixed, linear = question.split(list(zip(arguments, axes, strict=True)))
    count = question.count
    if all(axis is None for _, axis in [*xs, *fixed]):
        # One point, and more directions: its primal work is done once.
        ways = [mapped(x, axis, 0) for x, axis in linear]
        if count is not None:
            ways = [x.reshape(size * count, *x.shape[2:]) for x in ways]
        many = replace(question, count=size * (1 if count is None else count))
        found = _ask(many, *(x for x, _ in [*xs, *fixed]), *ways)
        if count is not None:
            found = [x.reshape(size, count, *x.shape[1:]) for x in found]
        return found, [0] * len(found)
    to = 0 if count is None else 1
    given = [mapped(x, axis, 0) for x, axis in [*xs, *fixed]]
    ways = [mapped(x, axis, to) for x, axis in linear]
    found = _ask(replace(question, batch=(size, *question.batch)), *given, *ways)
    return found, [to if linear else 0] * len(found)


remote_p.def_impl(_now)
remote_p.def_abstract_eval(_avals)
ad.primitive_jvps[remote_p] = _jvp
ad.primitive_transposes[remote_p] = _transpose
batching.primitive_batchers[remote_p] = _batch
mlir.register_lowering(remote_p, mlir.lower_fun(_compiled, multiple_results=True))
