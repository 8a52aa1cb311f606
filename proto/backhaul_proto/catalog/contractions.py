"""Products that are an einsum: NumPy's dot, inner, tensordot, and chains of matrices.

Each says which einsum it is, for operands of given shapes; the server runs it as that.
"""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, Shape, aval
from backhaul_proto.catalog.ops import Attribute, Ints, Op, Sample, register
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes, canonical_axes, canonical_axis
from backhaul_proto.errors import BackhaulError, make_error

Labels = tuple[tuple[Ints, ...], Ints]
"""An einsum: one tuple of labels an operand, and the output's; -1 is the ellipsis."""


def dot_labels(a: Shape, b: Shape) -> Labels:
    """NumPy's dot: over the last axis of a and the last but one of b, or its only one."""
    first, second = _labels(a, b)
    if not first or not second:
        return (first, second), first + second
    at = -2 if len(second) > 1 else -1
    return _joined(a, b, (len(first) - 1,), (len(second) + at,), "dot")


def inner_labels(a: Shape, b: Shape) -> Labels:
    """NumPy's inner: over the last axis of both."""
    first, second = _labels(a, b)
    if not first or not second:
        return (first, second), first + second
    return _joined(a, b, (len(first) - 1,), (len(second) - 1,), "inner")


def tensordot_labels(a: Shape, b: Shape, axes: int | tuple[Ints, ...]) -> Labels:
    """Over the last ``axes`` of a and the first of b, or over the axes listed for each."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(len(a), len(b)):
            raise make_error(
                "INVALID_ATTRIBUTE",
                f"tensordot: axes={axes} of arrays with {len(a)} and {len(b)} axes.",
                attribute="axes",
                expected=f"0..{min(len(a), len(b))}",
                actual=axes,
            )
        return _joined(a, b, tuple(range(len(a) - axes, len(a))), tuple(range(axes)), "tensordot")
    if len(axes) != 2 or len(axes[0]) != len(axes[1]):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"tensordot: axes={axes} must be an integer, or two lists of equal length.",
            attribute="axes",
            actual=axes,
        )
    listed = []
    for each, shape in zip(axes, (a, b), strict=True):
        canonical_axes(each, len(shape))
        listed.append(tuple(canonical_axis(axis, len(shape), name="axes") for axis in each))
    return _joined(a, b, listed[0], listed[1], "tensordot")


def matvec_labels(a: Shape, b: Shape) -> Labels:
    """Matrices times vectors, other axes broadcasting."""
    check_core(a, b, "matvec", 2, 1, a[-1:], b[-1:])
    return ((-1, 0, 1), (-1, 1)), (-1, 0)


def multi_dot_labels(*shapes: Shape) -> Labels:
    """A chain of matrices; the first and the last may be vectors."""
    if len(shapes) < 2:
        raise make_error(
            "OPERAND_COUNT",
            f"multi_dot multiplies two arrays or more, {len(shapes)} given.",
            expected="at least 2",
            actual=len(shapes),
        )
    terms: list[Ints] = []
    size = None
    for position, shape in enumerate(shapes):
        inside = 0 < position < len(shapes) - 1
        if len(shape) != 2 and (inside or len(shape) != 1):
            raise make_error(
                "SHAPE_MISMATCH",
                f"multi_dot: operand {position} has shape {shape}; it must be a matrix"
                f"{'' if inside else ' or a vector'}.",
                operand=position,
                actual=shape,
            )
        if size is not None and shape[0] != size:
            raise sizes_differ("multi_dot", size, shape[0], shapes[position - 1], shape)
        size = shape[-1]
        terms.append((position, position + 1) if len(shape) == 2 else (max(position, 1),))
    output = (terms[0][:1] if len(shapes[0]) == 2 else ()) + (
        terms[-1][-1:] if len(shapes[-1]) == 2 else ()
    )
    return tuple(terms), output


def _labels(a: Shape, b: Shape) -> tuple[Ints, Ints]:
    return tuple(range(len(a))), tuple(range(len(a), len(a) + len(b)))


def _joined(a: Shape, b: Shape, of_a: Ints, of_b: Ints, op: str) -> Labels:
    """The einsum that sums over pairs of axes and keeps the others, a's first."""
    first, second = _labels(a, b)
    renamed = list(second)
    for i, j in zip(of_a, of_b, strict=True):
        if a[i] != b[j]:
            raise sizes_differ(op, a[i], b[j], a, b)
        renamed[j] = first[i]
    kept = [label for i, label in enumerate(first) if i not in of_a]
    kept += [label for j, label in enumerate(second) if j not in of_b]
    return (first, tuple(renamed)), tuple(kept)


def sizes_differ(op: str, size: int, other: int, a: Shape, b: Shape) -> BackhaulError:
    """The error for axes of different sizes that are summed over together."""
    return make_error(
        "SHAPE_MISMATCH",
        f"{op}: shapes {a} and {b} do not fit: the axes that are summed over have sizes {size} and "
        f"{other}, which must be equal.",
        expected=size,
        actual=other,
    )


def check_core(
    a: Shape, b: Shape, op: str, of_a: int, of_b: int, summed: Shape, other: Shape
) -> None:
    """Check the axes that a product acts on, of operands whose other axes broadcast."""
    for operand, shape, wanted in (("x1", a, of_a), ("x2", b, of_b)):
        if len(shape) < wanted:
            raise make_error(
                "SHAPE_MISMATCH",
                f"{op}: {operand} of shape {shape} must have at least {wanted} axis(es).",
                operand=operand,
                actual=shape,
            )
    if summed != other:
        raise sizes_differ(op, summed[0], other[0], a, b)


def _einsum_shape(labels: Labels, *shapes: Shape) -> Shape:
    sizes = {
        label: size
        for term, shape in zip(labels[0], shapes, strict=True)
        for label, size in zip(term, shape, strict=True)
    }
    return tuple(sizes[label] for label in labels[1])


def _dot(avals: tuple[Aval, ...]) -> Aval:
    a, b = (each.shape for each in avals)
    return aval(_einsum_shape(dot_labels(a, b), a, b), promote(*avals))


def _inner(avals: tuple[Aval, ...]) -> Aval:
    a, b = (each.shape for each in avals)
    return aval(_einsum_shape(inner_labels(a, b), a, b), promote(*avals))


def _tensordot(avals: tuple[Aval, ...], axes: int | tuple[Ints, ...]) -> Aval:
    a, b = (each.shape for each in avals)
    return aval(_einsum_shape(tensordot_labels(a, b, axes), a, b), promote(*avals))


def _multi_dot(avals: tuple[Aval, ...]) -> Aval:
    shapes = [each.shape for each in avals]
    return aval(_einsum_shape(multi_dot_labels(*shapes), *shapes), promote(*avals))


def _matvec(avals: tuple[Aval, ...]) -> Aval:
    a, b = (each.shape for each in avals)
    matvec_labels(a, b)
    return aval((*broadcast_shapes([a[:-2], b[:-1]]), a[-2]), promote(*avals))


register(
    Op(
        "dot",
        ("a", "b"),
        _dot,
        "NumPy's dot: the sum of products over the last axis of a and the last but one of b.\n\n"
        "Of vectors their inner product (without conjugation), of matrices the matrix product, with a 0-d "
        "operand the product. Unlike `matmul`, further axes do not go together: the result has those of "
        "a, then those of b.",
        promotes=True,
        samples=(
            Sample(((2, 3), (3, 4))),
            Sample(((3,), (3,))),
            Sample(((2, 3), (3,))),
            Sample(((3,), (2, 3, 4))),
            Sample(((2, 2, 3), (2, 3, 4))),
            Sample(((), (2, 3))),
            Sample(((2, 3), ())),
            Sample(((), ())),
            Sample(((2, 0), (0, 3))),
            Sample(((1, 1), (1,))),
        ),
    )
)
register(
    Op(
        "inner",
        ("a", "b"),
        _inner,
        "The sum of products over the last axis of both, without conjugation.\n\n"
        "The result has the other axes of a, then those of b.",
        promotes=True,
        samples=(
            Sample(((3,), (3,))),
            Sample(((2, 3), (4, 3))),
            Sample(((2, 2, 3), (3,))),
            Sample(((), (2,))),
            Sample(((0,), (0,))),
        ),
    )
)
register(
    Op(
        "matvec",
        ("x1", "x2"),
        _matvec,
        "Matrices times vectors: x1 over its last two axes, x2 over its last, other axes broadcasting.",
        promotes=True,
        samples=(
            Sample(((2, 3), (3,))),
            Sample(((2, 3), (4, 3))),
            Sample(((4, 1, 2, 3), (5, 3))),
            Sample(((2, 0), (0,))),
        ),
    )
)
register(
    Op(
        "tensordot",
        ("a", "b"),
        _tensordot,
        "The sum of products over pairs of axes of a and b.\n\n"
        "The result has the other axes of a, then those of b.",
        attributes=(
            Attribute(
                "axes",
                "paired_axes",
                2,
                keyword_only=False,
                doc="How many: the last of a with the first of b, in order. Or two lists: the axes of a, "
                "and those of b that they go with.",
            ),
        ),
        promotes=True,
        aliases=("linalg.tensordot",),
        samples=(
            Sample(((2, 3, 4), (3, 4, 2))),
            Sample(((2, 3), (3, 4)), {"axes": 1}),
            Sample(((2, 3), (4,)), {"axes": 0}),
            Sample(((2, 3, 4), (4, 2, 5)), {"axes": [[2, 0], [0, 1]]}),
            Sample(((2, 3), (3, 2)), {"axes": [[0, -1], [-1, 0]]}),
            Sample(((2, 3), (2,)), {"axes": [[], []]}),
            Sample(((2, 0), (0, 3)), {"axes": (1, 0)}),
            Sample(((), ()), {"axes": 0}),
        ),
    )
)
register(
    Op(
        "linalg.multi_dot",
        ("*arrays",),
        _multi_dot,
        "The matrix product of two arrays or more, in the order that takes the fewest operations.\n\n"
        "The first and the last may be vectors: a row, and a column.",
        promotes=True,
        samples=(
            Sample(((2, 3), (3, 4), (4, 2))),
            Sample(((3,), (3, 4), (4,))),
            Sample(((2, 3), (3, 2), (2, 4), (4,))),
            Sample(((2,), (2,))),
        ),
    )
)
