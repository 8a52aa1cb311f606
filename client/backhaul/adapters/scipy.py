"""SciPy: value, gradient and H·v of a remote function for `scipy.optimize.minimize`.

>>> import numpy as np, backhaul as bh
>>> from scipy.optimize import minimize
>>> def rosenbrock(x):
...     return bh.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
>>> at = bh.adapters.scipy.objective(rosenbrock)
>>> found = minimize(at.fun, np.zeros(4), jac=at.jac, hessp=at.hessp, method="trust-ncg")
>>> found.x.round(6)
array([1., 1., 1., 1.])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from backhaul.adapters.evaluation import Evaluations, Point
from backhaul.connection import Connection
from backhaul_proto.errors import make_error

__all__ = ["Objective", "objective"]

Array = np.ndarray[Any, Any]


def objective(
    function: Callable[..., Any],
    like: Sequence[Any] | None = None,
    *,
    connection: Connection | None = None,
) -> Objective:
    """A real function of tensors as the functions that SciPy's optimisers ask.

    Args:
        function: gets the vector x as a tensor of shape (n,), float64, and returns a real tensor of one
            element. With ``like``, it gets the parts of x, one argument each.
        like: arrays, or shapes, of the arguments that x is made of, one after the other; `Objective.pack`
            and `Objective.unpack` go between them and x.
        connection: where to; left out: the default connection.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no function or connection.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> def loss(w, b):
        ...     return bh.sum((w * 2.0 + b - 1.0) ** 2)
        >>> at = bh.adapters.scipy.objective(loss, [np.zeros(3), 0.0])
        >>> at.jac(at.pack(np.ones(3), 1.0))
        array([ 8.,  8.,  8., 12.])
    """
    parts = None if like is None else tuple(_shape(each) for each in like)
    return Objective(function, parts, connection)


class Objective:
    """Value, gradient and H·v at a point, for `scipy.optimize.minimize` and its kin.

    `fun` and `jac` at one x are one round trip together, whichever comes first; each `hessp` is one,
    and sends its direction alone. Threads may share it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        shapes: tuple[tuple[int, ...], ...] | None,
        connection: Connection | None,
    ) -> None:
        self._evaluations = Evaluations(function, connection)
        self._shapes = shapes
        self._last: _Known | None = None

    def fun(self, x: Any) -> float:
        """The value at x, of shape (n,).

        Raises:
            NonScalarLoss, InvalidArgument (COMPLEX_LOSS): the function's result is no real number.
            BackhaulError: what the function raises, or the server.
        """
        return self._at(x).value

    def jac(self, x: Any) -> Array:
        """The gradient at x, of shape (n,). Raises as `fun`."""
        return self._at(x).gradient.copy()

    def fun_and_jac(self, x: Any) -> tuple[float, Array]:
        """Both, for ``minimize(..., jac=True)``. Raises as `fun`."""
        at = self._at(x)
        return at.value, at.gradient.copy()

    def hessp(self, x: Any, p: Any) -> Array:
        """H(x)·p, of shape (n,). Raises as `fun`, and HvpNotSupported.

        Args:
            x: the point.
            p: the direction, of shape (n,).
        """
        return self._products(x, [np.asarray(p, np.float64)])[0]

    def hess(self, x: Any) -> Array:
        """The whole Hessian at x, of shape (n, n): n products in one round trip. Raises as `hessp`."""
        return np.stack(self._products(x, list(np.eye(np.size(x)))), axis=1)

    def pack(self, *arguments: Any) -> Array:
        """The vector x that the arguments make, as ``like`` gave them.

        Raises:
            InvalidArgument: SHAPE_MISMATCH for other shapes, or another number of arguments.
        """
        shapes = self._shapes
        arrays = [np.asarray(each, np.float64) for each in arguments]
        given = tuple(each.shape for each in arrays)
        fits = len(given) == 1 if shapes is None else given == shapes
        if not fits:
            expected = "one argument" if shapes is None else f"arguments of shapes {shapes}"
            raise make_error(
                "SHAPE_MISMATCH",
                f"pack() was given arguments of shapes {given}, and the function has {expected}.",
                expected=shapes,
                actual=given,
            )
        return np.concatenate([each.ravel() for each in arrays]) if arrays else np.zeros(0)

    def unpack(self, x: Any) -> tuple[Array, ...]:
        """The arguments that a vector x is made of.

        Raises:
            InvalidArgument: SHAPE_MISMATCH for a vector of another length.
        """
        vector = np.asarray(x, np.float64)
        if self._shapes is None:
            return (vector,)
        sizes = [math.prod(each) for each in self._shapes]
        if vector.shape != (sum(sizes),):
            raise make_error(
                "SHAPE_MISMATCH",
                f"x has shape {vector.shape}; arguments of shapes {self._shapes} make a vector of "
                f"{sum(sizes)} elements.",
                expected=(sum(sizes),),
                actual=vector.shape,
            )
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return tuple(part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True))

    def _at(self, x: Any) -> _Known:
        vector, known = self._known(x)
        if known is None:
            point = self._point(vector)
            value, gradients = point.value_and_gradients()
            known = self._last = _Known(vector, point, float(value.item()), self._joined(gradients))
        return known

    def _products(self, x: Any, directions: Sequence[Array]) -> list[Array]:
        vector, known = self._known(x)
        point = self._point(vector) if known is None else known.point
        value, gradients, products = point.hvp([self.unpack(each) for each in directions])
        if known is None:
            self._last = _Known(vector, point, float(value.item()), self._joined(gradients))
        return [self._joined(each) for each in products]

    def _known(self, x: Any) -> tuple[Array, _Known | None]:
        """The vector, as one of our own since SciPy changes its vectors, and what is known of it."""
        vector = np.array(x, np.float64)
        last = self._last
        known = last is not None and vector.tobytes() == last.x.tobytes()
        return vector, last if known else None

    def _point(self, vector: Array) -> Point:
        return self._evaluations.at(self.unpack(vector))

    @staticmethod
    def _joined(parts: Sequence[Array]) -> Array:
        return np.concatenate([each.ravel() for each in parts]) if len(parts) != 1 else parts[0]


class _Known(NamedTuple):
    """What was asked last."""

    x: Array
    point: Point
    value: float
    gradient: Array


def _shape(like: Any) -> tuple[int, ...]:
    """The shape of an array, or a shape that was given as such."""
    if isinstance(like, tuple):
        return tuple(int(each) for each in like)
    return np.shape(like)
