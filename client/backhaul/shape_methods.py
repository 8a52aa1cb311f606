"""NumPy's methods that index and reshape, as ops recorded on the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, SupportsIndex

from backhaul.handle import Handle
from backhaul.indexing import GETITEM, index_attributes, parsed_index, take
from backhaul.recording import record, record_bound
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

_DIAGONAL: Final = get("diagonal")
_MATRIX_TRANSPOSE: Final = get("matrix_transpose")
_PERMUTE_DIMS: Final = get("permute_dims")
_RAVEL: Final = get("ravel")
_REPEAT: Final = get("repeat")
_RESHAPE: Final = get("reshape")
_SQUEEZE: Final = get("squeeze")
_SWAPAXES: Final = get("swapaxes")
_TRACE: Final = get("trace")


class ShapeMethods(Handle):
    """How a tensor is indexed and reshaped as an array is."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> TrackedTensor:
        """The elements that the index picks: NumPy's basic and advanced indexing.

        Arrays and lists of integers or bools in the index are constants. A tensor of integers is an
        operand; a tensor of bools costs one trip, as its value decides the shape of the result.

        Raises:
            IndexOutOfRange: INDEX_OUT_OF_RANGE (also an IndexError); for values of a tensor in the
                index, once the result's value is asked for.
            InvalidArgument: an index that cannot be right.
        """
        arrays: Sequence[Any] = ()
        if type(index) is int:
            attributes = index_attributes(index)
        else:
            attributes, arrays = parsed_index(self._node_type.aval.shape, index)
        picked: TrackedTensor = record_bound(GETITEM, (self, *arrays), attributes)
        return picked

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> TrackedTensor:
        """The same elements in another shape, given as numbers or as one sequence; see `backhaul.reshape`."""
        wanted = shape[0] if len(shape) == 1 else shape
        return record(_RESHAPE, (self,), wanted)

    def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex] | None) -> TrackedTensor:
        """It with its axes in another order, given as numbers or as one sequence; reversed without any."""
        whole = len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Sequence))
        return record(_PERMUTE_DIMS, (self,), axes[0] if whole else axes or None)

    def _reversed_axes(self) -> TrackedTensor:
        return record(_PERMUTE_DIMS, (self,))

    def _swapped_last_axes(self) -> TrackedTensor:
        return record(_MATRIX_TRANSPOSE, (self,))

    T = property(_reversed_axes, doc="It with its axes in reverse order.")
    mT = property(_swapped_last_axes, doc="It with its last two axes swapped.")

    def swapaxes(self, axis1: int, axis2: int) -> TrackedTensor:
        """It with two axes swapped."""
        return record(_SWAPAXES, (self,), axis1, axis2)

    def ravel(self) -> TrackedTensor:
        """Its elements in C order, along one axis."""
        return record(_RAVEL, (self,))

    flatten = ravel

    def squeeze(self, axis: int | Sequence[int] | None = None) -> TrackedTensor:
        """It without axes of size 1; see `backhaul.squeeze`."""
        return record(_SQUEEZE, (self,), axis)

    def repeat(self, repeats: int | Sequence[int], axis: int | None = None) -> TrackedTensor:
        """It with each element repeated; see `backhaul.repeat`."""
        return record(_REPEAT, (self,), repeats, axis)

    def take(
        self,
        indices: Any,
        axis: int | None = None,
        mode: Literal["raise", "wrap", "clip"] = "raise",
    ) -> TrackedTensor:
        """Its elements at indices along an axis; see `backhaul.take`."""
        return take(self, indices, axis, mode)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TrackedTensor:
        """A diagonal through two axes; see `backhaul.diagonal`."""
        return record(_DIAGONAL, (self,), offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TrackedTensor:
        """The sum of a diagonal through two axes; see `backhaul.trace`."""
        return record(_TRACE, (self,), offset, axis1, axis2)
