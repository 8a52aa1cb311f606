"""Operators, and NumPy's methods and protocols, as ops recorded on the tape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import DTypeLike

from backhaul import numpy_protocol
from backhaul.handle import Handle
from backhaul.recording import record, record_several
from backhaul.shape_methods import ShapeMethods
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

_ADD: Final = get("add")
_ASTYPE: Final = get("astype")
_CONJ: Final = get("conj")
_IMAG: Final = get("imag")
_MATMUL: Final = get("matmul")
_MULTIPLY: Final = get("multiply")
_NEGATIVE: Final = get("negative")
_REAL: Final = get("real")
_SUBTRACT: Final = get("subtract")
_SUM: Final = get("sum")
_UNSTACK: Final = get("unstack")
_VALUES: Final = (bool, int, float, complex, np.ndarray, np.generic, list, tuple)


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

    def __neg__(self) -> TrackedTensor:
        return record(_NEGATIVE, (self,))

    # Tensors are compared by identity, so that lists, sets and dicts of them work as those of any object.

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Handle):
            return self is other
        if isinstance(other, _VALUES):
            raise TypeError(
                "tensors are not compared with values by == and !=: there is no op for it yet. Compare the "
                "value, tensor.numpy() == ..., or ask for identity with `is`"
            )
        return NotImplemented

    __hash__ = Handle.__hash__

    # NumPy's methods and properties

    def sum(
        self, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
    ) -> TrackedTensor:
        """The sum over axes, of all elements when none is named; see `backhaul.sum`."""
        return record(_SUM, (self,), axis, keepdims)

    def astype(self, dtype: DTypeLike) -> TrackedTensor:
        """It in another dtype; see `backhaul.astype`."""
        return record(_ASTYPE, (self,), dtype)

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
