"""Faults of indexing and of shapes: repeated indices, broadcasting, empty pieces."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from tests.oracles.faults import Fault

import backhaul as bh

N = np.arange(6.0).reshape(2, 3)
THIRTY = np.repeat(np.arange(3), 10).reshape(30, 1)


def _rotated(x: Any) -> Any:
    return bh.roll(x, (1, 2), axis=(0, 1)) * N


INDEXING: Final = (
    Fault("an index twice", "HIPS/autograd#39", lambda x: x[[0, 0]], ([1.0],), ([2],), ([0],)),
    Fault(
        "an index twice, second order",
        "HIPS/autograd#39",
        lambda x: x[[0, 0, 1]] ** 2,
        ([1.0, 2.0],),
        ([4, 4],),
        ([4, 2],),
    ),
    Fault(
        "gather with an index twice",
        "pytorch/pytorch#1631",
        lambda x: bh.take(x, [0, 0]) * np.array([0.2, 0.3]),
        ([0.1],),
        ([0.5],),
        ([0],),
    ),
    Fault(
        "pairs of indices twice",
        "apache/mxnet#9172",
        lambda x: x[[1, 1, 0], [1, 1, 0]],
        ([[0.0, 1], [2, 3]],),
        ([[1, 0], [0, 2]],),
        ([[0, 0], [0, 0]],),
    ),
    Fault(
        "take_along_axis that broadcasts",
        "jax-ml/jax#1521",
        lambda x: bh.take_along_axis(x * np.arange(3.0).reshape(1, 3), THIRTY, axis=-1),
        (1.0,),
        (30,),
        (0,),
    ),
    Fault(
        "take_along_axis with an index twice",
        "PaddlePaddle/Paddle#17663",
        lambda x: bh.take_along_axis(x, np.array([[0, 0], [1, 0]]), axis=1) ** 2,
        ([[1.0, 2], [3, 4]],),
        ([[4, 0], [6, 8]],),
        ([[4, 0], [2, 2]],),
    ),
    Fault(
        "rows of an embedding twice",
        "pymc-devs/pytensor#2242",
        lambda x: x[np.array([[0, 1], [0, 2]])],
        (np.ones((4, 2)),),
        ([[2, 2], [1, 1], [1, 1], [0, 0]],),
    ),
    Fault(
        "scatter_add at one place twice",
        "ooples/AiDotNet.Tensors#894",
        lambda x, u: bh.scatter_add(x, np.array([0, 0]), u) ** 2,
        ([1.0, 2.0], [3.0, 4.0]),
        ([16, 4], [16, 16]),
        ([6, 2], [6, 6]),
    ),
    Fault(
        "negative and positive index of one element",
        "HIPS/autograd#39",
        lambda x: x[[0, -2]] ** 2,
        ([1.0, 2.0],),
        ([4, 0],),
        ([4, 0],),
    ),
    Fault(
        "arrays apart from each other",
        "apache/mxnet#9172",
        lambda x: x[[0, 1], :, [0, 0]] ** 2,
        (np.arange(8.0).reshape(2, 2, 2),),
        ([[[0, 0], [4, 0]], [[8, 0], [12, 0]]],),
        ([[[2, 0], [2, 0]], [[2, 0], [2, 0]]],),
    ),
    Fault(
        "a mask",
        "jax-ml/jax#1521",
        lambda x: x[np.array([True, False, True])] ** 2,
        ([1.0, 2.0, 3.0],),
        ([2, 0, 6],),
        ([2, 0, 2],),
    ),
    Fault(
        "no index at all",
        "HIPS/autograd#39",
        lambda x: x[np.zeros(0, int)],
        ([1.0, 2.0],),
        ([0, 0],),
        ([0, 0],),
    ),
    Fault(
        "a step backwards",
        "jax-ml/jax#1521",
        lambda x: x[::-2] ** 2,
        ([1.0, 2.0, 3.0],),
        ([2, 0, 6],),
        ([2, 0, 2],),
    ),
)

SHAPES: Final = (
    Fault(
        "repeat by 0",
        "pymc-devs/pytensor#1192",
        lambda x: bh.repeat(x, 0),
        ([1.0, 2.0],),
        ([0, 0],),
        ([0, 0],),
    ),
    Fault(
        "repeat by numbers that differ",
        "pymc-devs/pytensor#1192",
        lambda x: bh.repeat(x, [0, 2, 1]) ** 2,
        ([1.0, 2.0, 3.0],),
        ([0, 8, 6],),
        ([0, 4, 2],),
    ),
    Fault(
        "repeat along an axis",
        "pymc-devs/pytensor#1192",
        lambda x: bh.repeat(x, [2, 1], axis=1),
        ([[1.0, 2], [3, 4]],),
        ([[2, 1], [2, 1]],),
    ),
    Fault(
        "tile by 0",
        "pymc-devs/pytensor#1192",
        lambda x: bh.tile(x, (2, 0)),
        ([1.0, 2.0],),
        ([0, 0],),
        ([0, 0],),
    ),
    Fault(
        "roll over two axes",
        "jax-ml/jax#347",
        _rotated,
        (np.ones((2, 3)),),
        ([[5, 3, 4], [2, 0, 1]],),
    ),
    Fault(
        "roll over one axis twice",
        "jax-ml/jax#347",
        lambda x: bh.roll(x, (1, 1), axis=(0, 0)) * np.arange(3.0),
        (np.ones(3),),
        ([2, 0, 1],),
    ),
    Fault(
        "pad by reflection, several times",
        "facebookresearch/CrypTen#90",
        lambda x: bh.pad(x, (3, 5), mode="reflect") * np.arange(10.0),
        ([1.0, 2.0],),
        ([25, 20],),
    ),
    Fault(
        "pad by edges",
        "facebookresearch/CrypTen#90",
        lambda x: bh.pad(x, (1, 2), mode="edge") ** 2,
        ([1.0, 2.0, 3.0],),
        ([4, 4, 18],),
        ([4, 2, 6],),
    ),
    Fault(
        "pad by a negative width is refused",
        "pytorch/pytorch#13058",
        lambda x: bh.pad(x, (-1, 0)),
        ([1.0, 2.0, 3.0],),
        refused="INVALID_ATTRIBUTE",
    ),
    Fault(
        "diff to nothing",
        "jax-ml/jax#347",
        lambda x: bh.diff(x, n=5),
        ([1.0, 4.0],),
        ([0, 0],),
        ([0, 0],),
    ),
    Fault(
        "one tensor concatenated with itself",
        "karpathy/micrograd#102",
        lambda x: bh.concat([x, x, x]) ** 2,
        ([1.0, 2.0],),
        ([6, 12],),
        ([6, 6],),
    ),
    Fault("x - x", "karpathy/micrograd#102", lambda x: x - x, ([1.0, 2.0],), ([0, 0],), ([0, 0],)),
    Fault(
        "a linear function has second derivative 0",
        "pytorch/pytorch#32304",
        lambda x: x * 2,
        ([1.0],),
        ([2],),
        ([0],),
    ),
    Fault(
        "broadcast in both operands",
        "apache/mxnet#18102",
        lambda a, b: a * b,
        ([[1.0], [2.0]], [[3.0, 4.0]]),
        ([[7], [7]], [[3, 3]]),
    ),
    Fault(
        "mean over no axes",
        "jax-ml/jax#347",
        lambda x: bh.mean(x, axis=()),
        ([[1.0, 2.0]],),
        ([[1, 1]],),
    ),
)

INDICES_AND_SHAPES: Final = (*INDEXING, *SHAPES)
