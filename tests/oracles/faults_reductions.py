"""Faults of ops over and along axes: norms, products, sums of exponentials, spread, order."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from tests.oracles.faults import Fault

import backhaul as bh

INF, NAN = math.inf, math.nan
norm = bh.linalg.vector_norm

NORMS: Final = (
    Fault(
        "norm of zeros", "pytorch/pytorch#2421", norm, (np.zeros(3),), ([0, 0, 0],), ([0, 0, 0],)
    ),
    Fault(
        "norm of zeros, second order",
        "pytorch/functorch#1097",
        lambda x: norm(x) * 2,
        (np.zeros(3),),
        ([0, 0, 0],),
        ([0, 0, 0],),
    ),
    Fault(
        "norm of one zero row among others",
        "tenstorrent/tt-metal#55585",
        lambda x: norm(x, axis=1),
        ([[0.0, 0, 0], [1, 2, 2]],),
        ([[0, 0, 0], [1 / 3, 2 / 3, 2 / 3]],),
        ([[0, 0, 0], [4 / 27, -1 / 27, -1 / 27]],),
    ),
    Fault(
        "square of a norm of zeros",
        "jax-ml/jax#21723",
        lambda x: norm(x) ** 2,
        (np.zeros(2),),
        ([0, 0],),
    ),
    Fault(
        "exp of a squared norm of zeros",
        "HIPS/autograd#183",
        lambda x: bh.exp(-(norm(x) ** 2)),
        (np.zeros((2, 1)),),
        ([[0], [0]],),
    ),
    Fault("norm of one zero", "HIPS/autograd#268", norm, (np.zeros(1),), ([0],), ([0],)),
    Fault(
        "1-norm with a zero",
        "rsokl/MyGrad#379",
        lambda x: norm(x, ord=1),
        ([-2.0, 0.0, 2.0],),
        ([-1, 0, 1],),
        ([0, 0, 0],),
    ),
    Fault(
        "3-norm with a zero",
        "pytorch/pytorch#3264",
        lambda x: norm(x, ord=3),
        ([3.0, 0.0, -4.0],),
        ([9 / 91 ** (2 / 3), 0, -16 / 91 ** (2 / 3)],),
    ),
    Fault(
        "1.5-norm with a zero, second order",
        "HIPS/autograd#393",
        lambda x: norm(x, ord=1.5),
        ([1.0, 0.0],),
        ([1, 0],),
        ([0, 0],),
        ([1.0, 0.0],),
    ),
    Fault(
        "0.5-norm with a zero",
        "tenstorrent/tt-metal#55585",
        lambda x: norm(x, ord=0.5),
        ([4.0, 0.0],),
        ([1, 0],),
    ),
    Fault(
        "p-norms of zeros",
        "pytorch/pytorch#2775",
        lambda x: sum(norm(x, ord=p) for p in (0.5, 1, 1.5, 2.5, 3, INF, -INF, 0)),
        (np.zeros(3),),
        ([0, 0, 0],),
        ([0, 0, 0],),
    ),
    Fault(
        "inf-norm of ties",
        "tenstorrent/tt-metal#56248",
        lambda x: norm(x, ord=INF),
        ([2.0, -2.0, 1.0],),
        ([0.5, -0.5, 0],),
        ([0, 0, 0],),
    ),
    Fault(
        "-inf-norm",
        "tenstorrent/tt-metal#56248",
        lambda x: norm(x, ord=-INF),
        ([2.0, -2.0, 1.0],),
        ([0, 0, 1],),
        ([0, 0, 0],),
    ),
    Fault(
        "norm of order 0",
        "Oneflow-Inc/oneflow#8015",
        lambda x: norm(x, ord=0),
        ([1.0, 0.0],),
        ([0, 0],),
        ([0, 0],),
        value=1,
    ),
    Fault(
        "negative order",
        "pytorch/pytorch#3481",
        lambda x: norm(x, ord=-1),
        ([2.0, -2.0, 1.0],),
        ([1 / 16, -1 / 16, 0.25],),
    ),
    Fault(
        "norm of complex zeros",
        "HIPS/autograd#393",
        norm,
        (np.zeros(2, complex),),
        ([0, 0],),
        ([0, 0],),
    ),
    Fault(
        "norm of complex numbers", "HIPS/autograd#393", norm, (np.array([3j, 4.0]),), ([0.6j, 0.8],)
    ),
)

PRODUCTS: Final = (
    Fault(
        "prod with one zero",
        "tinygrad/tinygrad#17404",
        bh.prod,
        ([0.0, 2.0, 3.0],),
        ([6, 0, 0],),
        ([5, 3, 2],),
    ),
    Fault(
        "prod with two zeros, second order",
        "pytorch/pytorch#106789",
        bh.prod,
        ([2.0, 3.0, 0.0, 0.0],),
        ([0, 0, 0, 0],),
        ([0, 0, 6, 6],),
    ),
    Fault(
        "prod of one zero",
        "pytorch/pytorch#82644",
        lambda x: bh.prod(x, axis=0),
        ([0.0],),
        ([1],),
        ([0],),
    ),
    Fault(
        "prod along an axis",
        "apache/mxnet#17864",
        lambda x: bh.prod(x, axis=1),
        ([[4.0, 0.0]],),
        ([[0, 4]],),
        ([[1, 1]],),
    ),
    Fault(
        "prod with numbers of zeros that differ",
        "tracel-ai/burn#5534",
        lambda x: bh.prod(x, axis=1),
        ([[2.0, 0, 4], [0, 0, 3], [1, 2, 3]],),
        ([[0, 8, 0], [0, 0, 0], [6, 3, 2]],),
        ([[4, 6, 2], [3, 3, 0], [5, 4, 3]],),
    ),
    Fault(
        "prod of three zeros, second order",
        "pytorch/pytorch#773",
        bh.prod,
        (np.zeros(3),),
        ([0, 0, 0],),
        ([0, 0, 0],),
    ),
    Fault(
        "prod of complex numbers with a zero",
        "pytorch/pytorch#106789",
        bh.prod,
        (np.array([0j, 1 + 1j, 2j]),),
        ([-2 - 2j, 0, 0],),
    ),
    Fault("prod of nothing", "apache/mxnet#18078", bh.prod, (np.zeros(0),), ([],), ([],), value=1),
    Fault(
        "cumprod, zero first",
        "tensorflow/tensorflow#119430",
        bh.cumprod,
        ([0.0, 2.0, 3.0],),
        ([9, 0, 0],),
    ),
    Fault(
        "cumprod, zero last",
        "tensorflow/tensorflow#119430",
        bh.cumprod,
        ([2.0, 3.0, 0.0],),
        ([4, 2, 6],),
    ),
    Fault(
        "cumprod, two zeros",
        "tensorflow/tensorflow#119430",
        bh.cumprod,
        ([2.0, 0.0, 0.0, 3.0],),
        ([1, 2, 0, 0],),
    ),
    Fault(
        "cumprod of one zero", "tensorflow/tensorflow#3862", bh.cumprod, ([0.0],), ([1],), ([0],)
    ),
    Fault(
        "squares of cumprod",
        "Theano/Theano#5197",
        lambda x: bh.cumprod(x) ** 2,
        ([1.0, 0.0],),
        ([2, 0],),
        ([2, 2],),
    ),
    Fault(
        "cumprod of a product with zeros, second order",
        "pymc-devs/pytensor#1911",
        bh.cumprod,
        ([2.0, 0.0, 3.0],),
        ([1, 8, 0],),
        ([4, 6, 2],),
    ),
)

EXPONENTIALS: Final = (
    Fault(
        "logsumexp of -inf only",
        "jax-ml/jax#6811",
        bh.logsumexp,
        ([-INF, -INF],),
        ([0, 0],),
        ([0, 0],),
        value=-INF,
    ),
    Fault(
        "logsumexp of -inf in a stack",
        "jax-ml/jax#6811",
        lambda x: bh.logsumexp(bh.stack([bh.multiply(0.0, x) - INF, x - INF])),
        (1.0,),
        (0,),
        (0,),
    ),
    Fault(
        "logsumexp with one -inf",
        "pytorch/pytorch#31829",
        bh.logsumexp,
        ([-INF, 1.0],),
        ([0, 1],),
        ([0, 0],),
        value=1,
    ),
    Fault(
        "logsumexp with inf",
        "pytorch/pytorch#49724",
        bh.logsumexp,
        ([1.0, INF],),
        ([0, 1],),
        ([0, 0],),
        value=INF,
    ),
    Fault(
        "logsumexp of one inf",
        "pytorch/pytorch#49724",
        bh.logsumexp,
        ([INF],),
        ([1],),
        ([0],),
        value=INF,
    ),
    Fault(
        "logsumexp nested",
        "pytorch/pytorch#49724",
        lambda x: bh.logaddexp(bh.logsumexp(x), 2.0),
        ([-INF, -INF],),
        ([0, 0],),
        ([0, 0],),
        value=2,
    ),
    Fault(
        "logsumexp, one row of -inf",
        "pytorch/pytorch#6864",
        lambda x: bh.logsumexp(x, axis=1),
        ([[-INF, -INF], [0.0, 0.0]],),
        ([[0, 0], [0.5, 0.5]],),
        ([[0, 0], [0, 0]],),
    ),
    Fault(
        "logsumexp of great numbers",
        "mlberkeley/scae-pytorch#4",
        bh.logsumexp,
        ([1000.0, 1000.0],),
        ([0.5, 0.5],),
        ([0, 0],),
        value=1000 + math.log(2),
    ),
    Fault(
        "cumulative_logsumexp, -inf first",
        "tinygrad/tinygrad#17853",
        bh.cumulative_logsumexp,
        ([-INF, -INF, 1.0],),
        ([0, 0, 1],),
        ([0, 0, 0],),
        value=[-INF, -INF, 1],
    ),
    Fault(
        "softmax at a chosen row",
        "jax-ml/jax#19490",
        lambda x: bh.where(np.array([[False], [True]]), bh.softmax(x, axis=1), 0.0)[:, 0],
        ([[-INF, -INF], [0.0, 0.0]],),
        ([[0, 0], [0.25, -0.25]],),
        ([[0, 0], [0, 0]],),
    ),
    Fault(
        "softmax with one -inf",
        "pytorch/pytorch#31829",
        lambda x: bh.softmax(x)[1],
        ([-INF, 0.0, 0.0],),
        ([0, 0.25, -0.25],),
        ([0, 0, 0],),
    ),
    Fault(
        "log_softmax far apart",
        "pytorch/pytorch#31829",
        lambda x: bh.log_softmax(x)[0],
        ([-1000.0, 1000.0],),
        ([1, -1],),
        ([0, 0],),
        value=-2000,
    ),
)

SPREAD: Final = (
    Fault(
        "std of zeros", "pytorch/pytorch#4320", bh.std, (np.zeros(3),), ([0, 0, 0],), ([0, 0, 0],)
    ),
    Fault("std of ones", "jax-ml/jax#11716", bh.std, ([1.0, 1.0],), ([0, 0],), ([0, 0],)),
    Fault(
        "std of one row of equals",
        "stan-dev/stan#411",
        lambda x: bh.std(x, axis=1),
        ([[1.0, 1.0], [1.0, 2.0]],),
        ([[0, 0], [-0.5, 0.5]],),
        ([[0, 0], [0, 0]],),
    ),
    Fault(
        "var of equals",
        "metatensor/metatensor#113",
        bh.var,
        ([1.0, 1.0],),
        ([0, 0],),
        ([1, -1],),
        ([1.0, -1.0],),
    ),
    Fault("var of one", "pytorch/pytorch#4320", bh.var, ([5.0],), ([0],), ([0],), value=0),
    Fault(
        "var far from 0",
        "metatensor/metatensor#113",
        bh.var,
        ([1e8, 1e8 + 1],),
        ([-0.5, 0.5],),
        value=0.25,
    ),
    Fault(
        "std of complex equals",
        "pytorch/pytorch#4320",
        bh.std,
        (np.array([1j, 1j]),),
        ([0, 0],),
        ([0, 0],),
    ),
)

ORDER: Final = (
    Fault(
        "max of ties",
        "tensorflow/tensorflow#97688",
        bh.max,
        ([1.0, 3.0, 3.0],),
        ([0, 0.5, 0.5],),
        ([0, 0, 0],),
    ),
    Fault(
        "max of ties along axes",
        "pytorch/pytorch#155048",
        lambda x: bh.max(x, axis=(0, 2)),
        (np.ones((2, 2, 2)),),
        (np.full((2, 2, 2), 0.25),),
        (np.zeros((2, 2, 2)),),
    ),
    Fault(
        "min of ties",
        "sahandsafizadeh/qeep#101",
        bh.min,
        ([1.0, 1.0, 2.0, 3.0],),
        ([0.5, 0.5, 0, 0],),
        ([0, 0, 0, 0],),
    ),
    Fault(
        "min of 0 and -0", "tensorflow/haskell#48", bh.min, ([0.0, -0.0],), ([0.5, 0.5],), ([0, 0],)
    ),
    Fault(
        "ptp of equals", "tensorflow/tensorflow#97688", bh.ptp, ([1.0, 1.0],), ([0, 0],), ([0, 0],)
    ),
    Fault(
        "median between two",
        "PaddlePaddle/Paddle#42385",
        bh.median,
        ([1.0, 4.0, 2.0, 3.0],),
        ([0, 0, 0.5, 0.5],),
        ([0, 0, 0, 0],),
        value=2.5,
    ),
    Fault(
        "median of ties",
        "PaddlePaddle/Paddle#42385",
        bh.median,
        ([2.0, 3.0, 2.0, 3.0],),
        ([0.25] * 4,),
        ([0] * 4,),
        value=2.5,
    ),
    Fault(
        "sort of ties is stable",
        "pytorch/pytorch#1712",
        lambda x: bh.sort(x) * np.array([1.0, 2, 3]),
        ([1.0, 1.0, 0.0],),
        ([2, 3, 1],),
        ([0, 0, 0],),
    ),
    Fault(
        "second order through max",
        "pytorch/pytorch#1712",
        lambda x: bh.max(x) ** 2,
        ([1.0, 3.0],),
        ([0, 6],),
        ([0, 2],),
    ),
    Fault(
        "second order through sort",
        "pytorch/pytorch#1712",
        lambda x: bh.sort(x) ** 2 * np.array([1.0, 2.0]),
        ([3.0, 1.0],),
        ([12, 2],),
        ([4, 2],),
    ),
)

REDUCTIONS: Final = (*NORMS, *PRODUCTS, *EXPONENTIALS, *SPREAD, *ORDER)
