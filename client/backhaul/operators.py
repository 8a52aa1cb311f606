"""Operators, and NumPy's methods and protocols, as ops recorded on the tape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import DTypeLike

from backhaul import numpy_protocol
from backhaul.handle import Handle
from backhaul.recording import record, record_several
from backhaul.selection import clip
from backhaul.shape_methods import ShapeMethods
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

_ABS: Final = get("abs")
_ADD: Final = get("add")
_AND: Final = get("bitwise_and")
_ASTYPE: Final = get("astype")
_CONJ: Final = get("conj")
_DIVIDE: Final = get("divide")
_EQUAL: Final = get("equal")
_FLOOR_DIVIDE: Final = get("floor_divide")
_GREATER: Final = get("greater")
_GREATER_EQUAL: Final = get("greater_equal")
_DOT: Final = get("dot")
_IMAG: Final = get("imag")
_INVERT: Final = get("bitwise_invert")
_LESS: Final = get("less")
_LESS_EQUAL: Final = get("less_equal")
_MATMUL: Final = get("matmul")
_MULTIPLY: Final = get("multiply")
_NEGATIVE: Final = get("negative")
_NOT_EQUAL: Final = get("not_equal")
_OR: Final = get("bitwise_or")
_POSITIVE: Final = get("positive")
_POW: Final = get("pow")
_REAL: Final = get("real")
_REMAINDER: Final = get("remainder")
_ROUND: Final = get("round")
_SUBTRACT: Final = get("subtract")
_SUM: Final = get("sum")
_UNSTACK: Final = get("unstack")
_XOR: Final = get("bitwise_xor")
_AS_POWERS: Final = {2: get("square"), -1: get("reciprocal"), 0.5: get("sqrt")}
"""What NumPy's ** takes for these exponents, as the general power is many times slower."""
_VALUES: Final = (Handle, bool, int, float, complex, np.ndarray, np.generic, list, tuple)


class Operators(ShapeMethods):
    """What a tensor does as an array does it, on the tape."""

    __slots__ = ()
    __array_priority__ = 1000  # for what knows nothing of __array_ufunc__

    # Either operand may be an array or a number.

    def __add__(self, other: Any) -> TrackedTensor:
        return record(_ADD, (self, other))

    def __radd__(self, other: Any) -> TrackedTensor:
        return record(_ADD, (other, self))

    def __sub__(self, other: Any) -> TrackedTensor:
        return record(_SUBTRACT, (self, other))

    def __rsub__(self, other: Any) -> TrackedTensor:
        return record(_SUBTRACT, (other, self))

    def __mul__(self, other: Any) -> TrackedTensor:
        return record(_MULTIPLY, (self, other))

    def __rmul__(self, other: Any) -> TrackedTensor:
        return record(_MULTIPLY, (other, self))

    def __matmul__(self, other: Any) -> TrackedTensor:
        return record(_MATMUL, (self, other))

    def __rmatmul__(self, other: Any) -> TrackedTensor:
        return record(_MATMUL, (other, self))

    def __truediv__(self, other: Any) -> TrackedTensor:
        return record(_DIVIDE, (self, other))

    def __rtruediv__(self, other: Any) -> TrackedTensor:
        return record(_DIVIDE, (other, self))

    def __floordiv__(self, other: Any) -> TrackedTensor:
        return record(_FLOOR_DIVIDE, (self, other))

    def __rfloordiv__(self, other: Any) -> TrackedTensor:
        return record(_FLOOR_DIVIDE, (other, self))

    def __mod__(self, other: Any) -> TrackedTensor:
        return record(_REMAINDER, (self, other))

    def __rmod__(self, other: Any) -> TrackedTensor:
        return record(_REMAINDER, (other, self))

    def __pow__(self, other: Any) -> TrackedTensor:
        if type(other) in (int, float) and other in _AS_POWERS and self._node_type.aval.inexact:
            return record(_AS_POWERS[other], (self,))
        return record(_POW, (self, other))

    def __rpow__(self, other: Any) -> TrackedTensor:
        return record(_POW, (other, self))

    def __neg__(self) -> TrackedTensor:
        return record(_NEGATIVE, (self,))

    def __pos__(self) -> TrackedTensor:
        return record(_POSITIVE, (self,))

    def __abs__(self) -> TrackedTensor:
        return record(_ABS, (self,))

    # Comparisons give bools for each element, as NumPy's do, also == and !=. With what is no value they
    # are Python's: by identity. So is the hash: dicts and sets find a tensor by what it is, and never ask
    # ==. A list does: `t in [...]` and list.index are for tensors of one element, or ask `is`.

    def __eq__(self, other: object) -> Any:
        return record(_EQUAL, (self, other)) if isinstance(other, _VALUES) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return record(_NOT_EQUAL, (self, other)) if isinstance(other, _VALUES) else NotImplemented

    def __lt__(self, other: Any) -> TrackedTensor:
        return record(_LESS, (self, other))

    def __le__(self, other: Any) -> TrackedTensor:
        return record(_LESS_EQUAL, (self, other))

    def __gt__(self, other: Any) -> TrackedTensor:
        return record(_GREATER, (self, other))

    def __ge__(self, other: Any) -> TrackedTensor:
        return record(_GREATER_EQUAL, (self, other))

    __hash__ = Handle.__hash__

    # Logic of bools, and bits of integers

    def __and__(self, other: Any) -> TrackedTensor:
        return record(_AND, (self, other))

    def __rand__(self, other: Any) -> TrackedTensor:
        return record(_AND, (other, self))

    def __or__(self, other: Any) -> TrackedTensor:
        return record(_OR, (self, other))

    def __ror__(self, other: Any) -> TrackedTensor:
        return record(_OR, (other, self))

    def __xor__(self, other: Any) -> TrackedTensor:
        return record(_XOR, (self, other))

    def __rxor__(self, other: Any) -> TrackedTensor:
        return record(_XOR, (other, self))

    def __invert__(self) -> TrackedTensor:
        return record(_INVERT, (self,))

    # NumPy's methods and properties

    def sum(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> TrackedTensor:
        """The sum over axes, of all elements when none is named; see `backhaul.sum`."""
        return record(_SUM, (self,), axis, keepdims)

    def astype(self, dtype: DTypeLike) -> TrackedTensor:
        """It in another dtype; see `backhaul.astype`."""
        return record(_ASTYPE, (self,), dtype)

    def clip(self, min: Any = None, max: Any = None) -> TrackedTensor:
        """It brought within bounds; see `backhaul.clip`."""
        return clip(self, min, max)

    def round(self, decimals: int = 0) -> TrackedTensor:
        """It with so many decimals; see `backhaul.round`."""
        return record(_ROUND, (self,), decimals)

    def dot(self, other: Any) -> TrackedTensor:
        """NumPy's dot of it with another; see `backhaul.dot`."""
        return record(_DOT, (self, other))

    def conj(self) -> TrackedTensor:
        """Its complex conjugate."""
        return record(_CONJ, (self,))

    @property
    def real(self) -> TrackedTensor:
        """Its real part."""
        return record(_REAL, (self,))

    @property
    def imag(self) -> TrackedTensor:
        """Its imaginary part; zeros when it is real."""
        return record(_IMAG, (self,))

    def __len__(self) -> int:
        shape = self._node_type.aval.shape
        if not shape:
            raise TypeError("len() of a 0-d tensor, which has no axis")
        return shape[0]

    def __iter__(self) -> Iterator[TrackedTensor]:
        if not self._node_type.aval.shape:
            raise TypeError("a 0-d tensor has no axis to iterate over; item() gives its element")
        return iter(record_several(_UNSTACK, (self,), 0) if len(self) else ())

    # NumPy's functions: none of them may quietly turn a tensor into an array.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        return numpy_protocol.call_ufunc(ufunc, method, inputs, keywords)

    def __array_function__(
        self, function: Any, types: Any, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> Any:
        return numpy_protocol.call_function(function, arguments, keywords)
