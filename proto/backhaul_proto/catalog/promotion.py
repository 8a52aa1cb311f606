"""Which dtype an op computes in, and what Python numbers and lists become.

Among float and complex dtypes NumPy's (the array API's) rules hold. Integer and bool arrays take the
other operands' float dtype. Python numbers are weak: they follow the arrays they stand beside.
"""

from __future__ import annotations

from array import array as typed_array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from backhaul_proto.catalog.avals import COMPLEX128, FLOAT64, SUPPORTED, Aval
from backhaul_proto.errors import make_error

Scalar = bool | int | float | complex

_BUFFERS: Final = typed_array | memoryview | bytearray


def promote(*avals: Aval) -> np.dtype:
    """The dtype in which an op with these operands computes."""
    first = avals[0].dtype
    if all(each.dtype is first for each in avals):
        return first
    inexact = [each.dtype for each in avals if each.inexact]
    return np.result_type(*(inexact or [each.dtype for each in avals]))


def weak(scalar: Scalar, beside: Sequence[np.dtype]) -> np.dtype:
    """The dtype that a Python number takes beside arrays of these dtypes; float64 or complex128 alone.

    >>> weak(2.0, [np.dtype("float32")]), weak(1j, [np.dtype("float32")]), weak(3, [])
    (dtype('float32'), dtype('complex64'), dtype('float64'))
    """
    if not beside:
        return COMPLEX128 if isinstance(scalar, complex) else FLOAT64
    inexact = [dtype for dtype in beside if dtype.kind in "fc"]
    dtype = np.result_type(*(inexact or beside), scalar)
    return FLOAT64 if dtype.kind == "O" else dtype


def as_array(value: Any, *, what: str) -> np.ndarray[Any, Any]:
    """A NumPy array of a supported, native dtype; the caller's memory where that is possible.

    Python numbers and lists become float64 or complex128. Arrays and buffers keep their dtype.

    Raises:
        InvalidArgument: DTYPE_NOT_SUPPORTED, naming ``what`` and the dtype to convert to; or
            INVALID_VALUE for a ragged list.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise make_error(
            "INVALID_VALUE",
            f"{what} is a masked array, whose mask would be lost; give .filled(value) or .compressed().",
            operand=what,
        )
    if isinstance(value, np.matrix):
        raise make_error(
            "INVALID_VALUE",
            f"{what} is a numpy.matrix, for which * means another product; give np.asarray(matrix).",
            operand=what,
        )
    try:
        array = _listed(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise make_error(
            "INVALID_VALUE",
            f"{what} cannot be made an array: {error}. Give nested lists equal lengths, "
            "and numbers that float64 can hold.",
            operand=what,
        ) from None
    dtype = array.dtype.newbyteorder("=")
    if dtype not in SUPPORTED:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"{what} has dtype {array.dtype}, which backhaul does not carry; convert it, for "
            f"example with .astype({_nearest(array.dtype)!r}).",
            operand=what,
            actual=array.dtype,
        )
    return array if array.dtype == dtype and array.dtype.isnative else array.astype(dtype)


def is_typed(value: Any) -> bool:
    """Whether its elements have a dtype of their own: arrays and buffers, not Python numbers and lists."""
    return isinstance(value, np.ndarray | np.generic | _BUFFERS) or hasattr(value, "__array__")


def _listed(value: Any) -> np.ndarray[Any, Any]:
    """NumPy's array of the value; integers of Python lists and numbers become float64."""
    array = np.asarray(value)
    if is_typed(value):
        return array
    huge = array.dtype.kind == "O" and all(isinstance(each, int) for each in array.flat)
    if huge or array.dtype.kind in "biu" or array.size == 0:
        return array.astype(FLOAT64)
    return array


def _nearest(dtype: np.dtype) -> str:
    if dtype == np.dtype("float16"):
        return "float32"
    return "complex128" if dtype.kind == "c" else "float64"
