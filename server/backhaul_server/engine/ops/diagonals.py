"""Rules of triangles and diagonals: all linear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.axes import moved
from backhaul_proto.catalog.diagonals import diagonal_axes, diagonal_length
from backhaul_proto.catalog.ops import Ints
from backhaul_server.engine.rules import RULES, Array, Linear, Namespace, Rule, rule

Prepared = tuple[Rule, dict[str, Any]]


class Triangle(Linear):
    """A projection, its own adjoint."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        rows, columns = avals[0].shape[-2:]
        return self, {"k": max(-rows, min(attributes["k"], columns))}

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, k: int = 0) -> Any:
        return (lambda: getattr(F, self.name)(ct, k=k),)


@rule("tril")
class Tril(Triangle):
    """y keeps x's lower triangle."""

    function = "tril"


@rule("triu")
class Triu(Triangle):
    """y keeps x's upper triangle."""

    function = "triu"


@rule("diagonal")
class Diagonal(Linear):
    """y is a diagonal of x; the adjoint puts it there, among zeros."""

    function = "diagonal"

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, _along(avals[0], **attributes)

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, offset: int, axis1: int, axis2: int
    ) -> Any:
        return (lambda: _embedded(F, ct, x, offset, axis1, axis2),)


@rule("trace")
class Trace(Linear):
    """y sums a diagonal of x; the adjoint repeats along it."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, _along(avals[0], **attributes)

    def forward(self, xp: Any, x: Array, offset: int, axis1: int, axis2: int) -> Array:
        return xp.sum(xp.diagonal(x, offset=offset, axis1=axis1, axis2=axis2), axis=-1)

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, offset: int, axis1: int, axis2: int
    ) -> Any:
        n = diagonal_length(x.shape[axis1], x.shape[axis2], offset)

        def repeated() -> Array:
            column = F.reshape(ct, shape=(*ct.shape, 1))
            along = F.broadcast_to(column, shape=(*ct.shape, n))
            return _embedded(F, along, x, offset, axis1, axis2)

        return (repeated,)


@rule("linalg.diagonal")
class LastDiagonal(Diagonal):
    """The diagonal of the last two axes."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, _along(avals[0], attributes["offset"], -2, -1)


@rule("linalg.trace")
class LastTrace(Trace):
    """The trace of the last two axes."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, _along(avals[0], attributes["offset"], -2, -1)


@rule("diag")
class Diag(Diagonal):
    """From a matrix the diagonal; from a vector the matrix, as from_diagonal."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        (x,), k = avals, attributes["k"]
        if x.ndim == 2:
            return self, _along(x, k, 0, 1)
        n = x.size + abs(k)
        return RULES["from_diagonal"], {"shape": (n, n), "offset": k}


@rule("from_diagonal")
class FromDiagonal(Linear):
    """y has x on a diagonal and is zero elsewhere; the adjoint takes the diagonal."""

    def forward(self, xp: Any, x: Array, shape: Ints, offset: int) -> Array:
        *batch, n = x.shape
        rows, columns = shape
        flat = xp.zeros((*batch, rows * columns), dtype=x.dtype)
        if n:
            step = columns + 1
            start = offset if offset >= 0 else -offset * columns
            flat[..., start : start + (n - 1) * step + 1 : step] = x
        return xp.reshape(flat, (*batch, rows, columns))

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, shape: Ints, offset: int) -> Any:
        return (lambda: F.diagonal(ct, offset=offset, axis1=-2, axis2=-1),)


def _along(x: Aval, offset: int, axis1: int, axis2: int) -> dict[str, Any]:
    """Where the diagonal runs: axes counted from the front, and no offset beyond the matrix."""
    first, second = diagonal_axes(x, axis1, axis2)
    rows, columns = x.shape[first], x.shape[second]
    return {"offset": max(-rows, min(offset, columns)), "axis1": first, "axis2": second}


def _embedded(F: Namespace, ct: Array, x: Array, offset: int, axis1: int, axis2: int) -> Array:
    """An array of x's shape with ct on the diagonal and zeros elsewhere."""
    matrices = F.from_diagonal(ct, shape=(x.shape[axis1], x.shape[axis2]), offset=offset)
    ndim = len(x.shape)
    if (axis1, axis2) == (ndim - 2, ndim - 1):
        return matrices
    return F.permute_dims(matrices, axes=moved((-2, -1), (axis1, axis2), ndim))
