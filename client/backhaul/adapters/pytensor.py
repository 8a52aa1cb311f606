"""PyTensor: a remote function in its graphs, and so in PyMC's models.

    >>> import backhaul as bh, numpy as np, pytensor, pytensor.tensor as pt
    >>> logp = bh.adapters.pytensor.logp(lambda x: -bh.sum(x * x))
    >>> x = pt.dvector("x")
    >>> y = logp(x)
    >>> value, gradient = pytensor.function([x], [y, pytensor.grad(y, x)])(np.array([1.0, 2.0]))
    >>> value, gradient
    (array(-5.), array([-2., -4.]))

A real number's gradients are outputs of the node that gives the number, so a graph of both makes one round
trip; where nobody asks for them, the node is replaced by one of the value alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from backhaul.adapters.evaluation import Evaluations, Point, third_order
from backhaul.adapters.libraries import library
from backhaul.connection import Connection
from backhaul_proto.errors import LinearAlgebraError, make_error

pytensor: Any = library("pytensor", extra="pytensor")
pt: Any = library("pytensor.tensor", extra="pytensor")
Apply: Any = library("pytensor.graph.basic", extra="pytensor").Apply
Op: Any = library("pytensor.graph.op", extra="pytensor").Op
DisconnectedType: Any = library("pytensor.gradient", extra="pytensor").DisconnectedType
grad_not_implemented: Any = library("pytensor.gradient", extra="pytensor").grad_not_implemented
rewriting: Any = library("pytensor.tensor.rewriting.basic", extra="pytensor")
node_rewriter: Any = library("pytensor.graph.rewriting.basic", extra="pytensor").node_rewriter

__all__ = ["logp", "wrap"]

Array = np.ndarray[Any, Any]


def wrap(
    function: Callable[..., Any], *, result: Any = None, connection: Connection | None = None
) -> Callable[..., Any]:
    """A real function of tensors as one of PyTensor's variables, differentiable twice.

    Args:
        function: of tensors, with one real tensor as its result, of any shape. Integers and bools are
            constants. It is to have no effects.
        result: the type of its result, such as ``pytensor.tensor.dvector``. Left out: what the function
            gives when it is recorded at zeros, for which the arguments' shapes are to be known.
        connection: where to; left out: the default connection of each process, as when chains are
            sampled in several.

    Returns:
        The function. At run time it raises what ``function`` and the server raise.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no function or connection, and, where it is called, for
            arguments of unknown shape; DTYPE_NOT_SUPPORTED for complex ones.

    Example:
        >>> import backhaul as bh, pytensor, pytensor.tensor as pt
        >>> double = bh.adapters.pytensor.wrap(lambda x: 2.0 * x, result=pt.dvector)
        >>> x = pt.dvector("x")
        >>> pytensor.function([x], pytensor.grad(double(x).sum(), x))([1.0, 1.0])
        array([2., 2.])
    """
    evaluations = Evaluations(function, connection)
    return _on_variables(evaluations, result, ())


def logp(
    function: Callable[..., Any],
    *,
    rejected: type[Exception] | tuple[type[Exception], ...] = LinearAlgebraError,
    connection: Connection | None = None,
) -> Callable[..., Any]:
    """A log density as a function of PyTensor's variables, for ``pymc.Potential`` and ``pymc.CustomDist``.

    −∞ and NaN are values, which a sampler rejects.

    Args:
        function: of tensors, with a real number as its result.
        rejected: errors that mean −∞ too, with a gradient of zeros: a proposal for which a matrix has no
            Cholesky factor ends no chain.
        connection: as for `wrap`.

    Raises:
        InvalidArgument: as `wrap`; shapes need not be known.

    Example:
        >>> import backhaul as bh, numpy as np, pytensor, pytensor.tensor as pt
        >>> def normal(x, covariance):
        ...     l = bh.linalg.cholesky(covariance)
        ...     z = bh.linalg.solve_triangular(l, x, lower=True)
        ...     return -0.5 * bh.sum(z * z) - bh.sum(bh.log(bh.diagonal(l)))
        >>> x, covariance = pt.dvector("x"), pt.dmatrix("covariance")
        >>> f = pytensor.function([x, covariance], bh.adapters.pytensor.logp(normal)(x, covariance))
        >>> f([1.0, 1.0], np.eye(2)), f([1.0, 1.0], -np.eye(2))
        (array(-1.), array(-inf))
    """
    evaluations = Evaluations(function, connection)
    errors = rejected if isinstance(rejected, tuple) else (rejected,)
    return _on_variables(evaluations, pt.TensorType("float64", ()), errors)


def _on_variables(
    evaluations: Evaluations, result: Any, rejected: tuple[type[Exception], ...]
) -> Callable[..., Any]:
    @functools.wraps(evaluations.function)
    def on_variables(*arguments: Any) -> Any:
        xs = [pt.as_tensor_variable(each) for each in arguments]
        for position, x in enumerate(xs):
            if np.dtype(x.dtype).kind == "c":
                raise make_error(
                    "DTYPE_NOT_SUPPORTED",
                    f"Argument {position} is {x.dtype}; PyTensor differentiates functions of real numbers. "
                    "Give real and imaginary part, and join them in the function.",
                    actual=x.dtype,
                )
        output = result or _result(evaluations, xs)
        wrt = tuple(i for i, x in enumerate(xs) if np.dtype(x.dtype).kind == "f")
        if output.ndim or np.dtype(output.dtype).kind != "f":
            return _Value(evaluations, wrt, output)(*xs)
        found = _Number(evaluations, wrt, output, rejected)(*xs, return_list=True)
        return found[0]

    return on_variables


def _result(evaluations: Evaluations, xs: Sequence[Any]) -> Any:
    """The type of the function's result."""
    for position, x in enumerate(xs):
        if None in x.type.shape:
            raise make_error(
                "INVALID_VALUE",
                f"The shape of argument {position}, {x.type}, is not known, nor that of the result. Give "
                "result=, for example result=pytensor.tensor.dvector; or specify_shape of the argument.",
                actual=x.type,
            )
    shape, dtype = evaluations.result([(x.type.shape, np.dtype(x.dtype)) for x in xs])
    return pt.TensorType(str(dtype), shape)


class _Remote(Op):
    """A question of a function at its arguments, which come first; those of ``wrt`` have derivatives."""

    __props__ = ("evaluations", "wrt", "output", "rejected")

    def __init__(
        self,
        evaluations: Evaluations,
        wrt: tuple[int, ...],
        output: Any,
        rejected: tuple[type[Exception], ...] = (),
    ) -> None:
        self.evaluations = evaluations
        self.wrt = wrt
        self.output = output
        self.rejected = rejected

    def _at(self, inputs: Sequence[Any]) -> tuple[Point, list[Array]]:
        """The point, and what comes after its arguments."""
        count = len(inputs) - self.further
        xs = [np.asarray(each) for each in inputs]
        return self.evaluations.at(xs[:count], self.wrt), xs[count:]

    @property
    def further(self) -> int:
        """How many inputs come after the function's arguments."""
        return 0

    def _types(self, xs: Sequence[Any]) -> list[Any]:
        """The types of the results."""
        raise NotImplementedError

    def _answer(self, inputs: Sequence[Any]) -> Sequence[Array]:
        raise NotImplementedError

    def make_node(self, *inputs: Any) -> Any:
        variables = [pt.as_tensor_variable(each) for each in inputs]
        outputs = [each() for each in self._types(variables)]
        return Apply(self, variables, outputs)

    def perform(self, node: Any, inputs: Sequence[Any], output_storage: Any) -> None:
        found = self._answer(inputs)
        for storage, array, variable in zip(output_storage, found, node.outputs, strict=True):
            storage[0] = np.asarray(array, variable.dtype)

    def pullback(self, inputs: Sequence[Any], outputs: Any, cts: Sequence[Any]) -> list[Any]:
        """Gradients of the inputs."""
        raise third_order()

    def pushforward(
        self, inputs: Sequence[Any], outputs: Any, tangents: Sequence[Any]
    ) -> list[Any]:
        """Tangents of the outputs."""
        raise third_order()

    def L_op(self, inputs: Sequence[Any], outputs: Any, cts: Sequence[Any]) -> list[Any]:
        """The name of `pullback` before PyTensor 3."""
        return self.pullback(inputs, outputs, cts)

    def R_op(self, inputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The name of `pushforward` before PyTensor 3."""
        return self.pushforward(inputs, (), tangents)

    def _by_x(self, xs: Sequence[Any], found: Sequence[Any]) -> list[Any]:
        """Gradients of all arguments from those of ``wrt``."""
        by_position = dict(zip(self.wrt, found, strict=True))
        return [by_position.get(i, x.zeros_like(dtype="float64")) for i, x in enumerate(xs)]

    def _of(self, kind: Any) -> Any:
        """Another question of the same function."""
        return kind(self.evaluations, self.wrt, self.output)


class _Value(_Remote):
    """y."""

    def _types(self, xs: Sequence[Any]) -> list[Any]:
        return [self.output]

    def _answer(self, inputs: Sequence[Any]) -> Sequence[Array]:
        return [self._at(inputs)[0].value()]

    def pullback(self, inputs: Sequence[Any], outputs: Any, cts: Sequence[Any]) -> list[Any]:
        if np.dtype(self.output.dtype).kind != "f":
            return [x.zeros_like(dtype="float64") for x in inputs]
        return self._by_x(inputs, self._of(_Pull)(*inputs, cts[0], return_list=True))

    def pushforward(
        self, inputs: Sequence[Any], outputs: Any, tangents: Sequence[Any]
    ) -> list[Any]:
        along = _along(self, inputs, tangents)
        found: list[Any] = self._of(_Push)(*inputs, *along, return_list=True)
        return found


class _Number(_Remote):
    """y, a real number, and its gradients by ``wrt``."""

    def _types(self, xs: Sequence[Any]) -> list[Any]:
        return [self.output, *(xs[i].type for i in self.wrt)]

    def _answer(self, inputs: Sequence[Any]) -> Sequence[Array]:
        try:
            value, gradients = self._at(inputs)[0].value_and_gradients()
        except self.rejected:
            return [np.array(-np.inf), *(np.zeros_like(inputs[i]) for i in self.wrt)]
        return [value, *gradients]

    def pullback(self, inputs: Sequence[Any], outputs: Any, cts: Sequence[Any]) -> list[Any]:
        ct, *directions = cts
        found = [y.zeros_like() if _is_zero(ct) else ct * y for y in outputs[1:]]
        if not all(map(_is_zero, directions)):
            along = _filled(directions, outputs[1:])
            one = pt.ones((), dtype=self.output.dtype)
            _, *products = self._of(_Second)(*inputs, one, *along, return_list=True)
            found = [a + b for a, b in zip(found, products, strict=True)]
        return self._by_x(inputs, found)

    def pushforward(
        self, inputs: Sequence[Any], outputs: Any, tangents: Sequence[Any]
    ) -> list[Any]:
        one = pt.ones((), dtype=self.output.dtype)
        along = _along(self, inputs, tangents)
        found: list[Any] = self._of(_Second)(*inputs, one, *along, return_list=True)
        return found


class _NumberAlone(_Remote):
    """The value of a `_Number` whose gradients nobody asks for."""

    def _types(self, xs: Sequence[Any]) -> list[Any]:
        return [self.output]

    def _answer(self, inputs: Sequence[Any]) -> Sequence[Array]:
        try:
            return [self._at(inputs)[0].value()]
        except self.rejected:
            return [np.array(-np.inf)]


class _Pull(_Remote):
    """Jᵀ·ct by ``wrt``; ct comes after the arguments."""

    @property
    def further(self) -> int:
        return 1

    def _types(self, xs: Sequence[Any]) -> list[Any]:
        return [xs[i].type for i in self.wrt]

    def _answer(self, inputs: Sequence[Any]) -> Sequence[Array]:
        point, (ct,) = self._at(inputs)
        return point.pullback([ct])[1][0]

    def pullback(self, inputs: Sequence[Any], outputs: Any, cts: Sequence[Any]) -> list[Any]:
        along = _filled(cts, outputs)
        dy, *products = self._of(_Second)(*inputs, *along, return_list=True)
        return [*self._by_x(inputs[:-1], products), dy]

    def pushforward(
        self, inputs: Sequence[Any], outputs: Any, tangents: Sequence[Any]
    ) -> list[Any]:
        *xs, ct = inputs
        *dxs, dct = tangents
        found: list[Any]
        _, *found = self._of(_Second)(*xs, ct, *_along(self, xs, dxs), return_list=True)
        if not _is_zero(dct):
            further = self._of(_Pull)(*xs, dct, return_list=True)
            found = [a + b for a, b in zip(found, further, strict=True)]
        return found


class _Push(_Remote):
    """J·dx, dx of ``wrt``, which come after the arguments."""

    @property
    def further(self) -> int:
        return len(self.wrt)

    def _types(self, xs: Sequence[Any]) -> list[Any]:
        return [self.output]

    def _answer(self, inputs: Sequence[Any]) -> Sequence[Array]:
        point, along = self._at(inputs)
        return point.pushforward([along])[1]

    def pullback(self, inputs: Sequence[Any], outputs: Any, cts: Sequence[Any]) -> list[Any]:
        count = len(inputs) - self.further
        xs, dxs = inputs[:count], inputs[count:]
        _, *products = self._of(_Second)(*xs, cts[0], *dxs, return_list=True)
        of_dxs = self._of(_Pull)(*xs, cts[0], return_list=True)
        return [*self._by_x(xs, products), *of_dxs]


class _Second(_Remote):
    """J·dx and H_ct·dx, dx of ``wrt``; ct and dx come after the arguments."""

    @property
    def further(self) -> int:
        return 1 + len(self.wrt)

    def _types(self, xs: Sequence[Any]) -> list[Any]:
        return [self.output, *(xs[i].type for i in self.wrt)]

    def _answer(self, inputs: Sequence[Any]) -> Sequence[Array]:
        point, (ct, *along) = self._at(inputs)
        ((products, dy),) = point.pullback_with_tangents(ct, [(along, None)])
        return [dy, *products]

    def pullback(self, inputs: Sequence[Any], outputs: Any, cts: Sequence[Any]) -> list[Any]:
        count = len(inputs) - self.further
        xs, ct, dxs = inputs[:count], inputs[count], inputs[count + 1 :]
        of_dy, *of_products = _filled(cts, outputs)
        by_dx = self._of(_Pull)(*xs, of_dy, return_list=True)
        if all(map(_is_zero, cts[1:])):  # J·dx alone was used
            _, *products = self._of(_Second)(*xs, of_dy, *dxs, return_list=True)
            return [*self._by_x(xs, products), ct.zeros_like(), *by_dx]
        # By dx it is linear; by all else a third derivative, which is an error once it is used.
        _, *further = self._of(_Second)(*xs, ct, *of_products, return_list=True)
        third = [grad_not_implemented(self, i, x, str(third_order())) for i, x in enumerate(inputs)]
        return [*third[: count + 1], *(a + b for a, b in zip(by_dx, further, strict=True))]


def _is_zero(tangent: Any) -> bool:
    """PyTensor 3 has a type for zero, and for tangents it was None before."""
    return tangent is None or isinstance(tangent.type, DisconnectedType)


def _filled(given: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    return [y.zeros_like() if _is_zero(x) else x for x, y in zip(given, like, strict=True)]


def _along(op: _Remote, inputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Tangents of ``wrt``."""
    return _filled([tangents[i] for i in op.wrt], [inputs[i] for i in op.wrt])


@rewriting.register_specialize
@node_rewriter([_Number])
def _without_gradients(fgraph: Any, node: Any) -> list[Any] | None:
    """A node whose gradients nobody asks for computes none."""
    op = node.op
    if not op.wrt or any(fgraph.clients[each] for each in node.outputs[1:]):
        return None
    alone = _NumberAlone(op.evaluations, op.wrt, op.output, op.rejected)(*node.inputs)
    return [alone, *node.outputs[1:]]
