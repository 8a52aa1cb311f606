"""Faults of linear algebra: determinants, inverses, decompositions, spectra, matrix functions, einsum."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from tests.oracles.faults import Fault

import backhaul as bh

la = bh.linalg
S = np.array([[1.0, 2.0], [2.0, 4.0]])
P = np.array([[4.0, 1.0], [1.0, 3.0]])
P_INVERSE = np.array([[3.0, -1.0], [-1.0, 4.0]]) / 11
R = np.array([[0.0, -1.0], [1.0, 0.0]])
ONE = np.ones((2, 2))
A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
D = np.diag([1.0, 1.0, 2.0, 3.0])
CORANK_1 = np.array([[50.0, -30, 45], [-30, 90, -81], [45, -81, 81]])
ADJUGATE_1 = np.array([[729.0, -1215, -1620], [-1215, 2025, 2700], [-1620, 2700, 3600]])
RANK_1 = np.array([[36.0, -42, 18], [-42, 49, -21], [18, -21, 9]])


def _t(x: Any) -> Any:
    return bh.matrix_transpose(x)


def _polar(x: Any) -> Any:
    u, _, vh = la.svd(x)
    return u @ vh


def _svd_again(x: Any) -> Any:
    u, s, vh = la.svd(x)
    return (u * s) @ vh


def _top(x: Any) -> Any:
    u, s, vh = la.svd_truncated(x, rank=1)
    return (u * s) @ vh


def _eigh_again(x: Any) -> Any:
    w, v = la.eigh(x)
    return (v * w) @ bh.conj(_t(v))


def _inverse_by_cholesky(x: Any) -> Any:
    lower = la.cholesky(x)
    return la.trace(la.inv(lower @ _t(lower)))


def _qr_again(x: Any) -> Any:
    q, r = la.qr(x)
    return q @ r


DETERMINANTS: Final = (
    Fault(
        "det of zeros",
        "jax-ml/jax#2380",
        la.det,
        (np.zeros((4, 4)),),
        (np.zeros((4, 4)),),
        (np.zeros((4, 4)),),
    ),
    Fault(
        "det of zeros, second order",
        "HIPS/autograd#549",
        la.det,
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
        ([[1, -1], [-1, 1]],),
        value=0,
    ),
    Fault(
        "det of corank 1", "jax-ml/jax#2821", la.det, (CORANK_1,), (ADJUGATE_1,), tolerance=1e-10
    ),
    Fault(
        "det of rank 1", "jax-ml/jax#2821", la.det, (RANK_1,), (np.zeros((3, 3)),), tolerance=1e-11
    ),
    Fault(
        "det of a singular matrix, second order",
        "jax-ml/jax#2821",
        la.det,
        (S,),
        ([[4, -2], [-2, 1]],),
        ([[1, -1], [-1, 1]],),
    ),
    Fault(
        "det at the identity, second order",
        "pytorch/pytorch#192521",
        la.det,
        (np.eye(3),),
        (np.eye(3),),
        ([[0, 0, 0], [-1, 0, 0], [0, 0, 0]],),
        ([[0.0, 1, 0], [0, 0, 0], [0, 0, 0]],),
    ),
    Fault(
        "det near a tie, second order",
        "pytorch/pytorch#192521",
        la.det,
        (np.diag([1, 1 + 1e-9, 1]),),
        (np.diag([1 + 1e-9, 1, 1 + 1e-9]),),
        ([[0, 0, 0], [-1, 0, 0], [0, 0, 0]],),
        ([[0.0, 1, 0], [0, 0, 0], [0, 0, 0]],),
    ),
    Fault(
        "det of 1 x 1 matrices",
        "jax-ml/jax#6121",
        la.det,
        (np.zeros((3, 1, 1)),),
        (np.ones((3, 1, 1)),),
        (np.zeros((3, 1, 1)),),
    ),
    Fault(
        "det of nothing",
        "jax-ml/jax#6121",
        la.det,
        (np.zeros((0, 0)),),
        (np.zeros((0, 0)),),
        (np.zeros((0, 0)),),
        value=1,
    ),
    Fault(
        "det of a complex singular matrix",
        "pytorch/pytorch#54787",
        la.det,
        (np.array([[1, 1j], [1j, -1]]),),
        ([[-1, 1j], [1j, 1]],),
        ([[1, -1], [-1, 1]],),
    ),
    Fault(
        "det of a batch, some singular",
        "jax-ml/jax#2380",
        la.det,
        (np.stack([S, np.eye(2), 0 * S]),),
        ([[[4, -2], [-2, 1]], np.eye(2), [[0, 0], [0, 0]]],),
        ([[[1, -1], [-1, 1]]] * 3,),
    ),
    Fault(
        "slogdet, negative determinant",
        "pytorch/pytorch#15605",
        lambda x: la.slogdet(x)[1],
        (-np.eye(3),),
        (-np.eye(3),),
        (-np.ones((3, 3)),),
    ),
    Fault(
        "slogdet, the sign of a real matrix",
        "pytorch/pytorch#15605",
        lambda x: la.slogdet(x)[0],
        (P,),
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
        value=1,
    ),
    Fault(
        "slogdet, the sign of a complex matrix",
        "pytorch/pytorch#63138",
        lambda x: bh.angle(la.slogdet(x)[0]),
        (np.diag([1j, 1.0]),),
        ([[-1, 0], [0, 1j]],),
    ),
    Fault(
        "slogdet of a complex matrix",
        "jax-ml/jax#5004",
        lambda x: la.slogdet(x)[1],
        (np.diag([2j, 4.0]),),
        ([[0.5j, 0], [0, 0.25]],),
    ),
    Fault(
        "slogdet of a singular matrix is -inf",
        "jax-ml/jax#5004",
        lambda x: la.slogdet(x)[1],
        (S,),
        value=-math.inf,
        refused="SINGULAR_MATRIX",
    ),
)

INVERSES: Final = (
    Fault("inv of a singular matrix", "jax-ml/jax#2380", la.inv, (S,), refused="SINGULAR_MATRIX"),
    Fault(
        "matrix_power 0",
        "ooples/AiDotNet.Tensors#231",
        lambda x: la.matrix_power(x, 0),
        (S,),
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
        value=np.eye(2),
    ),
    Fault(
        "matrix_power -1 is inv",
        "ooples/AiDotNet.Tensors#231",
        lambda x: la.matrix_power(x, -1) - la.inv(x),
        (P,),
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "matrix_power -2",
        "ooples/AiDotNet.Tensors#231",
        lambda x: la.matrix_power(x, -2) - la.inv(x) @ la.inv(x),
        (P,),
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "matrix_power of a nilpotent matrix",
        "ooples/AiDotNet.Tensors#231",
        lambda x: la.matrix_power(x, 2),
        ([[0.0, 1], [0, 0]],),
        ([[1, 0], [2, 1]],),
        ([[4, 4], [4, 4]],),
    ),
    Fault(
        "pinv of rank 1",
        "pytorch/pytorch#65911",
        lambda a, b: la.pinv(a @ _t(b)),
        ([[1.0], [1.0]], [[1.0], [1.0]]),
        ([[-0.5], [-0.5]], [[-0.5], [-0.5]]),
        tolerance=1e-11,
    ),
    Fault(
        "pinv of zeros", "pytorch/pytorch#66092", la.pinv, (np.zeros((2, 3)),), (np.zeros((2, 3)),)
    ),
    Fault(
        "pinv of an invertible matrix is inv",
        "pytorch/pytorch#110009",
        lambda x: la.pinv(x) - la.inv(x),
        (P,),
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "lstsq of a tall matrix is by pinv",
        "FluxML/Zygote.jl#222",
        lambda a: la.lstsq(a, [1.0, 2.0, 4.0]) - la.pinv(a) @ [1.0, 2.0, 4.0],
        (A.T,),
        (np.zeros((3, 2)),),
        (np.zeros((3, 2)),),
        tolerance=1e-11,
    ),
    Fault(
        "solve of a batch with one right side",
        "FluxML/Zygote.jl#222",
        lambda a, b: la.solve(a, b),
        (np.stack([np.eye(2)] * 2), [[1.0], [2.0]]),
        ([[[-1, -2], [-1, -2]]] * 2, [[2], [2]]),
    ),
)

DECOMPOSITIONS: Final = (
    Fault(
        "inverse by cholesky",
        "pytorch/pytorch#18825",
        _inverse_by_cholesky,
        (P,),
        (-P_INVERSE @ P_INVERSE,),
    ),
    Fault(
        "log det by cholesky",
        "HIPS/autograd#56",
        lambda x: 2 * bh.sum(bh.log(bh.diag(la.cholesky(x)))),
        (P,),
        (P_INVERSE,),
    ),
    Fault(
        "both triangles of cholesky",
        "jax-ml/jax#40421",
        lambda x: la.cholesky(x, upper=True) - _t(la.cholesky(x)),
        (P,),
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "cholesky gives a symmetric gradient",
        "pytorch/pytorch#137284",
        lambda x: la.cholesky(x)[1, 0],
        (P,),
        ([[-1 / 16, 0.25], [0.25, 0]],),
    ),
    Fault(
        "qr of a wide matrix",
        "elixir-nx/nx#1810",
        _qr_again,
        (A,),
        (np.ones((2, 3)),),
        (np.zeros((2, 3)),),
    ),
    Fault(
        "qr of a tall complex matrix",
        "tensorflow/tensorflow#45475",
        _qr_again,
        (A.T * (1 + 1j) + 1j * np.eye(3, 2),),
        (np.ones((3, 2)),),
        (np.zeros((3, 2)),),
    ),
    Fault(
        "svd of a wide matrix",
        "jax-ml/jax#2311",
        _svd_again,
        (A,),
        (np.ones((2, 3)),),
        (np.zeros((2, 3)),),
    ),
    Fault(
        "svd, the largest part of a matrix of ones",
        "jax-ml/jax#2311",
        _top,
        (np.ones((5, 5)),),
        (np.ones((5, 5)),),
    ),
    Fault(
        "svd, values of a matrix of ones",
        "jax-ml/jax#2311",
        lambda x: la.svd(x)[1][0],
        (np.ones((5, 5)),),
        (np.full((5, 5), 0.2),),
    ),
    Fault(
        "svdvals, the largest of ones, second order",
        "jax-ml/jax#2311",
        lambda x: la.svdvals(x)[0],
        (ONE,),
        (ONE / 2,),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "svd, equal values and their vectors",
        "jax-ml/jax#8732",
        lambda x: la.matrix_norm(_svd_again(x)),
        (D,),
        refused="DEGENERATE_SPECTRUM",
    ),
    Fault(
        "svd, the norm of equal values",
        "jax-ml/jax#8732",
        lambda x: bh.linalg.vector_norm(la.svdvals(x)),
        (D,),
        (D / 15**0.5,),
    ),
    Fault(
        "svd, the orthogonal factor of a rotation",
        "NVIDIA/warp#1831",
        lambda x: _polar(x)[0, 1],
        (R,),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "svd, vectors of value 0",
        "pytorch/pytorch#49886",
        _svd_again,
        (np.ones((3, 3)),),
        refused="DEGENERATE_SPECTRUM",
    ),
    Fault(
        "eigh of a complex matrix",
        "pytorch/pytorch#55676",
        _eigh_again,
        (np.array([[2.0, 1j], [-1j, 3.0]]),),
        (np.ones((2, 2)),),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "eigh, values are real",
        "jax-ml/jax#2325",
        lambda x: bh.sum(la.eigh(x)[0] * np.array([1.0, 2.0])),
        (np.diag([1.0 + 0j, 3.0]),),
        (np.diag([1.0, 2.0]),),
    ),
    Fault(
        "eigvalsh of the identity",
        "HIPS/autograd#527",
        lambda x: bh.sum(bh.exp(la.eigvalsh(x))),
        (np.eye(2),),
        (math.e * np.eye(2),),
        (math.e * ONE,),
    ),
    Fault(
        "eigh, values of the identity",
        "HIPS/autograd#527",
        lambda x: bh.sum(la.eigh(x)[0]),
        (np.eye(2),),
        (np.eye(2),),
    ),
    Fault(
        "eigvalsh, the largest beside equal ones",
        "XanaduAI/GradDFT#35",
        lambda x: la.eigvalsh(x)[-1],
        (np.diag([1.0, 1.0, 3.0]),),
        (np.diag([0.0, 0.0, 1.0]),),
        ([[0, 0, 0.5], [0, 0, 0.5], [0.5, 0.5, 0]],),
    ),
    Fault(
        "eigh, the basis of equal values",
        "jax-ml/jax#669",
        lambda x: bh.prod(la.eigh(x)[1][:, 0]),
        (np.eye(2),),
        refused="DEGENERATE_SPECTRUM",
    ),
    Fault(
        "nuclear norm of a singular matrix",
        "pytorch/pytorch#49886",
        lambda x: la.matrix_norm(x, ord="nuc"),
        (ONE,),
        (ONE / 2,),
    ),
    Fault(
        "matrix norms of zeros",
        "pytorch/pytorch#2421",
        lambda x: (
            la.matrix_norm(x)
            + la.matrix_norm(x, ord="nuc")
            + la.matrix_norm(x, ord=2)
            + la.matrix_norm(x, ord=1)
        ),
        (np.zeros((2, 2)),),
        (np.zeros((2, 2)),),
    ),
    Fault(
        "spectral norm of the identity",
        "jax-ml/jax#8732",
        lambda x: la.matrix_norm(x, ord=2),
        (np.eye(2),),
        (np.eye(2) / 2,),
    ),
)

FUNCTIONS: Final = (
    Fault(
        "expm of a multiple of the identity",
        "Theano/Theano#6379",
        lambda j: la.expm(j * np.eye(2))[0, 0],
        (1.0,),
        (math.e,),
        (math.e,),
    ),
    Fault(
        "expm of zeros",
        "SciML/ExponentialUtilities.jl#111",
        lambda x: bh.sum(bh.sin(la.expm(x))),
        (np.zeros((2, 2)),),
        ([[math.cos(1), 1], [1, math.cos(1)]],),
    ),
    Fault(
        "expm of zeros, second order",
        "Theano/Theano#3998",
        la.expm,
        (np.zeros((2, 2)),),
        (ONE,),
        (2 * ONE,),
    ),
    Fault(
        "expm of a nilpotent matrix",
        "Theano/Theano#3608",
        la.expm,
        ([[0.0, 1], [0, 0]],),
        ([[1.5, 1], [13 / 6, 1.5]],),
        value=[[1, 1], [0, 1]],
    ),
    Fault(
        "expm of a matrix far below 0",
        "stan-dev/math#2615",
        la.expm,
        (800 * np.array([[-3.3228, 1.2242], [0.533302, -4.04844]]),),
        (np.zeros((2, 2)),),
        value=np.zeros((2, 2)),
    ),
    Fault(
        "expm of a diagonal complex matrix",
        "Theano/Theano#3608",
        lambda x: la.expm(x)[0, 0],
        (np.diag([1j, 2j]),),
        ([[np.exp(-1j), 0], [0, 0]],),
    ),
)

SUMS: Final = (
    Fault(
        "einsum, a diagonal among operands",
        "HIPS/autograd#510",
        lambda w, x: bh.einsum("nd,nn->d", x, w),
        (np.arange(16.0).reshape(4, 4), np.arange(8.0).reshape(4, 2)),
        (np.diag([1.0, 5, 9, 13]), [[0, 0], [5, 5], [10, 10], [15, 15]]),
    ),
    Fault(
        "einsum, labels summed alone",
        "HIPS/autograd#242",
        lambda x: bh.einsum("abcd->bd", x) ** 2,
        (np.ones((3, 2, 3, 2)),),
        (np.full((3, 2, 3, 2), 18.0),),
        (np.full((3, 2, 3, 2), 18.0),),
    ),
    Fault(
        "einsum, repeated output label",
        "HIPS/autograd#31",
        lambda x: bh.einsum("i->ii", x) ** 2,
        ([1.0, 2.0],),
        ([2, 4],),
        ([2, 2],),
    ),
    Fault(
        "einsum, batch of products",
        "apache/mxnet#18102",
        lambda a, b: bh.einsum("bnij,bnjc->bnic", a, b) - a @ b,
        (np.arange(15.0).reshape(1, 1, 5, 3), np.arange(6.0).reshape(1, 1, 3, 2)),
        (np.zeros((1, 1, 5, 3)), np.zeros((1, 1, 3, 2))),
    ),
    Fault(
        "einsum, one operand three times",
        "rsokl/MyGrad#84",
        lambda x: bh.einsum("i,i,i->", x, x, x),
        ([0.0, 2.0],),
        ([0, 12],),
        ([0, 12],),
    ),
    Fault(
        "einsum, the diagonal",
        "rsokl/MyGrad#24",
        lambda x: bh.einsum("ii->i", x) * np.arange(3.0),
        (np.ones((3, 3)),),
        (np.diag([0.0, 1, 2]),),
    ),
    Fault(
        "tensordot over axes from the end",
        "HIPS/autograd#98",
        lambda a, b: bh.tensordot(a, b, axes=[[-1], [0]]) - a @ b,
        (A, A.T),
        (0 * A, 0 * A.T),
    ),
    Fault(
        "tensordot over permuted axes",
        "HIPS/autograd#446",
        lambda a, b: bh.tensordot(a, b, axes=[[2, 0], [0, 1]]) - bh.einsum("aib,ba->i", a, b),
        (np.arange(12.0).reshape(2, 3, 2), np.arange(4.0).reshape(2, 2)),
        (np.zeros((2, 3, 2)), np.zeros((2, 2))),
    ),
    Fault(
        "tensordot over no axes",
        "HIPS/autograd#446",
        lambda a, b: bh.tensordot(a, b, axes=0),
        ([1.0, 2.0], [3.0, 4.0]),
        ([7, 7], [3, 3]),
    ),
    Fault(
        "kron of arrays of several axes",
        "apache/mxnet#18102",
        bh.kron,
        (np.ones((2, 1, 2)), np.arange(3.0)),
        (np.full((2, 1, 2), 3.0), [4, 4, 4]),
    ),
    Fault(
        "cross of a broadcast batch",
        "apache/mxnet#18102",
        lambda a, b: bh.cross(a, b) @ np.array([1.0, 0, 0]),
        (np.ones((2, 3)), [[1.0, 2.0, 3.0]]),
        ([[0, 3, -2]] * 2, [[0, -2, 2]]),
    ),
    Fault(
        "products of nothing",
        "HIPS/autograd#242",
        lambda a, b: a @ b,
        (np.zeros((2, 0)), np.zeros((0, 3))),
        (np.zeros((2, 0)), np.zeros((0, 3))),
        value=np.zeros((2, 3)),
    ),
)

LINEAR_ALGEBRA: Final = (*DETERMINANTS, *INVERSES, *DECOMPOSITIONS, *FUNCTIONS, *SUMS)
