"""What JAX and PyTorch try their own gradients on: shapes, attributes and ranges, as facts.

Read from jax-ml/jax (tests/, at cec06d1) and pytorch/pytorch (torch/testing/_internal, 2.14). The numbers are
drawn here, from a seed. Each source is the function there that draws its samples, or the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Shape = tuple[int, ...]
Domain = str | tuple[float, float]
"""A range of real numbers (of real and imaginary parts); or ``normal`` (JAX's default, of size 3),
``positive`` (0.5 up), ``apart`` (all distinct), ``between`` (and distinct from those), ``hermitian``,
``definite``, ``invertible``, ``lower``, ``upper``."""

_JAX = "jax-ml/jax: tests/"
_TORCH = "pytorch/pytorch: torch/testing/_internal/"
LAX: Final = _JAX + "lax_autodiff_test.py: "
JNP: Final = _JAX + "lax_numpy_test.py: "
NN: Final = _JAX + "nn_test.py: "
JLA: Final = _JAX + "linalg_test.py: "
JSP: Final = _JAX + "lax_scipy_special_functions_test.py: "
JSC: Final = _JAX + "lax_scipy_test.py: "
OPS: Final = _TORCH + "common_methods_invocations.py: "
TLA: Final = _TORCH + "opinfo/definitions/linalg.py: "
CORE: Final = _TORCH + "opinfo/core.py: "


@dataclass(frozen=True, slots=True)
class Case:
    """A call whose derivatives are compared with differences.

    Attributes:
        op: the function of backhaul, ``linalg.x`` for one in that module.
        shapes: of the differentiated operands.
        source: where these shapes and attributes were read.
        attributes: keyword arguments.
        domain: where numbers are drawn from: one for all operands, or a list of one each.
        after: further positional arguments, constants.
        kinds: dtype kinds tried: f and c.
        listed: whether the operands are one list.
        order: up to which derivatives are compared.
    """

    op: str
    shapes: tuple[Shape, ...]
    source: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: Domain | list[Domain] = "normal"
    after: tuple[Any, ...] = ()
    kinds: str = "fc"
    listed: bool = False
    order: int = 2


def one(
    ops: str,
    shapes: Sequence[Shape],
    source: str,
    domain: Domain = "normal",
    kinds: str = "fc",
    each: Sequence[Mapping[str, Any]] = ({},),
) -> list[Case]:
    """Cases of ops of one operand: each op with each shape and each set of attributes."""
    return [
        Case(op, (shape,), source, attributes, domain, kinds=kinds)
        for op in ops.split()
        for shape in shapes
        for attributes in each
    ]


def several(
    ops: str,
    pairs: Sequence[tuple[Shape, ...]],
    source: str,
    domain: Domain | list[Domain] = "normal",
    kinds: str = "fc",
    **more: Any,
) -> list[Case]:
    """Cases of ops of several operands: each op with each tuple of shapes."""
    return [
        Case(op, tuple(pair), source, domain=domain, kinds=kinds, **more)
        for op in ops.split()
        for pair in pairs
    ]


_COMPATIBLE: Final = [(3,), (2, 3)]
_PAIRS: Final = [((3,), (3,)), ((2, 3), (2, 3)), ((), (2, 3)), ((2, 1), (1, 3))]
_TORCH_PAIRS: Final = [
    ((), ()),
    ((5,), ()),
    ((5, 5, 5), (5, 1)),
    ((5, 1), (1, 5)),
    ((3, 1, 4), (2, 1)),
    ((0, 1, 3), (3,)),
]

UNARY: Final = [
    *one(
        "negative conj expm1 cosh tanh sin cos sigmoid", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (-3, 3)
    ),
    *one("exp exp2 sinh", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (-1, 1)),
    *one("log log1p abs sqrt rsqrt", _COMPATIBLE, LAX + "LAX_GRAD_OPS", "positive"),
    *one("floor ceil round", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (0.1, 0.4), "f"),
    *one("tan", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (-1.3, 1.3)),
    *one("asin acos", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (-0.95, 0.95)),
    *one("erf erfc", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (-1, 1), "f"),
    *one("erfinv", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (-0.9, 0.9), "f"),
    *one("cbrt", _COMPATIBLE, LAX + "LAX_GRAD_OPS", (0.5, 4), "f"),
    *one("real imag", _COMPATIBLE, LAX + "LAX_GRAD_OPS", kinds="c"),
    *one("asinh acosh", [(4,), (3, 1)], JNP + "GRAD_TEST_RECORDS", (1.5, 4)),
    *one("atanh", [(4,), (3, 1)], JNP + "GRAD_TEST_RECORDS", (-0.9, 0.9)),
    *one(
        "digamma lgamma", [(), (4,), (3, 4)], JSP + "JAX_SPECIAL_FUNCTION_RECORDS", "positive", "f"
    ),
    *one(
        "softplus silu relu gelu log_sigmoid",
        [(5, 5), (), (20,)],
        CORE + "sample_inputs_elementwise_unary",
        (-4, 4),
        "f",
    ),
    *one(
        "square reciprocal atan log2 log10 positive angle sign sinc",
        [(20,), (), (5, 5)],
        CORE + "sample_inputs_elementwise_unary",
        (0.2, 4),
    ),
    *one(
        "deg2rad rad2deg trunc",
        [(20,), ()],
        CORE + "sample_inputs_elementwise_unary",
        (0.2, 0.8),
        "f",
    ),
]

BINARY: Final = [
    *several("add subtract multiply", _PAIRS, LAX + "LAX_GRAD_OPS"),
    *several("divide", _PAIRS, LAX + "LAX_GRAD_OPS", "positive"),
    *several("pow", _PAIRS, LAX + "LAX_GRAD_OPS", (0.5, 3)),
    *several("maximum minimum atan2", _PAIRS, LAX + "LAX_GRAD_OPS", ["apart", "between"], "f"),
    *several(
        "logaddexp logaddexp2",
        [((3,), (3,)), ((3, 1), (1, 4)), ((), (4,))],
        JNP + "GRAD_TEST_RECORDS",
        (-0.9, 0.9),
        "f",
    ),
    *several(
        "multiply fmax fmin",
        _TORCH_PAIRS,
        CORE + "sample_inputs_elementwise_binary",
        ["apart", "between"],
        "f",
    ),
    *several(
        "divide hypot", _TORCH_PAIRS, CORE + "sample_inputs_elementwise_binary", "positive", "f"
    ),
    *several("multiply", _TORCH_PAIRS, CORE + "sample_inputs_elementwise_binary", kinds="c"),
    *several(
        "xlogy xlog1py",
        [((5, 5), (5, 5)), ((), (4,)), ((2, 1, 3), (4, 1))],
        CORE + "sample_inputs_elementwise_binary",
        "positive",
        "f",
    ),
    *several("xlogy xlog1py", [((), ())], JSC + "testGradOfXlogyAtZero", [(0, 0), (3, 3)], "f"),
    *several(
        "remainder",
        [((5, 8), (1, 8)), ((1, 8), (5, 8))],
        LAX + "testRemainder",
        [(1.1, 1.9), (0.4, 0.5)],
        "f",
    ),
    *several(
        "floor_divide",
        [((5, 5), (5, 5))],
        CORE + "sample_inputs_elementwise_binary",
        [(1.1, 1.4), (1, 1.05)],
        "f",
    ),
    *several(
        "clip",
        [((), (), ()), ((2, 3), (2, 3), (2, 3))],
        LAX + "testClampGrad",
        [(-1, 1), (-10, -9), (9, 10)],
        "f",
    ),
    *several(
        "clip",
        [((2, 3), (2, 3), (2, 3))],
        LAX + "testClampGrad",
        [(-10, -9), (-1, 1), (9, 10)],
        "f",
    ),
]

_REDUCED: Final[list[tuple[Shape, Any]]] = [
    ((), None),
    ((3, 4, 5), ()),
    ((3, 4, 5), 0),
    ((3, 4, 5), (1, 2)),
    ((3, 4, 5), (0, 2)),
    ((3, 4, 5), None),
    ((3, 1), 1),
    ((2,), 0),
    ((3, 5), -1),
]


def reductions(
    ops: str,
    source: str,
    domain: Domain,
    kinds: str,
    given: Sequence[tuple[Shape, Any]],
    **more: Any,
) -> list[Case]:
    """Cases of reductions over axes, each with and without keepdims."""
    return [
        Case(op, (shape,), source, {"axis": axis, "keepdims": keep, **more}, domain, kinds=kinds)
        for op in ops.split()
        for shape, axis in given
        for keep in ((False, True) if axis == 0 else (False,))
    ]


_ORDERS: Final = (6, 4, 2, 1, 0.9, np.inf, -2.1, -np.inf)
_ALONG: Final = [((10,), 0), ((3, 4, 5), 0), ((3, 4, 5), 1), ((3, 4, 5), 2)]

REDUCTIONS: Final = [
    *reductions("sum mean", LAX + "testReduceGrad", "normal", "fc", _REDUCED),
    *reductions("max min", LAX + "testReduceGrad", "apart", "f", _REDUCED),
    *reductions("prod", LAX + "testReduceGrad", (0.5, 1.5), "fc", _REDUCED),
    *reductions("sum", LAX + "testReduceGrad", "normal", "fc", [((3, 0, 5), 1)]),
    *reductions(
        "prod",
        OPS + "sample_inputs_prod",
        (-2, 2),
        "fc",
        [((5, 5, 5), 0), ((5, 5, 5), 1), ((1,), 0), ((0,), 0)],
    ),
    *reductions(
        "var std",
        OPS + "sample_inputs_std_var",
        "normal",
        "fc",
        [((5, 5, 5), None), ((5, 5, 5), 1), ((5,), 0)],
        ddof=0,
    ),
    *reductions(
        "var std",
        OPS + "sample_inputs_std_var",
        "normal",
        "fc",
        [((5, 5, 5), 1), ((5, 5, 5), None)],
        ddof=2,
    ),
    *reductions("var std", OPS + "sample_inputs_std_var", "normal", "f", [((5, 5, 5), 1)], ddof=-1),
    *reductions(
        "median",
        OPS + "sample_inputs_reduction",
        "apart",
        "f",
        [((), None), ((2,), 0), ((3, 5), 1), ((3, 2, 1, 2), 0)],
    ),
    *reductions(
        "quantile",
        OPS + "sample_inputs_reduction_quantile",
        "apart",
        "f",
        [((2,), 0), ((3, 5), 1), ((3, 2, 1, 2), 0)],
        q=0.4,
    ),
    *reductions(
        "logsumexp",
        OPS + "sample_inputs_logsumexp",
        (-2, 2),
        "f",
        [((), None), ((5, 5), 1), ((5, 5), 0), ((5, 5), (0, 1))],
    ),
    *reductions(
        "linalg.vector_norm",
        OPS + "sample_inputs_norm",
        "normal",
        "fc",
        [((5, 5), None), ((5, 5), 1)],
    ),
    *[
        Case(
            "linalg.vector_norm",
            ((3, 5),),
            TLA + "sample_kwargs_vector_norm",
            {"ord": p, "axis": axis},
            "apart",
            kinds="f",
        )
        for p in _ORDERS
        for axis in (None, -1)
    ],
    *[
        Case(
            "linalg.vector_norm",
            ((3, 2),),
            TLA + "sample_kwargs_vector_norm",
            {"ord": p},
            "apart",
            kinds="c",
        )
        for p in _ORDERS
    ],
    *[
        Case(op, (shape,), LAX + "testCumulativeReduceGrad", {"axis": axis}, (-1, 1))
        for op in ("cumsum", "cumprod")
        for shape, axis in _ALONG
    ],
    *[
        Case("cumprod", ((5, 5, 5),), OPS + "sample_inputs_cumprod", {"axis": axis}, (-1.5, 1.5))
        for axis in (0, 1, 2)
    ],
    *[
        Case(
            "cumulative_logsumexp",
            ((5, 5, 5),),
            OPS + "sample_inputs_logcumsumexp",
            {"axis": axis},
            (-3, 3),
            kinds="f",
        )
        for axis in (0, 1)
    ],
    *[
        Case(
            op, (shape,), OPS + "sample_inputs_softmax_variant", {"axis": axis}, (-3, 3), kinds="f"
        )
        for op in ("softmax", "log_softmax")
        for shape, axis in (
            ((5,), 0),
            ((5, 5), 0),
            ((5, 5), 1),
            ((5, 5), -1),
            ((5, 2, 5), 2),
            ((), -1),
        )
        if shape
    ],
    *[Case("softmax", ((4,),), NN + "testSoftmaxGrad", {}, (-4, 5), kinds="f")],
    *[
        Case("sort", (shape,), LAX + "testSortGrad", {"axis": -1}, "apart", kinds="f")
        for shape in ((0,), (5,), (5, 7), (4, 9, 3))
    ],
    *[
        Case("diff", (shape,), OPS + "sample_inputs_diff", {"axis": axis, "n": n})
        for shape, axis in (((5,), 0), ((5, 5), 0), ((5, 5), 1), ((5, 5, 5), 2))
        for n in (0, 1, 2)
    ],
    *[
        Case("trapezoid", pair, OPS + "sample_trapezoid")
        for pair in (((5, 3), (5, 3)), ((5,), (5,)), ((2, 3), (3,)))
    ],
    *[Case("trapezoid", ((5, 2, 4),), OPS + "sample_trapezoid", {"dx": 0.3, "axis": 1})],
]

MOVES: Final = [
    *[
        Case("concat", shapes, LAX + "testConcatenateGrad", {"axis": axis}, listed=True)
        for shapes, axis in (
            (((3,), (1,), (4,)), 0),
            (((3, 4), (1, 4), (4, 4)), 0),
            (((3, 3), (3, 1), (3, 4)), 1),
            (((2, 3, 3), (2, 3, 1), (2, 3, 4)), 2),
        )
    ],
    *[
        Case(
            "stack",
            ((5, 5), (5, 5), (5, 5)),
            OPS + "sample_inputs_stack",
            {"axis": axis},
            listed=True,
        )
        for axis in (0, 1, 2, -1)
    ],
    *[
        Case(op, ((5, 5), (5, 5)), OPS + "sample_inputs_hstack_dstack_vstack", listed=True)
        for op in ("hstack", "vstack", "dstack", "column_stack")
    ],
    *[
        Case("broadcast_to", (shape,), LAX + "testBroadcastInDimGrad", {"shape": out})
        for shape, out in (((2,), (2, 2)), ((2, 1), (2, 2)), ((), (2, 3)), ((5, 1), (2, 5, 5)))
    ],
    *[
        Case("reshape", (shape,), LAX + "testReshapeGrad", after=(out,))
        for shape, out in (
            ((3, 4), (12,)),
            ((2, 1, 4), (8,)),
            ((2, 2, 4), (2, 8)),
            ((), (1,)),
            ((5, 5, 5), (25, -1)),
        )
    ],
    *[
        Case("permute_dims", (shape,), LAX + "testTransposeGrad", {"axes": perm})
        for shape, perm in (
            ((3, 4), (1, 0)),
            ((3, 4), (0, 1)),
            ((3, 4, 5), (2, 1, 0)),
            ((3, 4, 5), (1, 0, 2)),
        )
    ],
    *[
        Case("pad", ((2, 3),), LAX + "testPadGrad", after=(pads,))
        for pads in (((1, 2), (0, 1)), ((0, 0), (0, 2)), ((3, 0), (1, 1)))
    ],
    *[
        Case(
            "pad",
            ((1, 3, 3),),
            OPS + "sample_inputs_nn_pad",
            {"mode": mode},
            after=(((0, 0), (1, 2), (2, 1)),),
        )
        for mode in ("constant", "reflect", "edge", "wrap", "symmetric")
    ],
    *[
        Case("flip", (shape,), OPS + "sample_inputs_flip", {"axis": axis})
        for shape, axis in (
            ((5, 10, 0), 0),
            ((5, 10, 3), (0, 1, 2)),
            ((5, 10, 3), (0, -1)),
            ((3,), 0),
            ((2, 3), (0, 1)),
        )
    ],
    *[
        Case("roll", (shape,), OPS + "sample_inputs_roll", {"axis": axis}, after=(by,))
        for shape, by, axis in (
            ((5, 5, 5), 0, 0),
            ((5, 5, 5), 1, 2),
            ((5, 5, 5), (1, 2, 5), (0, 1, -1)),
            ((5, 5, 5), -1, 2),
            ((5, 5), 2, None),
            ((5, 5), (1, 3), (0, 0)),
            ((5, 0, 5), 3, 0),
        )
    ],
    *[
        Case("rot90", ((5, 5, 3),), OPS + "sample_inputs_rot90", {"k": k, "axes": axes})
        for k, axes in ((0, (0, 1)), (1, (0, 1)), (2, (1, 2)), (-5, (0, 2)))
    ],
    *[
        Case("tile", (shape,), OPS + "sample_repeat_tile", after=(reps,))
        for shape, reps in (
            ((), (3,)),
            ((3, 2), (2,)),
            ((3, 2), (1, 0)),
            ((3, 1), (2, 3, 1)),
            ((0, 2), (2, 2)),
        )
    ],
    *[
        Case(
            "repeat", (shape,), OPS + "sample_inputs_repeat_interleave", {"axis": axis}, after=(n,)
        )
        for shape, n, axis in (
            ((), 2, None),
            ((2, 3, 4), 2, None),
            ((2, 3, 4), 2, 1),
            ((2, 3, 4), (1, 2, 0), 1),
            ((4, 1), (1, 2, 0, 3), 0),
        )
    ],
    *[
        Case("squeeze", (shape,), OPS + "sample_inputs_squeeze", {"axis": axis})
        for shape, axis in (
            ((5, 1, 5, 1), 1),
            ((5, 1, 5, 1), -1),
            ((1, 1, 1, 1), (0, 2)),
            ((1,), 0),
        )
    ],
    *[
        Case("expand_dims", (shape,), OPS + "sample_unsqueeze", {"axis": axis})
        for shape, axis in (
            ((3, 4, 5), 0),
            ((3, 4, 5), 1),
            ((3, 4, 5), 3),
            ((3, 4, 5), -1),
            ((), 0),
            ((1,), 0),
        )
    ],
    *[
        Case(
            "moveaxis",
            ((4, 3, 2, 1),),
            OPS + "sample_movedim_moveaxis",
            {"source": a, "destination": b},
        )
        for a, b in (((0, 1, 2, 3), (3, 2, 1, 0)), ((0, -1), (1, 0)))
    ],
    *[
        Case(
            "swapaxes",
            ((1, 2, 3),),
            OPS + "sample_inputs_transpose_swapdims",
            {"axis1": a, "axis2": b},
        )
        for a, b in ((0, 2), (-1, 2), (-2, 0))
    ],
    *[Case("tril", ((5, 5),), OPS + "sample_inputs_tril_triu", {"k": k}) for k in (0, -2, 2)],
    *[
        Case("triu", (shape,), OPS + "sample_inputs_tril_triu", {"k": k})
        for shape, k in (((3, 5), 1), ((5, 3), -1), ((5, 0, 3), 0), ((3, 3, 5, 5), -2))
    ],
    *[
        Case("diag", (shape,), OPS + "sample_inputs_diag", {"k": k})
        for shape, k in (((5,), 0), ((5,), 2), ((5, 3), -1), ((3, 5), 1), ((2, 2), 0))
    ],
    *[
        Case(
            "diagonal",
            (shape,),
            OPS + "sample_inputs_diagonal_diag_embed",
            {"offset": k, "axis1": a, "axis2": b},
        )
        for shape, k, a, b in (
            ((5, 5), 0, 0, 1),
            ((3, 5), 1, 1, 0),
            ((5, 5, 5), -1, 1, 2),
            ((3, 5, 3), 2, 0, -2),
        )
    ],
    *[
        Case("trace", (shape,), OPS + "sample_inputs_trace")
        for shape in ((5, 5), (5, 3), (3, 5), (1, 1))
    ],
    *[
        Case("linalg.diagonal", (shape,), TLA + "sample_inputs_diagonal_diag_embed", {"offset": k})
        for shape, k in (((5, 5), 0), ((3, 5), 1), ((2, 5, 5), -1))
    ],
    *[
        Case("where", pair, OPS + "sample_inputs_where")
        for pair in (((10, 10), (10, 10)), ((10, 1, 10), (10, 10, 1)), ((), ()))
    ],
    *[Case("where", (shape, shape), LAX + "testSelectGrad") for shape in ((), (3,), (2, 3))],
    *[Case("astype", ((2, 3),), LAX + "testConvertElementTypeGrad", after=(np.complex128,))],
    *[Case("ravel", (shape,), OPS + "sample_inputs_ravel") for shape in ((5, 5, 5), ())],
    *[
        Case(
            "average",
            ((5, 3), (5, 3)),
            OPS + "sample_inputs_reduction",
            domain="positive",
            kinds="f",
        )
    ],
]

_TAKEN: Final = np.array([[0, 2, 1], [2, 2, 0]])
PICKS: Final = [
    *[
        Case("getitem", (shape,), LAX + "testSliceGrad", after=(index,))
        for shape, index in (
            ((3,), np.s_[1:2]),
            ((7,), np.s_[4:7]),
            ((5,), np.s_[1:5:2]),
            ((8,), np.s_[1:6:2]),
            ((5, 3), np.s_[1:3, 1:2]),
            ((5, 3), np.s_[1:3, 1:1]),
            ((7, 5, 3), np.s_[4:7, 0:1, 1:3]),
            ((5, 3), np.s_[1:5:2, 1:3]),
            ((3, 3, 5), np.s_[0:3, 2:3:2, 0:5]),
        )
    ],
    *[
        Case("getitem", (shape,), LAX + "testIndexTakeGrad", after=(index,))
        for shape, index in (
            ((3, 4, 5), np.array([0, 2, 1])),
            ((3, 4, 5), np.array([-1, -2])),
            ((3, 4, 5), (np.array([0, 2]), np.array([1, 3]))),
            ((3, 4, 5), (np.array([0, 2]), slice(None), np.array([1, 3]))),
        )
    ],
    *[
        Case("getitem", ((5, 5, 5),), OPS + "sample_inputs_getitem", after=(index,))
        for index in (
            [1, 2],
            slice(0, 3),
            (slice(3), 1),
            ([0, 2, 3], [1, 3, 3], [0, 0, 2]),
            ([0, 0, 3], [1, 1, 3], [0, 0, 2]),
            (slice(None), slice(None), [0, 3]),
            (slice(None), [0, 3], slice(None)),
            ([0, 3], slice(None), slice(None)),
            ([0, 3], [1, 2], slice(None)),
            ([0, 3],),
            ([0, 3], Ellipsis),
            (None, [0, 3]),
            np.array([True, False, True, True, False]),
        )
    ],
    *[
        Case(
            "take", (shape,), OPS + "sample_inputs_index", {"axis": axis}, after=(np.array(index),)
        )
        for shape, index, axis in (
            ((5, 5), [0, 2, 2], 0),
            ((5, 5), [4, -1], 1),
            ((3, 4), [5, 0, 5], None),
        )
    ],
    *[
        Case(
            "take_along_axis",
            (shape,),
            OPS + "sample_inputs_take_along_dim",
            {"axis": axis},
            after=(index,),
        )
        for shape, index, axis in (
            ((2, 3), _TAKEN, 1),
            ((3, 3), _TAKEN, 0),
            ((1, 3), _TAKEN, 1),
            ((2, 1), np.array([[0, 0]]), 1),
            ((4,), np.array([3, 3, 0]), 0),
        )
    ],
    *[
        Case("scatter_add", pair, OPS + "sample_inputs_index", after=(), attributes={})
        for pair in (((5, 5), (3, 5)), ((5,), (3,)))
    ],
]

_BATCHES: Final = [(5, 5), (2, 5, 5), (1, 1, 5, 5), (0, 5, 5), (0, 0)]
_LEAN: Final = [(1, 1), (4, 4), (2, 5), (5, 2), (2, 3, 3)]
_SQUARE: Final = [(1, 1), (2, 2), (3, 3), (2, 2, 2), (2, 3, 3), (2, 4, 4)]

PRODUCTS: Final = [
    *several(
        "dot", [((2,), (2,)), ((3, 2), (2,)), ((2,), (2, 4)), ((3, 2), (2, 4))], LAX + "testDotGrad"
    ),
    *several(
        "matmul",
        [
            ((5,), (5,)),
            ((5, 10), (10,)),
            ((10,), (10, 5)),
            ((5, 10), (10, 5)),
            ((5, 0), (0, 5)),
            ((2, 5, 3), (3,)),
            ((2, 5, 3), (2, 3, 4)),
            ((5,), (2, 5, 3)),
            ((3, 1, 2, 3), (2, 3, 2)),
        ],
        OPS + "sample_inputs_matmul",
    ),
    *several("vdot inner outer", [((5,), (5,))], OPS + "sample_inputs_dot_vdot"),
    *several("inner", [((5,), (10, 5)), ((2, 5), (3, 5))], OPS + "sample_inputs_inner"),
    *several(
        "kron", [((3, 2), (2, 3)), ((2,), (3,)), ((2, 1, 2), (1, 3))], OPS + "sample_inputs_kron"
    ),
    *several(
        "cross linalg.cross", [((5, 3), (5, 3)), ((1, 3), (5, 3))], TLA + "sample_inputs_cross"
    ),
    *several(
        "cross", [((5, 3, 5), (5, 3, 5))], TLA + "sample_inputs_cross", attributes={"axis": 1}
    ),
    *several(
        "vecdot",
        [((0,), (0,)), ((1,), (1,)), ((3,), (3,)), ((2, 5), (2, 5)), ((2, 1, 3), (4, 3))],
        TLA + "sample_inputs_linalg_vecdot",
    ),
    *several("matvec", [((5, 10), (10,)), ((2, 3, 4), (4,))], OPS + "sample_inputs_mv"),
    *several("vecmat", [((5,), (5, 10)), ((4,), (2, 4, 3))], OPS + "sample_inputs_mv"),
    *[
        Case("tensordot", pair, OPS + "sample_inputs_tensordot", {"axes": axes})
        for pair, axes in (
            (((2, 2, 2), (2, 2, 2)), 2),
            (((2, 2, 2), (2, 2, 2)), 3),
            (((1, 1, 1), (2, 1, 2)), ((0,), (1,))),
        )
    ],
    *[
        Case("linalg.multi_dot", shapes, TLA + "sample_inputs_linalg_multi_dot", listed=True)
        for shapes in (
            ((1, 2), (2, 1)),
            ((2, 0), (0, 2)),
            ((2, 2),) * 3,
            ((2, 3), (3, 4), (4, 5)),
            ((5, 4), (4, 0), (0, 2)),
            ((2, 4), (4, 3), (3, 5), (5, 3), (3, 2)),
        )
    ],
    *[
        Case("einsum", shapes, OPS + "sample_inputs_einsum", {"subscripts": text})
        for text, shapes in (
            ("i->", ((5,),)),
            ("i,j->ij", ((5,), (6,))),
            ("ij->j", ((5, 6),)),
            ("i,i->", ((5,), (5,))),
            ("ij,jk->ik", ((2, 3), (3, 4))),
            ("bij,bjk->bik", ((3, 2, 4), (3, 4, 5))),
            ("i,j,k->ijk", ((2,), (3,), (4,))),
            ("ii->i", ((4, 4),)),
            ("ii->", ((4, 4),)),
            ("i...->...", ((3, 2, 2),)),
            ("bn,anm,bm->ba", ((2, 3), (4, 3, 2), (2, 2))),
        )
    ],
    *[
        Case("einsum", shapes, LAX + "testDotGeneralContractAndBatchGrads", {"subscripts": text})
        for text, shapes in (
            ("ij,kj->ik", ((3, 5), (2, 5))),
            ("ji,jk->ik", ((5, 3), (5, 2))),
            ("bij,bjk->bik", ((3, 3, 2), (3, 2, 4))),
            ("ibj,jkb->bik", ((3, 5, 2), (2, 4, 5))),
            ("iabj,jack->abick", ((3, 2, 5, 2), (2, 2, 4, 3))),
        )
    ],
]

LINEAR_ALGEBRA: Final = [
    *one("linalg.det", _SQUARE, JLA + "testDetGrad", (-3, 3)),
    *one(
        "linalg.det",
        [(0, 0), (3, 0, 0), (0, 1, 1), (3, 5, 5)],
        TLA + "sample_inputs_linalg_det_logdet_slogdet",
        "invertible",
    ),
    *one(
        "linalg.slogdet", [(1, 1), (4, 4), (5, 5), (2, 7, 7)], JLA + "testSlogdetGrad", "invertible"
    ),
    *one("linalg.inv", _BATCHES, TLA + "sample_inputs_linalg_invertible", "invertible"),
    *several(
        "linalg.solve",
        [
            ((5, 5), (5,)),
            ((5, 5), (5, 1)),
            ((5, 5), (5, 3)),
            ((0, 5, 5), (0, 5, 1)),
            ((2, 5, 5), (2, 5, 3)),
            ((2, 2, 5, 5), (2, 2, 5, 1)),
        ],
        TLA + "sample_inputs_linalg_solve",
        ["invertible", "normal"],
    ),
    *one(
        "linalg.cholesky",
        [(5, 5), (2, 5, 5), (0, 5, 5), (0, 0)],
        TLA + "sample_inputs_linalg_cholesky",
        "definite",
        each=({"upper": True}, {"upper": False}),
    ),
    *one(
        "linalg.pinv", [(1, 1), (4, 4), (2, 5), (5, 2), (2, 3, 2)], JLA + "testPinv", "invertible"
    ),
    *several(
        "pinv_of_product",
        [((5, 2), (5, 2)), ((3, 1), (4, 1)), ((2, 4, 2), (2, 3, 2))],
        TLA + "sample_inputs_linalg_pinv_singular",
    ),
    *several(
        "linalg.lstsq",
        [((2, 3), (2, 3)), ((3, 3), (3, 3)), ((4, 3), (4, 3)), ((4, 3), (4,))],
        TLA + "sample_inputs_linalg_lstsq",
        ["invertible", "normal"],
    ),
    *one(
        "linalg.matrix_power",
        [(1, 1), (2, 2), (2, 2, 2)],
        TLA + "sample_inputs_linalg_matrix_power",
        "invertible",
        each=[{"n": n} for n in (0, 3, 5, -4, -2, -1)],
    ),
    *one("linalg.expm", [(1, 1), (4, 4), (5, 5)], JLA + "testExpmGrad", (-0.5, 0.5)),
    *one("linalg.expm", [(2, 2), (2, 2, 2)], OPS + "sample_inputs_matrix_exp", (-2, 2)),
    *one("linalg.svdvals", _LEAN, JLA + "testSVDGrad", "invertible"),
    *one("svd_product", _LEAN, JLA + "testSVDGrad", "invertible"),
    *one("svd_squares", _LEAN, JLA + "testSVDGrad", "invertible"),
    *one(
        "linalg.eigvalsh",
        [(5, 5), (2, 5, 5), (1, 1, 5, 5), (0, 0)],
        TLA + "sample_inputs_linalg_eigh",
        "hermitian",
    ),
    *one("eigh_product", [(5, 5), (2, 3, 3)], TLA + "sample_inputs_linalg_eigh", "hermitian"),
    *one("eigh_squares", [(4, 4), (2, 3, 3)], TLA + "sample_inputs_linalg_eigh", "hermitian"),
    *one(
        "qr_product",
        [(5, 5), (5, 2), (2, 5), (2, 5, 2)],
        TLA + "sample_inputs_linalg_qr_geqrf",
        "invertible",
    ),
    *one(
        "qr_squares", [(5, 5), (5, 2), (2, 5)], TLA + "sample_inputs_linalg_qr_geqrf", "invertible"
    ),
    *[
        Case(
            "linalg.solve_triangular",
            (a, b),
            JLA + "testTriangularSolveGrad",
            {"lower": lower, "unit_diagonal": unit, "trans": trans},
            ["lower" if lower else "upper", "normal"],
        )
        for a, b in (((4, 4), (4, 1)), ((4, 4), (4, 3)), ((2, 5, 5), (2, 5, 3)))
        for lower in (False, True)
        for unit in (False, True)
        for trans in ("N", "T", "C")
    ],
    *[
        Case(
            "linalg.matrix_norm",
            (shape,),
            TLA + "sample_inputs_linalg_matrix_norm",
            {"ord": p},
            "apart",
        )
        for shape in ((2, 2), (3, 5), (2, 3, 2))
        for p in ("fro", "nuc", np.inf, 1, 2, -2, -1, -np.inf)
    ],
    *one("linalg.trace", [(5, 5), (2, 3, 5)], OPS + "sample_inputs_trace"),
    *one("matrix_transpose", [(5, 3), (2, 3, 5)], OPS + "sample_inputs_transpose_swapdims"),
]

CASES: Final[tuple[Case, ...]] = (
    *UNARY,
    *BINARY,
    *REDUCTIONS,
    *MOVES,
    *PICKS,
    *PRODUCTS,
    *LINEAR_ALGEBRA,
)
