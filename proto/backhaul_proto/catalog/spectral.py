"""Spectra of the last two axes, with any batch axes before them: eigh, svd, qr."""

from __future__ import annotations

import numpy as np

from backhaul_proto.catalog.avals import FLOAT64, Aval, aval, real_dtype
from backhaul_proto.catalog.linalg import square
from backhaul_proto.catalog.manipulation import matrix_shape
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.errors import make_error

_GAUGE = (
    "\n\nA loss must not depend on what the decomposition leaves open: {what}. Where that shows in a "
    "derivative, it is GAUGE_DEPENDENT, with how much in the details."
)
_DEGENERATE = (
    "    LinearAlgebraError: DEGENERATE_SPECTRUM, GAUGE_DEPENDENT: when a derivative is asked for that does "
    "not exist."
)


def _matrix(avals: tuple[Aval, ...]) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of the operand; integers as float64."""
    (x,) = avals
    return matrix_shape(x, "x"), x.dtype if x.inexact else FLOAT64


def _eigh(avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
    x = square(avals[0], "x")
    return aval(x.shape[:-1], real_dtype(x.dtype)), x


def _eigvalsh(avals: tuple[Aval, ...]) -> Aval:
    return _eigh(avals)[0]


def _as_first(avals: tuple[Aval, ...], **_: object) -> Aval:
    return avals[0]


def _svd(avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
    shape, dtype = _matrix(avals)
    return _factors(shape, dtype, min(shape[-2:]))


def _factors(shape: tuple[int, ...], dtype: np.dtype, rank: int) -> tuple[Aval, ...]:
    *batch, m, n = shape
    return (
        aval((*batch, m, rank), dtype),
        aval((*batch, rank), real_dtype(dtype)),
        aval((*batch, rank, n), dtype),
    )


def _svd_truncated(avals: tuple[Aval, ...], rank: int) -> tuple[Aval, ...]:
    shape, dtype = _matrix(avals)
    most = min(shape[-2:])
    if not (1 <= rank <= most or rank == most == 0):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"linalg.svd_truncated: rank={rank} of a matrix {shape[-2]} by {shape[-1]}; it is from 1 to "
            f"{most}.",
            op="linalg.svd_truncated",
            attribute="rank",
            expected=f"1..{most}",
            actual=rank,
        )
    return _factors(shape, dtype, rank)


def _svdvals(avals: tuple[Aval, ...]) -> Aval:
    return _svd(avals)[1]


def _qr(avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
    shape, dtype = _matrix(avals)
    *batch, m, n = shape
    k = min(m, n)
    return aval((*batch, m, k), dtype), aval((*batch, k, n), dtype)


_MATRICES = (Sample(((4, 3),)), Sample(((3, 3),)), Sample(((2, 2, 4),)), Sample(((0, 2),)))
_HERMITIAN = (
    Sample(((3, 3),), domain="hermitian"),
    Sample(((2, 3, 3),), domain="hermitian"),
    Sample(((1, 1),), domain="hermitian"),
    Sample(((0, 0),), domain="hermitian"),
)

register(
    Op(
        "linalg.eigh",
        ("x",),
        _eigh,
        "Eigenvalues in ascending order, and eigenvectors in the columns of a unitary matrix: (w, v).\n\n"
        "x is taken to be Hermitian: (x + x^H) / 2 is decomposed, and gradients are Hermitian."
        + _GAUGE.format(
            what="the phase (sign) of each eigenvector, and any basis of equal eigenvalues"
        )
        + "\n\nRaises:\n"
        + _DEGENERATE,
        several=True,
        gauge=True,
        samples=_HERMITIAN,
    )
)
register(
    Op(
        "linalg.eigvalsh",
        ("x",),
        _eigvalsh,
        "Eigenvalues in ascending order of x, which is taken to be Hermitian.\n\n"
        "Gradients are Hermitian. A loss that is symmetric in equal eigenvalues has its gradient and H·v "
        "there too.\n\nRaises:\n" + _DEGENERATE,
        samples=_HERMITIAN,
    )
)
register(
    Op(
        "linalg.svd",
        ("x",),
        _svd,
        "The thin singular value decomposition (u, s, vh) with x = u diag(s) vh, s in descending order."
        + _GAUGE.format(
            what="a common phase (sign) of a column of u and row of vh, and any basis of equal singular "
            "values"
        )
        + "\n\nRaises:\n"
        + _DEGENERATE,
        several=True,
        gauge=True,
        samples=_MATRICES,
    )
)
register(
    Op(
        "linalg.svd_truncated",
        ("x",),
        _svd_truncated,
        "The largest singular values with their vectors: (u, s, vh) of rank columns, values and rows.\n\n"
        "Derivatives are those of the truncated factors exactly, the part of the discarded space included, "
        "and finite where discarded values are equal or zero. The last value that is kept must differ from "
        "the first that is not."
        + _GAUGE.format(what="a common phase (sign) of a column of u and row of vh")
        + "\n\nRaises:\n"
        + _DEGENERATE,
        attributes=(Attribute("rank", "int", required=True, doc="How many are kept."),),
        several=True,
        gauge=True,
        samples=(
            Sample(((4, 3),), {"rank": 2}),
            Sample(((3, 5),), {"rank": 1}),
            Sample(((2, 3, 3),), {"rank": 3}),
        ),
    )
)
register(
    Op(
        "linalg.svdvals",
        ("x",),
        _svdvals,
        "The singular values in descending order.\n\n"
        "A loss that is symmetric in equal singular values has its gradient and H·v there too.\n\nRaises:\n"
        + _DEGENERATE,
        samples=(*_MATRICES, Sample(((2, 4, 3),))),
    )
)
register(
    Op(
        "linalg.qr",
        ("x",),
        _qr,
        "The thin QR decomposition (q, r): x = q r, q with orthonormal columns, r upper triangular.\n\n"
        "Derivatives are those of an x whose first columns, as many as q has, are independent.\n\nRaises:\n"
        "    LinearAlgebraError: SINGULAR_MATRIX, when a derivative is asked for that does not exist.",
        several=True,
        gauge=True,
        samples=_MATRICES,
    )
)

# What the adjoints of eigvalsh and svdvals are, and of a truncated decomposition's discarded space.
register(
    Op(
        "eigvalsh_adjoint",
        ("x", "ct"),
        _as_first,
        "v diag(ct) v^H with the eigenvectors of x.",
        private=True,
    )
)
register(
    Op(
        "svdvals_adjoint",
        ("x", "ct"),
        _as_first,
        "u diag(ct) vh with the singular vectors of x.",
        private=True,
    )
)


def _as_second(avals: tuple[Aval, ...], **_: object) -> Aval:
    return avals[2]


register(
    Op(
        "svd_resolvent",
        ("x", "s", "b"),
        _as_second,
        "The columns y_j with (s_j² - x x^H) y_j = b_j, or with x^H x.",
        private=True,
    )
)
