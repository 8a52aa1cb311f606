"""Products of vectors and arrays that are no plain einsum: with conjugates, flattened, or crossed."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.contractions import check_core, sizes_differ
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes, canonical_axis
from backhaul_proto.errors import make_error


def _vecmat(avals: tuple[Aval, ...]) -> Aval:
    a, b = (each.shape for each in avals)
    check_core(a, b, "vecmat", 1, 2, a[-1:], b[-2:-1])
    return aval((*broadcast_shapes([a[:-1], b[:-2]]), b[-1]), promote(*avals))


def _vdot(avals: tuple[Aval, ...]) -> Aval:
    a, b = avals
    if a.size != b.size:
        raise make_error(
            "SHAPE_MISMATCH",
            f"vdot: arrays of shapes {a.shape} and {b.shape} have {a.size} and {b.size} elements, which "
            "must be as many.",
            expected=a.size,
            actual=b.size,
        )
    return aval((), promote(a, b))


def common_axis(avals: tuple[Aval, ...], axis: int, op: str) -> int:
    """The axis counted from the end, which is the same one for both operands.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE when it is out of range, or is counted from the front of arrays
            with different numbers of axes.
    """
    a, b = avals
    for each in avals:
        canonical_axis(axis, each.ndim)
    if axis >= 0 and a.ndim != b.ndim:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{op}: axis={axis} is another one in an array of {a.ndim} axes than in one of {b.ndim}; "
            "count it from the end.",
            attribute="axis",
            actual=axis,
        )
    return axis if axis < 0 else axis - a.ndim


def _vecdot(avals: tuple[Aval, ...], axis: int) -> Aval:
    at = common_axis(avals, axis, "vecdot")
    a, b = (list(each.shape) for each in avals)
    n, m = a.pop(at), b.pop(at)
    if n != m:
        raise sizes_differ("vecdot", n, m, avals[0].shape, avals[1].shape)
    return aval(broadcast_shapes([tuple(a), tuple(b)]), promote(*avals))


def _cross(avals: tuple[Aval, ...], axis: int) -> Aval:
    at = common_axis(avals, axis, "cross")
    dtype = promote(*avals)
    if dtype.kind == "b":
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            "cross: bool arrays cannot be subtracted; convert one with astype().",
            actual="bool",
        )
    a, b = (each.shape for each in avals)
    if a[at] != 3 or b[at] != 3:
        raise make_error(
            "SHAPE_MISMATCH",
            f"cross: shapes {a} and {b} have sizes {a[at]} and {b[at]} along axis {axis}; both must be 3.",
            expected=3,
            actual=(a[at], b[at]),
        )
    return aval(broadcast_shapes([a, b]), dtype)


def _outer(avals: tuple[Aval, ...]) -> Aval:
    return aval((avals[0].size, avals[1].size), promote(*avals))


def _vector_outer(avals: tuple[Aval, ...]) -> Aval:
    for operand, each in zip(("x1", "x2"), avals, strict=True):
        if each.ndim != 1:
            raise make_error(
                "SHAPE_MISMATCH",
                f"linalg.outer: {operand} must be a vector, not of shape {each.shape}. The function outer "
                "flattens its operands.",
                operand=operand,
                actual=each.shape,
            )
    return _outer(avals)


def _kron(avals: tuple[Aval, ...]) -> Aval:
    rank = max(each.ndim for each in avals)
    a, b = ((1,) * (rank - each.ndim) + each.shape for each in avals)
    return aval(tuple(n * m for n, m in zip(a, b, strict=True)), promote(*avals))


_AXIS = Attribute("axis", "int", -1, doc="The axis that the vectors lie along.")

register(
    Op(
        "vdot",
        ("a", "b"),
        _vdot,
        "The sum of conj(a) b over all elements, both arrays flattened.",
        promotes=True,
        samples=(
            Sample(((3,), (3,))),
            Sample(((2, 3), (2, 3))),
            Sample(((2, 3), (6,))),
            Sample(((), ())),
            Sample(((0,), (0, 2))),
        ),
    )
)
register(
    Op(
        "vecdot",
        ("x1", "x2"),
        _vecdot,
        "The sum of conj(x1) x2 along an axis, other axes broadcasting.",
        attributes=(_AXIS,),
        promotes=True,
        aliases=("linalg.vecdot",),
        samples=(
            Sample(((2, 3), (2, 3))),
            Sample(((2, 3), (3,))),
            Sample(((3, 2), (3, 2)), {"axis": 0}),
            Sample(((4, 1, 3, 2), (5, 3, 1)), {"axis": -2}),
            Sample(((2, 0), (2, 0))),
            Sample(((1,), (1,))),
        ),
    )
)
register(
    Op(
        "vecmat",
        ("x1", "x2"),
        _vecmat,
        "Conjugated vectors times matrices: x1 over its last axis, x2 over its last two.\n\n"
        "Other axes broadcast.",
        promotes=True,
        samples=(
            Sample(((2,), (2, 3))),
            Sample(((4, 2), (2, 3))),
            Sample(((4, 1, 2), (5, 2, 3))),
            Sample(((0,), (0, 3))),
        ),
    )
)
_OUTER = (Sample(((2,), (3,))), Sample(((0,), (3,))), Sample(((1,), (1,))))
register(
    Op(
        "outer",
        ("a", "b"),
        _outer,
        "The products of all elements of a with all of b, both arrays flattened: a matrix.",
        promotes=True,
        samples=(*_OUTER, Sample(((2, 2), (3, 1))), Sample(((), (3,)))),
    )
)
register(
    Op(
        "linalg.outer",
        ("x1", "x2"),
        _vector_outer,
        "The products of all elements of the vector x1 with all of the vector x2: a matrix.",
        promotes=True,
        samples=_OUTER,
    )
)
register(
    Op(
        "kron",
        ("a", "b"),
        _kron,
        "The Kronecker product: blocks of b, scaled by the elements of a.\n\n"
        "Along each axis the size is the product of a's and b's; the array with fewer axes gets further "
        "ones of size 1 in front. NumPy's: there are no batch axes.",
        promotes=True,
        samples=(
            Sample(((2, 3), (3, 2))),
            Sample(((2,), (3,))),
            Sample(((2, 2), (3,))),
            Sample(((2,), (2, 1, 3))),
            Sample(((), (2, 2))),
            Sample(((), ())),
            Sample(((0, 2), (3, 2))),
        ),
    )
)
register(
    Op(
        "cross",
        ("x1", "x2"),
        _cross,
        "The cross product of vectors in three dimensions, other axes broadcasting.",
        attributes=(_AXIS,),
        promotes=True,
        aliases=("linalg.cross",),
        samples=(
            Sample(((3,), (3,))),
            Sample(((2, 3), (3,))),
            Sample(((3, 2), (3, 2)), {"axis": 0}),
            Sample(((2, 1, 3), (4, 3))),
            Sample(((0, 3), (0, 3))),
        ),
    )
)
