"""Rules of products of arrays.

Those without conjugation are run as the einsum that they are. The others are linear in each operand
over the reals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from backhaul_proto.catalog import contractions, products
from backhaul_proto.catalog.avals import Aval, Shape
from backhaul_proto.catalog.contractions import Labels
from backhaul_server.engine.memory import Room
from backhaul_server.engine.ops.einsum import Einsum
from backhaul_server.engine.rules import Array, Bilinear, Namespace, Rule, rule


class AsEinsum(Einsum):
    """Base of rules of products that are an einsum: a call is prepared as that one."""

    labels: Callable[..., Labels]
    """``labels(*shapes, **attributes)`` gives the einsum for operands of these shapes."""

    def prepare_within(
        self, room: Room, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        labels, output = self.labels(*(each.shape for each in avals), **attributes)
        return super().prepare_within(room, avals, {"labels": labels, "output": output})


@rule("dot")
class Dot(AsEinsum):
    """Over the last axis of a and the last but one of b."""

    labels = staticmethod(contractions.dot_labels)


@rule("inner")
class Inner(AsEinsum):
    """Over the last axis of both."""

    labels = staticmethod(contractions.inner_labels)


@rule("tensordot")
class Tensordot(AsEinsum):
    """Over pairs of axes."""

    labels = staticmethod(contractions.tensordot_labels)


@rule("matvec")
class Matvec(AsEinsum):
    """Matrices times vectors."""

    labels = staticmethod(contractions.matvec_labels)


@rule("linalg.multi_dot")
class MultiDot(AsEinsum):
    """A chain of matrices."""

    labels = staticmethod(contractions.multi_dot_labels)


@rule("vdot")
class Vdot(Bilinear):
    """y = sum of conj(a) b."""

    def forward(self, xp: Any, a: Array, b: Array) -> Array:
        return xp.vecdot(xp.reshape(a, (-1,)), xp.reshape(b, (-1,)))

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (
            lambda: F.multiply(F.conj(ct), F.reshape(b, shape=a.shape)),
            lambda: F.multiply(ct, F.reshape(a, shape=b.shape)),
        )


class AlongAxis(Bilinear):
    """Base of products along an axis of both operands, which is counted from the end."""

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        axis = products.common_axis((avals[0], avals[1]), attributes["axis"], self.name)
        return self, {"axis": axis}


@rule("vecdot")
class Vecdot(AlongAxis):
    """y = sum of conj(a) b along an axis."""

    def forward(self, xp: Any, a: Array, b: Array, axis: int) -> Array:
        return xp.vecdot(a, b, axis=axis)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array, axis: int) -> Any:
        at = len(ct.shape) + 1 + axis
        kept = F.reshape(ct, shape=(*ct.shape[:at], 1, *ct.shape[at:]))
        return (lambda: F.multiply(F.conj(kept), b), lambda: F.multiply(kept, a))


@rule("cross")
class Cross(AlongAxis):
    """y = a x b. The triple product is cyclic: ct.(da x b) = da.(b x ct)."""

    def forward(self, xp: Any, a: Array, b: Array, axis: int) -> Array:
        ahead, behind = xp.asarray([1, 2, 0]), xp.asarray([2, 0, 1])
        forwards = xp.multiply(xp.take(a, ahead, axis=axis), xp.take(b, behind, axis=axis))
        backwards = xp.multiply(xp.take(a, behind, axis=axis), xp.take(b, ahead, axis=axis))
        return xp.subtract(forwards, backwards)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array, axis: int) -> Any:
        return (
            lambda: F.cross(F.conj(b), ct, axis=axis),
            lambda: F.cross(ct, F.conj(a), axis=axis),
        )


@rule("vecmat")
class Vecmat(Bilinear):
    """y = conj(a) b, a vector and b a matrix."""

    def forward(self, xp: Any, a: Array, b: Array) -> Array:
        return xp.matmul(xp.conj(a)[..., None, :], b)[..., 0, :]

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        def of_a() -> Array:
            column = F.reshape(F.conj(ct), shape=(*ct.shape, 1))
            g = F.matmul(b, column)
            return F.reshape(g, shape=g.shape[:-1])

        def of_b() -> Array:
            column = F.reshape(a, shape=(*a.shape, 1))
            return F.multiply(column, F.reshape(ct, shape=(*ct.shape[:-1], 1, ct.shape[-1])))

        return (of_a, of_b)


@rule("linalg.outer")
@rule("outer")
class Outer(Bilinear):
    """y = a b^T of the flattened operands."""

    def forward(self, xp: Any, a: Array, b: Array) -> Array:
        return xp.multiply(xp.reshape(a, (-1, 1)), xp.reshape(b, (1, -1)))

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        def of_a() -> Array:
            return F.reshape(F.matmul(ct, F.conj(F.reshape(b, shape=(y.shape[1],)))), shape=a.shape)

        def of_b() -> Array:
            return F.reshape(F.matmul(F.conj(F.reshape(a, shape=(y.shape[0],))), ct), shape=b.shape)

        return (of_a, of_b)


@rule("kron")
class Kron(Bilinear):
    """y = a ⊗ b: the outer product, its axes joined in pairs."""

    def forward(self, xp: Any, a: Array, b: Array) -> Array:
        of_a, of_b, shape = _paired(a.shape, b.shape)
        return xp.reshape(xp.multiply(xp.reshape(a, of_a), xp.reshape(b, of_b)), shape)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        of_a, of_b, _ = _paired(a.shape, b.shape)
        pairs = tuple(n * m for n, m in zip(of_a, of_b, strict=True))
        split = F.reshape(ct, shape=pairs)

        def of(operand: Array, own: Shape, other: Array, others: Shape) -> Array:
            product = F.multiply(split, F.conj(F.reshape(other, shape=others)))
            return F.reshape(F.unbroadcast(product, shape=own), shape=operand.shape)

        return (lambda: of(a, of_a, b, of_b), lambda: of(b, of_b, a, of_a))


def _paired(a: Shape, b: Shape) -> tuple[Shape, Shape, Shape]:
    """Shapes in which a and b broadcast to pairs of axes, and the shape with these joined."""
    rank = max(len(a), len(b))
    a, b = ((1,) * (rank - len(shape)) + shape for shape in (a, b))
    of_a = tuple(size for n in a for size in (n, 1))
    of_b = tuple(size for m in b for size in (1, m))
    return of_a, of_b, tuple(n * m for n, m in zip(a, b, strict=True))
