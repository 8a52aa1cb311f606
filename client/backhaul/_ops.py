"""The ops of the catalog as functions.

Generated from the catalog by tools/gen_ops.py: `make ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul.recording import record, record_several
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from backhaul.recording import Operand
    from backhaul.tensor import TrackedTensor

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "amax",
    "amin",
    "angle",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "around",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast_to",
    "cbrt",
    "ceil",
    "conj",
    "conjugate",
    "cos",
    "cosh",
    "count_nonzero",
    "cross",
    "cumulative_logsumexp",
    "cumulative_prod",
    "cumulative_sum",
    "deg2rad",
    "degrees",
    "diag",
    "diagonal",
    "digamma",
    "divide",
    "dot",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expand_dims",
    "expit",
    "expm1",
    "flip",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "gammaln",
    "gelu",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "inner",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "kron",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_expit",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "matvec",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "mod",
    "moveaxis",
    "multiply",
    "negative",
    "not_equal",
    "outer",
    "permute_dims",
    "positive",
    "pow",
    "power",
    "prod",
    "psi",
    "rad2deg",
    "radians",
    "ravel",
    "real",
    "reciprocal",
    "relu",
    "remainder",
    "repeat",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinc",
    "sinh",
    "softmax",
    "softplus",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "swish",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "unstack",
    "vdot",
    "vecdot",
    "vecmat",
    "where",
    "xlog1py",
    "xlogy",
]

_ABS: Final = get("abs")
_ACOS: Final = get("acos")
_ACOSH: Final = get("acosh")
_ADD: Final = get("add")
_ALL: Final = get("all")
_ANGLE: Final = get("angle")
_ANY: Final = get("any")
_ARGMAX: Final = get("argmax")
_ARGMIN: Final = get("argmin")
_ASIN: Final = get("asin")
_ASINH: Final = get("asinh")
_ASTYPE: Final = get("astype")
_ATAN: Final = get("atan")
_ATAN2: Final = get("atan2")
_ATANH: Final = get("atanh")
_BITWISE_AND: Final = get("bitwise_and")
_BITWISE_INVERT: Final = get("bitwise_invert")
_BITWISE_OR: Final = get("bitwise_or")
_BITWISE_XOR: Final = get("bitwise_xor")
_BROADCAST_TO: Final = get("broadcast_to")
_CBRT: Final = get("cbrt")
_CEIL: Final = get("ceil")
_CONJ: Final = get("conj")
_COS: Final = get("cos")
_COSH: Final = get("cosh")
_COUNT_NONZERO: Final = get("count_nonzero")
_CROSS: Final = get("cross")
_CUMULATIVE_LOGSUMEXP: Final = get("cumulative_logsumexp")
_CUMULATIVE_PROD: Final = get("cumulative_prod")
_CUMULATIVE_SUM: Final = get("cumulative_sum")
_DEG2RAD: Final = get("deg2rad")
_DIAG: Final = get("diag")
_DIAGONAL: Final = get("diagonal")
_DIGAMMA: Final = get("digamma")
_DIVIDE: Final = get("divide")
_DOT: Final = get("dot")
_EQUAL: Final = get("equal")
_ERF: Final = get("erf")
_ERFC: Final = get("erfc")
_ERFINV: Final = get("erfinv")
_EXP: Final = get("exp")
_EXP2: Final = get("exp2")
_EXPAND_DIMS: Final = get("expand_dims")
_EXPM1: Final = get("expm1")
_FLIP: Final = get("flip")
_FLOOR: Final = get("floor")
_FLOOR_DIVIDE: Final = get("floor_divide")
_FMAX: Final = get("fmax")
_FMIN: Final = get("fmin")
_GELU: Final = get("gelu")
_GREATER: Final = get("greater")
_GREATER_EQUAL: Final = get("greater_equal")
_HYPOT: Final = get("hypot")
_IMAG: Final = get("imag")
_INNER: Final = get("inner")
_ISFINITE: Final = get("isfinite")
_ISINF: Final = get("isinf")
_ISNAN: Final = get("isnan")
_KRON: Final = get("kron")
_LESS: Final = get("less")
_LESS_EQUAL: Final = get("less_equal")
_LGAMMA: Final = get("lgamma")
_LOG: Final = get("log")
_LOG10: Final = get("log10")
_LOG1P: Final = get("log1p")
_LOG2: Final = get("log2")
_LOG_SIGMOID: Final = get("log_sigmoid")
_LOG_SOFTMAX: Final = get("log_softmax")
_LOGADDEXP: Final = get("logaddexp")
_LOGADDEXP2: Final = get("logaddexp2")
_LOGICAL_AND: Final = get("logical_and")
_LOGICAL_NOT: Final = get("logical_not")
_LOGICAL_OR: Final = get("logical_or")
_LOGICAL_XOR: Final = get("logical_xor")
_LOGSUMEXP: Final = get("logsumexp")
_MATMUL: Final = get("matmul")
_MATRIX_TRANSPOSE: Final = get("matrix_transpose")
_MATVEC: Final = get("matvec")
_MAX: Final = get("max")
_MAXIMUM: Final = get("maximum")
_MEAN: Final = get("mean")
_MEDIAN: Final = get("median")
_MIN: Final = get("min")
_MINIMUM: Final = get("minimum")
_MOVEAXIS: Final = get("moveaxis")
_MULTIPLY: Final = get("multiply")
_NEGATIVE: Final = get("negative")
_NOT_EQUAL: Final = get("not_equal")
_OUTER: Final = get("outer")
_PERMUTE_DIMS: Final = get("permute_dims")
_POSITIVE: Final = get("positive")
_POW: Final = get("pow")
_PROD: Final = get("prod")
_RAD2DEG: Final = get("rad2deg")
_RAVEL: Final = get("ravel")
_REAL: Final = get("real")
_RECIPROCAL: Final = get("reciprocal")
_RELU: Final = get("relu")
_REMAINDER: Final = get("remainder")
_REPEAT: Final = get("repeat")
_RESHAPE: Final = get("reshape")
_ROLL: Final = get("roll")
_ROUND: Final = get("round")
_RSQRT: Final = get("rsqrt")
_SIGMOID: Final = get("sigmoid")
_SIGN: Final = get("sign")
_SILU: Final = get("silu")
_SIN: Final = get("sin")
_SINC: Final = get("sinc")
_SINH: Final = get("sinh")
_SOFTMAX: Final = get("softmax")
_SOFTPLUS: Final = get("softplus")
_SPLIT: Final = get("split")
_SQRT: Final = get("sqrt")
_SQUARE: Final = get("square")
_SQUEEZE: Final = get("squeeze")
_STACK: Final = get("stack")
_STOP_GRADIENT: Final = get("stop_gradient")
_SUBTRACT: Final = get("subtract")
_SUM: Final = get("sum")
_SWAPAXES: Final = get("swapaxes")
_TAN: Final = get("tan")
_TANH: Final = get("tanh")
_TENSORDOT: Final = get("tensordot")
_TILE: Final = get("tile")
_TRACE: Final = get("trace")
_TRIL: Final = get("tril")
_TRIU: Final = get("triu")
_TRUNC: Final = get("trunc")
_UNSTACK: Final = get("unstack")
_VDOT: Final = get("vdot")
_VECDOT: Final = get("vecdot")
_VECMAT: Final = get("vecmat")
_WHERE: Final = get("where")
_XLOG1PY: Final = get("xlog1py")
_XLOGY: Final = get("xlogy")


def abs(x: Operand, /) -> TrackedTensor:
    """The absolute value of each element, a real number. Its derivative at 0 is 0.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.abs(x).shape
        (2, 3)
    """
    return record(_ABS, (x,))


def acos(x: Operand, /) -> TrackedTensor:
    """The inverse cosine of each element, in radians.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.acos(x).shape
        (2, 3)
    """
    return record(_ACOS, (x,))


def acosh(x: Operand, /) -> TrackedTensor:
    """The inverse hyperbolic cosine of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.acosh(x).shape
        (2, 3)
    """
    return record(_ACOSH, (x,))


def add(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The sum x1 + x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.add(x1, x2).shape
        (2, 3)
    """
    return record(_ADD, (x1, x2))


def all(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """Whether all elements over axes are true (not 0); true for none.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.all(x, 1).shape
        (2,)
    """
    return record(_ALL, (x,), axis, keepdims)


def angle(x: Operand, /) -> TrackedTensor:
    """The angle of each element from the positive real axis, in radians: 0 or pi for a real one.

    The derivative is 0 for real elements, and at 0.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.angle(x).shape
        (2, 3)
    """
    return record(_ANGLE, (x,))


def any(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """Whether some element over axes is true (not 0); false for none.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.any(x, 1).shape
        (2,)
    """
    return record(_ANY, (x,), axis, keepdims)


def argmax(x: Operand, /, axis: int | None = None, *, keepdims: bool = False) -> TrackedTensor:
    """Where the greatest element along an axis stands, as int64.

    Of equals it is the first; NaN counts as greater than any number.

    Args:
        x: Tensor, array or number.
        axis: The axis to search along; when left out, the elements in C order.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.argmax(x, 1).shape
        (2,)
    """
    return record(_ARGMAX, (x,), axis, keepdims)


def argmin(x: Operand, /, axis: int | None = None, *, keepdims: bool = False) -> TrackedTensor:
    """Where the least element along an axis stands, as int64.

    Of equals it is the first; NaN counts as less than any number.

    Args:
        x: Tensor, array or number.
        axis: The axis to search along; when left out, the elements in C order.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.argmin(x, 1).shape
        (2,)
    """
    return record(_ARGMIN, (x,), axis, keepdims)


def asin(x: Operand, /) -> TrackedTensor:
    """The inverse sine of each element, in radians.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.asin(x).shape
        (2, 3)
    """
    return record(_ASIN, (x,))


def asinh(x: Operand, /) -> TrackedTensor:
    """The inverse hyperbolic sine of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.asinh(x).shape
        (2, 3)
    """
    return record(_ASINH, (x,))


def astype(x: Operand, /, dtype: DTypeLike) -> TrackedTensor:
    """`x` converted to another dtype.

    A complex x stays complex: take `real` first.

    Args:
        x: Tensor, array or number.
        dtype: The new dtype.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.astype(x, 'complex128').shape
        (2, 3)
    """
    return record(_ASTYPE, (x,), dtype)


def atan(x: Operand, /) -> TrackedTensor:
    """The inverse tangent of each element, in radians.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.atan(x).shape
        (2, 3)
    """
    return record(_ATAN, (x,))


def atan2(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The angle of the point (x2, x1) from the first axis, in radians within [-pi, pi].

    Its derivatives at (0, 0) are 0.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.atan2(x1, x2).shape
        (2, 3)
    """
    return record(_ATAN2, (x1, x2))


def atanh(x: Operand, /) -> TrackedTensor:
    """The inverse hyperbolic tangent of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.atanh(x).shape
        (2, 3)
    """
    return record(_ATANH, (x,))


def bitwise_and(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The bits that both have, element by element: x1 & x2, of bools or integers.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.constant(np.array([5, 2, -1]))
        >>> x2 = tape.constant(np.array(3))
        >>> bh.bitwise_and(x1, x2).shape
        (3,)
    """
    return record(_BITWISE_AND, (x1, x2))


def bitwise_invert(x: Operand, /) -> TrackedTensor:
    """The other bits of each element: ~x, of bools or integers.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.constant(np.array([5, 2, -1]))
        >>> bh.bitwise_invert(x).shape
        (3,)
    """
    return record(_BITWISE_INVERT, (x,))


def bitwise_or(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The bits that one or both have, element by element: x1 | x2, of bools or integers.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.constant(np.array([5, 2, -1]))
        >>> x2 = tape.constant(np.array(3))
        >>> bh.bitwise_or(x1, x2).shape
        (3,)
    """
    return record(_BITWISE_OR, (x1, x2))


def bitwise_xor(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The bits that just one has, element by element: x1 ^ x2, of bools or integers.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.constant(np.array([5, 2, -1]))
        >>> x2 = tape.constant(np.array(3))
        >>> bh.bitwise_xor(x1, x2).shape
        (3,)
    """
    return record(_BITWISE_XOR, (x1, x2))


def broadcast_to(x: Operand, /, shape: Sequence[int]) -> TrackedTensor:
    """`x` repeated along new axes and axes of size 1, to the given shape.

    Args:
        x: Tensor, array or number.
        shape: The new shape.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3,)))
        >>> bh.broadcast_to(x, (2, 3)).shape
        (2, 3)
    """
    return record(_BROADCAST_TO, (x,), shape)


def cbrt(x: Operand, /) -> TrackedTensor:
    """The real cube root of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.cbrt(x).shape
        (2, 3)
    """
    return record(_CBRT, (x,))


def ceil(x: Operand, /) -> TrackedTensor:
    """The least whole number that is not below each element.

    The derivative is 0, at the jumps too.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.ceil(x).shape
        (2, 3)
    """
    return record(_CEIL, (x,))


def conj(x: Operand, /) -> TrackedTensor:
    """The complex conjugate of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.conj(x).shape
        (2, 3)
    """
    return record(_CONJ, (x,))


def cos(x: Operand, /) -> TrackedTensor:
    """The cosine of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.cos(x).shape
        (2, 3)
    """
    return record(_COS, (x,))


def cosh(x: Operand, /) -> TrackedTensor:
    """The hyperbolic cosine of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.cosh(x).shape
        (2, 3)
    """
    return record(_COSH, (x,))


def count_nonzero(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """How many elements over axes are not 0, as int64.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.count_nonzero(x, 1).shape
        (2,)
    """
    return record(_COUNT_NONZERO, (x,), axis, keepdims)


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> TrackedTensor:
    """The cross product of vectors in three dimensions, other axes broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.
        axis: The axis that the vectors lie along.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((3, 2)))
        >>> x2 = tape.leaf(np.ones((3, 2)))
        >>> bh.cross(x1, x2, axis=0).shape
        (3, 2)
    """
    return record(_CROSS, (x1, x2), axis)


def cumulative_logsumexp(x: Operand, /, axis: int = -1) -> TrackedTensor:
    """log(cumulative_sum(exp(x))) along an axis, without overflow: NumPy's logaddexp.accumulate.

    Where the result is infinite, its derivatives are 0.

    Args:
        x: Tensor, array or number.
        axis: The axis to sum along.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 2)))
        >>> bh.cumulative_logsumexp(x, 1).shape
        (2, 3, 2)
    """
    return record(_CUMULATIVE_LOGSUMEXP, (x,), axis)


def cumulative_prod(
    x: Operand, /, *, axis: int | None = None, reverse: bool = False
) -> TrackedTensor:
    """The products of the elements up to each, along an axis.

    Bool and integer arrays multiply to 64-bit integers. Its derivatives are products of other
    elements: right where some are 0.

    Args:
        x: Tensor, array or number.
        axis: The axis; it may be left out when there is but one.
        reverse: Whether to go from the last element to the first.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.cumulative_prod(x, axis=-1).shape
        (2, 3)
    """
    return record(_CUMULATIVE_PROD, (x,), axis, reverse)


def cumulative_sum(
    x: Operand, /, *, axis: int | None = None, reverse: bool = False
) -> TrackedTensor:
    """The sums of the elements up to each, along an axis.

    Bool and integer arrays sum to 64-bit integers.

    Args:
        x: Tensor, array or number.
        axis: The axis; it may be left out when there is but one.
        reverse: Whether to go from the last element to the first.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.cumulative_sum(x, axis=-1).shape
        (2, 3)
    """
    return record(_CUMULATIVE_SUM, (x,), axis, reverse)


def deg2rad(x: Operand, /) -> TrackedTensor:
    """Degrees as radians: x * pi / 180.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.deg2rad(x).shape
        (2, 3)
    """
    return record(_DEG2RAD, (x,))


def diag(x: Operand, /, k: int = 0) -> TrackedTensor:
    """The matrix with the vector x on a diagonal, or a diagonal of the matrix x.

    Args:
        x: Tensor, array or number.
        k: Which diagonal; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2,)))
        >>> bh.diag(x, -2).shape
        (4, 4)
    """
    return record(_DIAG, (x,), k)


def diagonal(x: Operand, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TrackedTensor:
    """A diagonal through two axes of x, as the last axis of the result.

    Args:
        x: Tensor, array or number.
        offset: Which diagonal; the main one is 0, those above it are positive.
        axis1: The axis of the rows.
        axis2: The axis of the columns.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.diagonal(x, 1).shape
        (2,)
    """
    return record(_DIAGONAL, (x,), offset, axis1, axis2)


def digamma(x: Operand, /) -> TrackedTensor:
    """The derivative of `lgamma` of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.digamma(x).shape
        (2, 3)
    """
    return record(_DIGAMMA, (x,))


def divide(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The quotient x1 / x2, element by element, with broadcasting. Integers are divided as float64.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.divide(x1, x2).shape
        (2, 3)
    """
    return record(_DIVIDE, (x1, x2))


def dot(a: Operand, b: Operand, /) -> TrackedTensor:
    """NumPy's dot: the sum of products over the last axis of a and the last but one of b.

    Of vectors their inner product (without conjugation), of matrices the matrix product, with a 0-d
    operand the product. Unlike `matmul`, further axes do not go together: the result has those of
    a, then those of b.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2, 3)))
        >>> b = tape.leaf(np.ones((3, 4)))
        >>> bh.dot(a, b).shape
        (2, 4)
    """
    return record(_DOT, (a, b))


def equal(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether x1 == x2, element by element, with broadcasting; NaN equals nothing.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.equal(x1, x2).shape
        (2, 3)
    """
    return record(_EQUAL, (x1, x2))


def erf(x: Operand, /) -> TrackedTensor:
    """The error function of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.erf(x).shape
        (2, 3)
    """
    return record(_ERF, (x,))


def erfc(x: Operand, /) -> TrackedTensor:
    """1 - erf(x) of each element, accurate where it is near 0.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.erfc(x).shape
        (2, 3)
    """
    return record(_ERFC, (x,))


def erfinv(x: Operand, /) -> TrackedTensor:
    """The inverse of the error function of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.erfinv(x).shape
        (2, 3)
    """
    return record(_ERFINV, (x,))


def exp(x: Operand, /) -> TrackedTensor:
    """The exponential e**x of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.exp(x).shape
        (2, 3)
    """
    return record(_EXP, (x,))


def exp2(x: Operand, /) -> TrackedTensor:
    """2**x of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.exp2(x).shape
        (2, 3)
    """
    return record(_EXP2, (x,))


def expand_dims(x: Operand, /, axis: int | Sequence[int]) -> TrackedTensor:
    """`x` with new axes of size 1.

    Args:
        x: Tensor, array or number.
        axis: Where new axes stand in the result.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.expand_dims(x, 1).shape
        (2, 1, 3)
    """
    return record(_EXPAND_DIMS, (x,), axis)


def expm1(x: Operand, /) -> TrackedTensor:
    """exp(x) - 1 of each element, accurate near 0.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.expm1(x).shape
        (2, 3)
    """
    return record(_EXPM1, (x,))


def flip(x: Operand, /, axis: int | Sequence[int] | None = None) -> TrackedTensor:
    """`x` with its elements in reverse order along axes.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes; all when left out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.flip(x, (0, -1)).shape
        (2, 3, 4)
    """
    return record(_FLIP, (x,), axis)


def floor(x: Operand, /) -> TrackedTensor:
    """The greatest whole number that is not above each element.

    The derivative is 0, at the jumps too.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.floor(x).shape
        (2, 3)
    """
    return record(_FLOOR, (x,))


def floor_divide(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The greatest whole number that is not above x1 / x2.

    The derivative is 0, at the jumps too.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((3,)))
        >>> bh.floor_divide(x1, x2).shape
        (2, 3)
    """
    return record(_FLOOR_DIVIDE, (x1, x2))


def fmax(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """As `maximum`, but a NaN gives way to a number.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.fmax(x1, x2).shape
        (2, 3)
    """
    return record(_FMAX, (x1, x2))


def fmin(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """As `minimum`, but a NaN gives way to a number.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.fmin(x1, x2).shape
        (2, 3)
    """
    return record(_FMIN, (x1, x2))


def gelu(x: Operand, /) -> TrackedTensor:
    """`x` Phi(x) of each element, Phi being the normal distribution function, exactly (not by tanh).

    Hendrycks, Gimpel (2016), Gaussian error linear units, arXiv:1606.08415.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.gelu(x).shape
        (2, 3)
    """
    return record(_GELU, (x,))


def greater(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether x1 > x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.greater(x1, x2).shape
        (2, 3)
    """
    return record(_GREATER, (x1, x2))


def greater_equal(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether x1 >= x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.greater_equal(x1, x2).shape
        (2, 3)
    """
    return record(_GREATER_EQUAL, (x1, x2))


def hypot(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The length sqrt(x1**2 + x2**2) of a vector with these coordinates, without overflow on the way.

    Its derivatives at (0, 0) are 0.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.hypot(x1, x2).shape
        (2, 3)
    """
    return record(_HYPOT, (x1, x2))


def imag(x: Operand, /) -> TrackedTensor:
    """The imaginary part of each element; zeros when x is real.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.imag(x).shape
        (2, 3)
    """
    return record(_IMAG, (x,))


def inner(a: Operand, b: Operand, /) -> TrackedTensor:
    """The sum of products over the last axis of both, without conjugation.

    The result has the other axes of a, then those of b.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((3,)))
        >>> b = tape.leaf(np.ones((3,)))
        >>> bh.inner(a, b).shape
        ()
    """
    return record(_INNER, (a, b))


def isfinite(x: Operand, /) -> TrackedTensor:
    """Whether each element is neither infinite nor NaN.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.isfinite(x).shape
        (2, 3)
    """
    return record(_ISFINITE, (x,))


def isinf(x: Operand, /) -> TrackedTensor:
    """Whether each element is infinite, in its real or imaginary part.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.isinf(x).shape
        (2, 3)
    """
    return record(_ISINF, (x,))


def isnan(x: Operand, /) -> TrackedTensor:
    """Whether each element is NaN, in its real or imaginary part.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.isnan(x).shape
        (2, 3)
    """
    return record(_ISNAN, (x,))


def kron(a: Operand, b: Operand, /) -> TrackedTensor:
    """The Kronecker product: blocks of b, scaled by the elements of a.

    Along each axis the size is the product of a's and b's; the array with fewer axes gets further
    ones of size 1 in front. NumPy's: there are no batch axes.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2, 3)))
        >>> b = tape.leaf(np.ones((3, 2)))
        >>> bh.kron(a, b).shape
        (6, 6)
    """
    return record(_KRON, (a, b))


def less(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether x1 < x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.less(x1, x2).shape
        (2, 3)
    """
    return record(_LESS, (x1, x2))


def less_equal(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether x1 <= x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.less_equal(x1, x2).shape
        (2, 3)
    """
    return record(_LESS_EQUAL, (x1, x2))


def lgamma(x: Operand, /) -> TrackedTensor:
    """The logarithm of the absolute value of the gamma function of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.lgamma(x).shape
        (2, 3)
    """
    return record(_LGAMMA, (x,))


def log(x: Operand, /) -> TrackedTensor:
    """The natural logarithm of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.log(x).shape
        (2, 3)
    """
    return record(_LOG, (x,))


def log10(x: Operand, /) -> TrackedTensor:
    """The logarithm to base 10 of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.log10(x).shape
        (2, 3)
    """
    return record(_LOG10, (x,))


def log1p(x: Operand, /) -> TrackedTensor:
    """log(1 + x) of each element, accurate near 0.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.log1p(x).shape
        (2, 3)
    """
    return record(_LOG1P, (x,))


def log2(x: Operand, /) -> TrackedTensor:
    """The logarithm to base 2 of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.log2(x).shape
        (2, 3)
    """
    return record(_LOG2, (x,))


def log_sigmoid(x: Operand, /) -> TrackedTensor:
    """log(sigmoid(x)) of each element, accurate where the sigmoid is near 0 or 1.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.log_sigmoid(x).shape
        (2, 3)
    """
    return record(_LOG_SIGMOID, (x,))


def log_softmax(x: Operand, /, axis: int | Sequence[int] | None = None) -> TrackedTensor:
    """`x` - logsumexp(x) over axes: the logarithm of `softmax`, accurate for small shares.

    NaN where all elements are -inf, or one is inf: there are no shares then.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes over which the exponentials are summed; all of them when left out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.log_softmax(x, -1).shape
        (2, 3)
    """
    return record(_LOG_SOFTMAX, (x,), axis)


def logaddexp(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """log(exp(x1) + exp(x2)), element by element, without overflow.

    Infinities are taken: where both are -inf, so is the result, and each has half the derivative.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.logaddexp(x1, x2).shape
        (2, 3)
    """
    return record(_LOGADDEXP, (x1, x2))


def logaddexp2(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """log2(2**x1 + 2**x2), element by element, without overflow.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.logaddexp2(x1, x2).shape
        (2, 3)
    """
    return record(_LOGADDEXP2, (x1, x2))


def logical_and(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether both are true (not 0), element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.logical_and(x1, x2).shape
        (2, 3)
    """
    return record(_LOGICAL_AND, (x1, x2))


def logical_not(x: Operand, /) -> TrackedTensor:
    """Whether each element is false (0).

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.logical_not(x).shape
        (2, 3)
    """
    return record(_LOGICAL_NOT, (x,))


def logical_or(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether one or both are true (not 0), element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.logical_or(x1, x2).shape
        (2, 3)
    """
    return record(_LOGICAL_OR, (x1, x2))


def logical_xor(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether just one is true (not 0), element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.logical_xor(x1, x2).shape
        (2, 3)
    """
    return record(_LOGICAL_XOR, (x1, x2))


def logsumexp(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """log(sum(exp(x))) over axes, without overflow; -inf for no elements.

    Elements that are -inf add nothing. Where the result is infinite, its derivatives are 0. Of
    complex x it is the principal logarithm.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.logsumexp(x, 1).shape
        (2,)
    """
    return record(_LOGSUMEXP, (x,), axis, keepdims)


def matmul(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The matrix product of the last two axes, other axes broadcasting.

    A vector is a row on the left and a column on the right.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((3, 4)))
        >>> bh.matmul(x1, x2).shape
        (2, 4)
    """
    return record(_MATMUL, (x1, x2))


def matrix_transpose(x: Operand, /) -> TrackedTensor:
    """`x` with its last two axes swapped.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.matrix_transpose(x).shape
        (3, 2)
    """
    return record(_MATRIX_TRANSPOSE, (x,))


def matvec(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Matrices times vectors: x1 over its last two axes, x2 over its last, other axes broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((3,)))
        >>> bh.matvec(x1, x2).shape
        (2,)
    """
    return record(_MATVEC, (x1, x2))


def max(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The greatest element over axes; NaN where one is NaN.

    Equals share the derivative evenly.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.max(x, 1).shape
        (2,)
    """
    return record(_MAX, (x,), axis, keepdims)


def maximum(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The greater of x1 and x2, element by element; NaN where one is NaN.

    Equals share the derivative evenly.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.maximum(x1, x2).shape
        (2, 3)
    """
    return record(_MAXIMUM, (x1, x2))


def mean(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The mean over axes; NaN for no elements. Integers and bools count as float64.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.mean(x, 1).shape
        (2,)
    """
    return record(_MEAN, (x,), axis, keepdims)


def median(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The median over axes, of an even number the mean of the two in the middle; NaN where one is NaN.

    Elements equal to one in the middle share its derivative evenly.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.median(x, 1).shape
        (2,)
    """
    return record(_MEDIAN, (x,), axis, keepdims)


def min(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The least element over axes; NaN where one is NaN.

    Equals share the derivative evenly.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.min(x, 1).shape
        (2,)
    """
    return record(_MIN, (x,), axis, keepdims)


def minimum(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The lesser of x1 and x2, element by element; NaN where one is NaN.

    Equals share the derivative evenly.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.minimum(x1, x2).shape
        (2, 3)
    """
    return record(_MINIMUM, (x1, x2))


def moveaxis(
    x: Operand, /, source: int | Sequence[int], destination: int | Sequence[int]
) -> TrackedTensor:
    """`x` with some axes moved, the others keeping their order.

    Args:
        x: Tensor, array or number.
        source: Where the axes stand.
        destination: Where they are to stand.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.moveaxis(x, 0, -1).shape
        (3, 4, 2)
    """
    return record(_MOVEAXIS, (x,), source, destination)


def multiply(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The product x1 * x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.multiply(x1, x2).shape
        (2, 3)
    """
    return record(_MULTIPLY, (x1, x2))


def negative(x: Operand, /) -> TrackedTensor:
    """The negative -x, element by element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.negative(x).shape
        (2, 3)
    """
    return record(_NEGATIVE, (x,))


def not_equal(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Whether x1 != x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.not_equal(x1, x2).shape
        (2, 3)
    """
    return record(_NOT_EQUAL, (x1, x2))


def outer(a: Operand, b: Operand, /) -> TrackedTensor:
    """The products of all elements of a with all of b, both arrays flattened: a matrix.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2,)))
        >>> b = tape.leaf(np.ones((3,)))
        >>> bh.outer(a, b).shape
        (2, 3)
    """
    return record(_OUTER, (a, b))


def permute_dims(x: Operand, /, axes: Sequence[int] | None = None) -> TrackedTensor:
    """`x` with its axes in another order; reversed when none is named.

    Args:
        x: Tensor, array or number.
        axes: For each axis of the result, which axis of `x` it is.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.permute_dims(x, (1, 2, 0)).shape
        (3, 4, 2)
    """
    return record(_PERMUTE_DIMS, (x,), axes)


def positive(x: Operand, /) -> TrackedTensor:
    """The same number +x, element by element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.positive(x).shape
        (2, 3)
    """
    return record(_POSITIVE, (x,))


def pow(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The power x1 ** x2, element by element, with broadcasting.

    Where x1 ** x2 is 0, and at 0 ** 0, the derivative with respect to x2 is 0. With respect to x1
    it is that of a polynomial for exponents 0, 1, 2, ..., at any base: 2 * x1 for x1 ** 2, 0 for x1
    ** 0. At a negative real base the derivative with respect to x2 is NaN: there is none.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        InvalidArgument: INVALID_VALUE, once the value is asked for, for an integer array to a
            negative integer power.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.pow(x1, x2).shape
        (2, 3)
    """
    return record(_POW, (x1, x2))


def prod(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The product over axes. Bool and integer arrays multiply to 64-bit integers.

    Its first and second derivatives are products of the other elements: right where some are 0.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.prod(x, 1).shape
        (2,)
    """
    return record(_PROD, (x,), axis, keepdims)


def rad2deg(x: Operand, /) -> TrackedTensor:
    """Radians as degrees: x * 180 / pi.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.rad2deg(x).shape
        (2, 3)
    """
    return record(_RAD2DEG, (x,))


def ravel(x: Operand, /) -> TrackedTensor:
    """X's elements in C order, along one axis.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.ravel(x).shape
        (6,)
    """
    return record(_RAVEL, (x,))


def real(x: Operand, /) -> TrackedTensor:
    """The real part of each element; x itself when x is real.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.real(x).shape
        (2, 3)
    """
    return record(_REAL, (x,))


def reciprocal(x: Operand, /) -> TrackedTensor:
    """1 / x, element by element. Integers count as float64.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.reciprocal(x).shape
        (2, 3)
    """
    return record(_RECIPROCAL, (x,))


def relu(x: Operand, /) -> TrackedTensor:
    """`x` where it is positive, else 0. The derivative at 0 is 0.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.relu(x).shape
        (2, 3)
    """
    return record(_RELU, (x,))


def remainder(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """`x1` - x2 * floor(x1 / x2), element by element: it has the sign of x2.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((3,)))
        >>> bh.remainder(x1, x2).shape
        (2, 3)
    """
    return record(_REMAINDER, (x1, x2))


def repeat(x: Operand, /, repeats: int | Sequence[int], axis: int | None = None) -> TrackedTensor:
    """`x` with each element repeated.

    Args:
        x: Tensor, array or number.
        repeats: How often: one number for all, or one for each element along the axis.
        axis: The axis; `x` is flat when left out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.repeat(x, 2).shape
        (12,)
    """
    return record(_REPEAT, (x,), repeats, axis)


def reshape(x: Operand, /, shape: int | Sequence[int]) -> TrackedTensor:
    """`x` with another shape and the same elements in C order.

    Args:
        x: Tensor, array or number.
        shape: The new shape; one size may be -1 and is worked out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.reshape(x, (3, -1)).shape
        (3, 2)
    """
    return record(_RESHAPE, (x,), shape)


def roll(
    x: Operand, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> TrackedTensor:
    """`x` with its elements shifted along axes; those that leave at the end come in at the beginning.

    Args:
        x: Tensor, array or number.
        shift: By how many places, for each axis.
        axis: Axis or axes; as if `x` were flat when left out. Along none nothing is shifted.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.roll(x, 2).shape
        (2, 3)
    """
    return record(_ROLL, (x,), shift, axis)


def round(x: Operand, /, decimals: int = 0) -> TrackedTensor:
    """The nearest number with so many decimals, halves to the even one.

    The derivative is 0, at the jumps too.

    Args:
        x: Tensor, array or number.
        decimals: Decimals that stay; a negative number rounds to tens, hundreds, ...

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2,)))
        >>> bh.round(x, 2).shape
        (2,)
    """
    return record(_ROUND, (x,), decimals)


def rsqrt(x: Operand, /) -> TrackedTensor:
    """The reciprocal of the square root of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.rsqrt(x).shape
        (2, 3)
    """
    return record(_RSQRT, (x,))


def sigmoid(x: Operand, /) -> TrackedTensor:
    """The logistic function 1 / (1 + exp(-x)) of each element, without overflow.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sigmoid(x).shape
        (2, 3)
    """
    return record(_SIGMOID, (x,))


def sign(x: Operand, /) -> TrackedTensor:
    """-1, 0 or 1 by the sign of each element; x / abs(x), and 0 at 0, for a complex one.

    The derivative is 0 for real elements, and at 0.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sign(x).shape
        (2, 3)
    """
    return record(_SIGN, (x,))


def silu(x: Operand, /) -> TrackedTensor:
    """`x` sigmoid(x) of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.silu(x).shape
        (2, 3)
    """
    return record(_SILU, (x,))


def sin(x: Operand, /) -> TrackedTensor:
    """The sine of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sin(x).shape
        (2, 3)
    """
    return record(_SIN, (x,))


def sinc(x: Operand, /) -> TrackedTensor:
    """sin(pi x) / (pi x) of each element, and 1 at 0, as NumPy has it.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sinc(x).shape
        (2, 3)
    """
    return record(_SINC, (x,))


def sinh(x: Operand, /) -> TrackedTensor:
    """The hyperbolic sine of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sinh(x).shape
        (2, 3)
    """
    return record(_SINH, (x,))


def softmax(x: Operand, /, axis: int | Sequence[int] | None = None) -> TrackedTensor:
    """exp(x) / sum(exp(x)) over axes, without overflow: shares that add up to 1.

    NaN where all elements are -inf, or one is inf: there are no shares then.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes over which the exponentials are summed; all of them when left out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.softmax(x, -1).shape
        (2, 3)
    """
    return record(_SOFTMAX, (x,), axis)


def softplus(x: Operand, /) -> TrackedTensor:
    """log(1 + exp(x)) of each element, without overflow.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.softplus(x).shape
        (2, 3)
    """
    return record(_SOFTPLUS, (x,))


def split(
    x: Operand, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> tuple[TrackedTensor, ...]:
    """`x` taken apart along an axis, as a tuple.

    Points to split at must not decrease; where NumPy lets them, its parts overlap.

    Args:
        x: Tensor, array or number.
        indices_or_sections: The number of equal parts, or the points to split at.
        axis: The axis.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((4, 2)))
        >>> [each.shape for each in bh.split(x, 2)]
        [(2, 2), (2, 2)]
    """
    return record_several(_SPLIT, (x,), indices_or_sections, axis)


def sqrt(x: Operand, /) -> TrackedTensor:
    """The square root of each element; NaN for a negative real.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sqrt(x).shape
        (2, 3)
    """
    return record(_SQRT, (x,))


def square(x: Operand, /) -> TrackedTensor:
    """The square x * x of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.square(x).shape
        (2, 3)
    """
    return record(_SQUARE, (x,))


def squeeze(x: Operand, /, axis: int | Sequence[int] | None = None) -> TrackedTensor:
    """`x` without axes of size 1: those named, or all.

    Args:
        x: Tensor, array or number.
        axis: The axes to drop, each of size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((1, 3, 1)))
        >>> bh.squeeze(x, -1).shape
        (1, 3)
    """
    return record(_SQUEEZE, (x,), axis)


def stack(arrays: Sequence[Operand], /, axis: int = 0) -> TrackedTensor:
    """Arrays of equal shape joined along a new axis.

    Args:
        arrays: Tensors, arrays or numbers.
        axis: Where the new axis stands in the result.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x0 = tape.leaf(np.ones((2,)))
        >>> x1 = tape.leaf(np.ones((2,)))
        >>> x2 = tape.leaf(np.ones((2,)))
        >>> bh.stack([x0, x1, x2], -1).shape
        (2, 3)
    """
    return record(_STACK, (*arrays,), axis)


def stop_gradient(x: Operand, /) -> TrackedTensor:
    """`x` as a constant: no gradient flows through it.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.stop_gradient(x).shape
        (2, 3)
    """
    return record(_STOP_GRADIENT, (x,))


def subtract(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The difference x1 - x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.subtract(x1, x2).shape
        (2, 3)
    """
    return record(_SUBTRACT, (x1, x2))


def sum(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The sum over axes. Bool and integer arrays sum to 64-bit integers.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sum(x, 1).shape
        (2,)
    """
    return record(_SUM, (x,), axis, keepdims)


def swapaxes(x: Operand, /, axis1: int, axis2: int) -> TrackedTensor:
    """`x` with two axes swapped.

    Args:
        x: Tensor, array or number.
        axis1: One axis.
        axis2: The other.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.swapaxes(x, 0, 2).shape
        (4, 3, 2)
    """
    return record(_SWAPAXES, (x,), axis1, axis2)


def tan(x: Operand, /) -> TrackedTensor:
    """The tangent of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.tan(x).shape
        (2, 3)
    """
    return record(_TAN, (x,))


def tanh(x: Operand, /) -> TrackedTensor:
    """The hyperbolic tangent of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.tanh(x).shape
        (2, 3)
    """
    return record(_TANH, (x,))


def tensordot(
    a: Operand, b: Operand, /, axes: int | Sequence[int | Sequence[int]] = 2
) -> TrackedTensor:
    """The sum of products over pairs of axes of a and b.

    The result has the other axes of a, then those of b.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.
        axes: How many: the last of a with the first of b, in order. Or two lists: the axes of a,
            and those of b that they go with.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2, 3)))
        >>> b = tape.leaf(np.ones((3, 4)))
        >>> bh.tensordot(a, b, 1).shape
        (2, 4)
    """
    return record(_TENSORDOT, (a, b), axes)


def tile(x: Operand, /, reps: int | Sequence[int]) -> TrackedTensor:
    """`x` laid side by side a number of times along each axis.

    Args:
        x: Tensor, array or number.
        reps: How often, for the last axes; new axes come in front when there are more.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.tile(x, (2, 1)).shape
        (4, 3)
    """
    return record(_TILE, (x,), reps)


def trace(x: Operand, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TrackedTensor:
    """The sum of a diagonal through two axes of x.

    Args:
        x: Tensor, array or number.
        offset: Which diagonal; the main one is 0, those above it are positive.
        axis1: The axis of the rows.
        axis2: The axis of the columns.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.trace(x, 1).shape
        ()
    """
    return record(_TRACE, (x,), offset, axis1, axis2)


def tril(x: Operand, /, k: int = 0) -> TrackedTensor:
    """The lower triangles of x's last two axes, zeros above.

    Args:
        x: Tensor, array or number.
        k: The outermost diagonal that is kept; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.tril(x, 1).shape
        (2, 3, 4)
    """
    return record(_TRIL, (x,), k)


def triu(x: Operand, /, k: int = 0) -> TrackedTensor:
    """The upper triangles of x's last two axes, zeros below.

    Args:
        x: Tensor, array or number.
        k: The outermost diagonal that is kept; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.triu(x, 1).shape
        (2, 3, 4)
    """
    return record(_TRIU, (x,), k)


def trunc(x: Operand, /) -> TrackedTensor:
    """Each element without its fraction.

    The derivative is 0, at the jumps too.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.trunc(x).shape
        (2, 3)
    """
    return record(_TRUNC, (x,))


def unstack(x: Operand, /, *, axis: int = 0) -> tuple[TrackedTensor, ...]:
    """The arrays that x consists of along an axis, as a tuple.

    Args:
        x: Tensor, array or number.
        axis: The axis that goes.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> [each.shape for each in bh.unstack(x, axis=1)]
        [(2,), (2,), (2,)]
    """
    return record_several(_UNSTACK, (x,), axis)


def vdot(a: Operand, b: Operand, /) -> TrackedTensor:
    """The sum of conj(a) b over all elements, both arrays flattened.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((3,)))
        >>> b = tape.leaf(np.ones((3,)))
        >>> bh.vdot(a, b).shape
        ()
    """
    return record(_VDOT, (a, b))


def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> TrackedTensor:
    """The sum of conj(x1) x2 along an axis, other axes broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.
        axis: The axis that the vectors lie along.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((3, 2)))
        >>> x2 = tape.leaf(np.ones((3, 2)))
        >>> bh.vecdot(x1, x2, axis=0).shape
        (2,)
    """
    return record(_VECDOT, (x1, x2), axis)


def vecmat(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Conjugated vectors times matrices: x1 over its last axis, x2 over its last two.

    Other axes broadcast.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2,)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.vecmat(x1, x2).shape
        (3,)
    """
    return record(_VECMAT, (x1, x2))


def where(condition: Operand, x1: Operand, x2: Operand, /) -> TrackedTensor:
    """`x1` where the condition is true (not 0), else x2, element by element, with broadcasting.

    No gradient flows to the condition, nor to what was not chosen, whatever stands there.

    Args:
        condition: Tensor, array or number.
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> condition = np.array([[True, False, True], [False, True, True]])
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.where(condition, x1, x2).shape
        (2, 3)
    """
    return record(_WHERE, (condition, x1, x2))


def xlog1py(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """`x1` log(1 + x2), element by element, and 0 where x1 is 0.

    Where x1 is 0 and x2 is not above -1, both derivatives are 0.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.xlog1py(x1, x2).shape
        (2, 3)
    """
    return record(_XLOG1PY, (x1, x2))


def xlogy(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """`x1` log(x2), element by element, and 0 where x1 is 0.

    Where x1 is 0 and x2 is not positive, both derivatives are 0.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.xlogy(x1, x2).shape
        (2, 3)
    """
    return record(_XLOGY, (x1, x2))


absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
bitwise_not = bitwise_invert
invert = bitwise_invert
conjugate = conj
radians = deg2rad
psi = digamma
true_divide = divide
gammaln = lgamma
log_expit = log_sigmoid
amax = max
amin = min
transpose = permute_dims
power = pow
degrees = rad2deg
mod = remainder
around = round
expit = sigmoid
swish = silu
