"""Indexing of tensors, with NumPy's meaning: what stands between brackets becomes an op's attribute.

Integer arrays within an index are operands. Masks become the integer arrays of where they are true, so
that the shape of what they pick is known when it is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from backhaul import _ops
from backhaul.handle import Handle
from backhaul.recording import Operand, holds_tensor, record_bound
from backhaul_proto.catalog.avals import Shape
from backhaul_proto.catalog.index import ARRAY, Index, Slice
from backhaul_proto.catalog.ops import Attributes, bind, get
from backhaul_proto.catalog.shapes import canonical_axis
from backhaul_proto.errors import BackhaulError, make_error

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

__all__ = ["scatter_add", "take", "take_along_axis"]

GETITEM: Final = get("getitem")
_SCATTER_ADD: Final = get("scatter_add")


def scatter_add(x: Operand, index: Any, updates: Operand, /) -> TrackedTensor:
    """`x` with updates added to the elements ``x[index]``, each as often as the index names it.

    As ``np.add.at`` does in place: this gives a new tensor. It is the adjoint of indexing.

    Args:
        x: Tensor, array or number.
        index: What could stand in ``x[index]``.
        updates: Tensor, array or number; broadcasts to the shape of ``x[index]``.

    Raises:
        IndexOutOfRange: INDEX_OUT_OF_RANGE, when the index does not fit; for values of a tensor in the
            index, once the result's value is asked for.
        InvalidArgument: an operand or index that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.zeros(3))
        >>> bh.scatter_add(x, [0, 2, 2], 1.0).numpy()
        array([1., 0., 2.])
    """
    attributes, arrays = parsed_index(shape_of(x), index)
    result: TrackedTensor = record_bound(_SCATTER_ADD, (x, updates, *arrays), attributes)
    return result


def take(
    x: Operand,
    /,
    indices: Any,
    axis: int | None = None,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> TrackedTensor:
    """The elements of `x` at indices along an axis.

    Args:
        x: Tensor, array or number.
        indices: An integer, or an array or tensor of integers; its shape takes the axis's place.
        axis: The axis; `x` is flat when left out.
        mode: What to do with indices beyond the axis: raise an error; wrap around; or clip to its ends,
            where negative ones are 0. The last two are for indices that are no tensor.

    Raises:
        IndexOutOfRange: INDEX_OUT_OF_RANGE.
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.arange(4.0))
        >>> bh.take(x, [3, 0]).numpy()
        array([3., 0.])
    """
    if axis is None:
        x, axis = _flat(x), 0
    shape = shape_of(x)
    at = canonical_axis(axis, len(shape))
    positions = _positions(indices)
    if mode != "raise":
        positions = _within(positions, shape[at], mode)
    attributes, arrays = parsed_index(shape, (*(slice(None),) * at, positions))
    result: TrackedTensor = record_bound(GETITEM, (x, *arrays), attributes)
    return result


def take_along_axis(x: Operand, /, indices: Any, axis: int | None = -1) -> TrackedTensor:
    """The elements of `x` at indices along an axis, other ones for each place along the other axes.

    Args:
        x: Tensor or array.
        indices: Array or tensor of integers with as many axes as `x`; other axes broadcast.
        axis: The axis; None: `x` is flat.

    Raises:
        IndexOutOfRange: INDEX_OUT_OF_RANGE.
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> bh.take_along_axis(x, np.array([[1], [0]]), axis=1).numpy()
        array([[2.],
               [3.]])
    """
    if axis is None:
        x, axis = _flat(x), 0
    shape = shape_of(x)
    at = canonical_axis(axis, len(shape))
    positions = _positions(indices)
    if len(shape_of(positions)) != len(shape):
        raise make_error(
            "SHAPE_MISMATCH",
            f"take_along_axis: the indices have shape {shape_of(positions)}, the array {shape}; they must "
            "have equally many axes.",
            expected=len(shape),
            actual=len(shape_of(positions)),
        )
    grids: list[Any] = list(np.ix_(*map(np.arange, shape)))
    grids[at] = positions
    attributes, arrays = parsed_index(shape, tuple(grids))
    result: TrackedTensor = record_bound(GETITEM, (x, *arrays), attributes)
    return result


def shape_of(x: Operand) -> Shape:
    """The shape of a tensor, or of an array or what NumPy makes one of."""
    return x._node_type.aval.shape if isinstance(x, Handle) else np.shape(x)


@lru_cache(maxsize=16384)
def index_attributes(*items: Any) -> Attributes:
    """The attributes of an op whose index has these entries."""
    return bind(GETITEM, {"index": Index(items)})


def parsed_index(shape: Shape, index: Any) -> tuple[Attributes, list[Operand]]:
    """An index of an array of this shape: as an attribute, and the arrays in it."""
    entries = [_entry(each) for each in (index if isinstance(index, tuple) else (index,))]
    if not any(isinstance(each, Handle | np.ndarray) for each in entries):
        return index_attributes(*entries), []
    items: list[Any] = []
    arrays: list[Operand] = []
    for entry, axis in _by_axis(shape, entries):
        if isinstance(entry, np.ndarray) and entry.dtype.kind == "b":
            _check_mask(entry, axis, shape)
            found: Sequence[Any] = entry.nonzero()
        elif isinstance(entry, Handle):
            found = [entry]
        elif isinstance(entry, np.ndarray):
            _check_range(entry, axis, shape)
            found = [entry]
        else:
            items.append(entry)
            continue
        items += [ARRAY] * len(found)
        arrays += found
    return index_attributes(*items), arrays


def _by_axis(shape: Shape, entries: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    """The entries, and the first axis that each is of."""
    taken = [_axes_taken(each) for each in entries]
    axis = 0
    for each, count in zip(entries, taken, strict=True):
        yield each, axis
        axis += max(len(shape) - sum(taken), 0) if each is Ellipsis else count


def _axes_taken(entry: Any) -> int:
    if entry is None or entry is Ellipsis:
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype.kind == "b" else 1


def _entry(given: Any) -> Any:
    """An integer, slice, None, ellipsis, integer tensor, or array of integers or bools."""
    if given is None or given is Ellipsis or type(given) is int:
        return given
    if isinstance(given, slice):
        return _slice(given)
    if isinstance(given, Handle) and given._node_type.aval.dtype.kind in "iu":
        return given
    array = _array(given)
    if array.ndim == 0 and array.dtype.kind == "b":
        raise make_error(
            "INVALID_VALUE",
            "A single bool is no index of a tensor: NumPy adds an axis for it, of size 1 or 0. Write "
            "x[None] or x[None][:0] where that is meant, and a mask of x's shape otherwise.",
        )
    return int(array) if array.ndim == 0 else array


def _slice(given: slice) -> Slice:
    """The slice as data; it has a hash, which slices have since Python 3.12 only."""
    parts = (given.start, given.stop, given.step)
    if all(part is None or type(part) is int for part in parts):
        return Slice(*parts)
    index: Any = bind(GETITEM, {"index": (given,)})[0][1]
    found: Slice = index.items[0]
    return found


def _array(given: Any) -> np.ndarray[Any, Any]:
    """An array of integers or bools: integers of lists are int64, an empty list too.

    A tensor of bools is asked for its value: that is one trip to the server.
    """
    if isinstance(given, Handle):
        if given._node_type.aval.dtype.kind != "b":
            raise _not_an_index(f"a tensor of {given._node_type.aval.dtype}")
        return given._tape._fetch(given)[0]  # type: ignore[arg-type]  # the only Handles are tensors
    if holds_tensor(given):
        raise make_error(
            "INVALID_VALUE",
            "A list with tensors in it is no index; join them with bh.stack, or take their values with "
            "numpy().",
        )
    try:
        array = np.asarray(given)
    except ValueError:
        raise _not_an_index(f"{given!r:.60}, of which no array can be made") from None
    if not array.size and isinstance(given, list | tuple):
        return array.astype(np.int64)
    if array.dtype.kind not in "iub":
        raise _not_an_index(
            f"an array of {array.dtype}" if array.ndim else f"{given!r:.60} ({array.dtype})"
        )
    return array


def _not_an_index(what: str) -> BackhaulError:
    return make_error(
        "DTYPE_NOT_SUPPORTED",
        f"An index was {what}; it is made of integers, slices, None, '...', and arrays of integers or "
        "bools. Convert it with .astype(np.int64) where that is meant.",
        expected="integers or bools",
        actual=what,
    )


def _check_mask(mask: np.ndarray[Any, Any], axis: int, shape: Shape) -> None:
    if mask.shape != shape[axis : axis + mask.ndim]:
        raise make_error(
            "SHAPE_MISMATCH",
            f"The mask has shape {mask.shape}, but the axes that it stands for, from axis {axis} of "
            f"{shape}, have {shape[axis : axis + mask.ndim]}.",
            expected=shape[axis : axis + mask.ndim],
            actual=mask.shape,
        )


def _check_range(array: np.ndarray[Any, Any], axis: int, shape: Shape) -> None:
    """Refuse values beyond the axis here, where the user stands; the server would only at the step."""
    if array.size and axis < len(shape):
        n, low, high = shape[axis], int(array.min()), int(array.max())
        if low < -n or high >= n:
            raise make_error(
                "INDEX_OUT_OF_RANGE",
                f"Index {high if high >= n else low} of an index array is out of range for axis {axis} of "
                f"an array of shape {shape}.",
                expected=f"{-n}..{n - 1}" if n else "none",
                actual=high if high >= n else low,
            )


def _flat(x: Any) -> Operand:
    return _ops.ravel(x) if isinstance(x, Handle) else np.ravel(x)


def _positions(indices: Any) -> Any:
    """Indices of take: integers only."""
    if isinstance(indices, Handle) and indices._node_type.aval.dtype.kind in "iu":
        return indices
    if isinstance(indices, Handle):
        raise _not_an_index(f"a tensor of {indices._node_type.aval.dtype}")
    array = _array(indices)
    if array.dtype.kind == "b":
        raise _not_an_index("an array of bool; x[mask] takes masks")
    return array


def _within(positions: Any, n: int, mode: str) -> Any:
    """Positions that are all within an axis of size n."""
    if mode not in ("wrap", "clip"):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"take: there is no mode {mode!r:.60}; choose 'raise', 'wrap' or 'clip'.",
            attribute="mode",
            actual=f"{mode!r:.60}",
        )
    if isinstance(positions, Handle):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"take: mode={mode!r} needs indices whose values are known here; give indices.numpy().",
            attribute="mode",
            actual=mode,
        )
    if not n:
        return positions  # there is nothing to take: out of range, unless there are no positions
    at = positions.astype(np.int64)
    return at % n if mode == "wrap" else np.clip(at, 0, n - 1)
