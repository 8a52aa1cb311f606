"""Linear systems: inverses, solutions, triangular ones, and least squares. Batch axes come first."""

from __future__ import annotations

from typing import Final, NoReturn

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.linalg import square
from backhaul_proto.catalog.manipulation import matrix_shape
from backhaul_proto.catalog.ops import Attribute, Domain, Op, Sample, register
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes, floating
from backhaul_proto.errors import make_error


def _inv(avals: tuple[Aval, ...]) -> Aval:
    return square(avals[0], "x")


def _system(avals: tuple[Aval, ...], op: str) -> Aval:
    """The aval of x with a x = b, or nearly: b is a vector when it has one axis, else matrices."""
    a, b = avals
    if not b.ndim:
        raise make_error(
            "SHAPE_MISMATCH",
            f"{op}: b is 0-d; it must be a vector, a matrix or a stack of matrices.",
            operand="b",
        )
    rows = b.shape[-1] if b.ndim == 1 else b.shape[-2]
    if rows != a.shape[-2]:
        hint = (
            ""
            if b.ndim == 1 or b.shape[-1] != a.shape[-2]
            else " A stack of vectors is given as b[..., None]."
        )
        raise make_error(
            "SHAPE_MISMATCH",
            f"{op}: a of shape {a.shape} has {a.shape[-2]} rows, b of shape {b.shape} has {rows}; "
            f"they must agree.{hint}",
            expected=a.shape[-2],
            actual=rows,
        )
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    columns = b.shape[-1:] if b.ndim > 1 else ()
    return aval((*batch, a.shape[-1], *columns), floating(promote(a, b)))


def _solve(avals: tuple[Aval, ...]) -> Aval:
    square(avals[0], "a")
    return _system(avals, "solve")


def _solve_triangular(
    avals: tuple[Aval, ...], trans: str, lower: bool, unit_diagonal: bool
) -> Aval:
    if trans not in ("N", "T", "C"):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"solve_triangular: trans={trans!r} must be 'N' (a x = b), 'T' (a^T x = b) or 'C' (a^H x = b).",
            attribute="trans",
            expected="N, T or C",
            actual=trans,
        )
    square(avals[0], "a")
    return _system(avals, "solve_triangular")


def _check_part(op: str, attribute: str, part: float | None) -> None:
    """Refuses NaN and negative parts: nothing would count as zero, noise would be divided by."""
    if part is not None and not part >= 0:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{op}: {attribute}={part} is no part of the greatest singular value; give a number from "
            "0 up, or leave it out for one that suits the dtype.",
            op=op,
            attribute=attribute,
            expected="a number from 0 up",
            actual=part,
        )


def _pinv(avals: tuple[Aval, ...], rtol: float | None = None) -> Aval:
    _check_part("linalg.pinv", "rtol", rtol)
    shape = matrix_shape(avals[0], "x")
    return aval((*shape[:-2], shape[-1], shape[-2]), floating(avals[0].dtype))


def _lstsq(avals: tuple[Aval, ...], rcond: float | None = None) -> Aval:
    _check_part("linalg.lstsq", "rcond", rcond)
    matrix_shape(avals[0], "a")
    return _system(avals, "lstsq")


def _never_inferred(avals: tuple[Aval, ...]) -> NoReturn:
    raise TypeError("a private op: rules call it, with factors, past the catalog")


_SINGULAR = (
    "A matrix with NaN gives NaN, or counts as singular.\n\n"
    "Raises:\n    LinearAlgebraError: SINGULAR_MATRIX for finite operands of which the result would not "
    "be finite, once it is asked for."
)
_GENERAL: Final[tuple[Domain, Domain]] = ("well_conditioned", "any")
_LOWER: Final[tuple[Domain, Domain]] = ("lower_triangular", "any")
_UPPER: Final[tuple[Domain, Domain]] = ("upper_triangular", "any")

register(
    Op(
        "linalg.inv",
        ("x",),
        _inv,
        "The inverse of square matrices.\n\n"
        "Derivative: Giles (2008), An extended collection of matrix derivative results, 2.2.3. "
        + _SINGULAR,
        floating=True,
        samples=(
            Sample(((3, 3),), domain="well_conditioned"),
            Sample(((2, 2, 2),), domain="well_conditioned"),
            Sample(((1, 1),), domain="nonzero"),
            Sample(((0, 0),)),
            Sample(((0, 2, 2),)),
        ),
    )
)
register(
    Op(
        "linalg.solve",
        ("a", "b"),
        _solve,
        "The x with a x = b, for square matrices a.\n\n"
        "b is a vector when it has one axis, and matrices otherwise; other axes broadcast. The "
        "factorisation of a is kept for the derivatives: Giles (2008), An extended collection of matrix "
        "derivative results, 2.3.1. " + _SINGULAR,
        promotes=True,
        floating=True,
        samples=(
            Sample(((3, 3), (3, 2)), domain=_GENERAL),
            Sample(((3, 3), (3,)), domain=_GENERAL),
            Sample(((2, 3, 3), (3, 2)), domain=_GENERAL),
            Sample(((2, 3, 3), (3,)), domain=_GENERAL),
            Sample(((2, 2), (4, 2, 3)), domain=_GENERAL),
            Sample(((2, 1, 2, 2), (3, 2, 1)), domain=_GENERAL),
            Sample(((2, 20, 20), (20, 2)), domain=_GENERAL, kinds="c"),
            Sample(((1, 1), (1, 1)), domain=("nonzero", "any")),
            Sample(((0, 0), (0, 2))),
            Sample(((2, 2), (2, 0)), domain=_GENERAL),
        ),
    )
)
register(
    Op(
        "solve_factored",
        ("a", "b"),
        _never_inferred,
        "The x with a x = b, or a^H x = b, for a whose LU factors are given; b is matrices.",
        promotes=True,
        private=True,
    )
)
register(
    Op(
        "linalg.solve_triangular",
        ("a", "b"),
        _solve_triangular,
        "The x with a x = b, for triangular matrices a, of which the other triangle is not read.\n\n"
        "b is a vector when it has one axis, and matrices otherwise; other axes broadcast. The gradient of "
        "a is zero where a is not read. Derivative: Giles (2008), An extended collection of matrix "
        "derivative results, 2.3.1. " + _SINGULAR,
        attributes=(
            Attribute(
                "trans",
                "string",
                "N",
                keyword_only=False,
                doc="'N' for a x = b, 'T' for a^T x = b, 'C' for a^H x = b.",
            ),
            Attribute(
                "lower", "bool", False, keyword_only=False, doc="Whether a is lower triangular."
            ),
            Attribute(
                "unit_diagonal",
                "bool",
                False,
                keyword_only=False,
                doc="Whether the diagonal is taken to be ones, and not read.",
            ),
        ),
        promotes=True,
        floating=True,
        samples=(
            Sample(((3, 3), (3, 2)), {"lower": True}, domain=_LOWER),
            Sample(((3, 3), (3, 2)), {"lower": True, "trans": "C"}, domain=_LOWER),
            Sample(((3, 3), (3, 2)), {"lower": True, "trans": "T"}, domain=_LOWER),
            Sample(((3, 3), (3,)), {"lower": False}, domain=_UPPER),
            Sample(((3, 3), (3, 1)), {"trans": "T"}, domain=_GENERAL),
            Sample(((2, 3, 3), (3, 2)), {"trans": "C"}, domain=_GENERAL),
            Sample(((2, 3, 3), (3,)), {"lower": True, "unit_diagonal": True}, domain=_GENERAL),
            Sample(((2, 2), (2, 2)), {"unit_diagonal": True}),
            Sample(((1, 1), (1,)), domain=("nonzero", "any")),
            Sample(((0, 0), (0, 2))),
            Sample(((0, 2, 2), (2, 1))),
        ),
    )
)
register(
    Op(
        "linalg.pinv",
        ("x",),
        _pinv,
        "The Moore-Penrose pseudo-inverse of matrices.\n\n"
        "Its derivative is that at constant rank: Golub and Pereyra (1973), The differentiation of "
        "pseudo-inverses and nonlinear least squares problems whose variables separate, equation 4.12. "
        "NaN in a matrix makes its pseudo-inverse NaN.",
        attributes=(
            Attribute(
                "rtol",
                "float",
                keyword_only=False,
                doc="Singular values up to this part of the greatest count as zero; left out, "
                "max(rows, columns) times the dtype's epsilon.",
            ),
        ),
        floating=True,
        samples=(
            Sample(((3, 2),), domain="well_conditioned"),
            Sample(((2, 3),), domain="well_conditioned"),
            Sample(((3, 3),), domain="well_conditioned"),
            Sample(((2, 4, 2),), {"rtol": 1e-3}, domain="well_conditioned"),
            Sample(((1, 1),), domain="nonzero"),
            Sample(((0, 2),)),
            Sample(((2, 0, 0),)),
        ),
    )
)
register(
    Op(
        "linalg.lstsq",
        ("a", "b"),
        _lstsq,
        "The x that makes ``|a x - b|`` least, and of several such the one with the least norm.\n\n"
        "b is a vector when it has one axis, and matrices otherwise; other axes broadcast. It is pinv(a) b, "
        "and so are its derivatives: they are those at constant rank, see `pinv`. NumPy's residuals, rank "
        "and singular values are not given.",
        attributes=(
            Attribute(
                "rcond",
                "float",
                keyword_only=False,
                doc="Singular values up to this part of the greatest count as zero; left out, "
                "max(rows, columns) times the dtype's epsilon.",
            ),
        ),
        promotes=True,
        floating=True,
        samples=(
            Sample(((4, 2), (4, 3)), domain=_GENERAL),
            Sample(((4, 2), (4,)), domain=_GENERAL),
            Sample(((2, 4), (2,)), domain=_GENERAL),
            Sample(((3, 3), (2, 3, 1)), domain=_GENERAL),
            Sample(((2, 3, 2), (3,)), {"rcond": 1e-3}, domain=_GENERAL),
            Sample(((3, 0), (3, 2))),
            Sample(((0, 2), (0,))),
        ),
    )
)
