"""Ops that pick elements by an index, or add to them."""

from __future__ import annotations

import numpy as np

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.index import ARRAY, Index, Selection, Slice, select
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes
from backhaul_proto.errors import make_error


def selection(x: Aval, arrays: tuple[Aval, ...], index: Index) -> Selection:
    """What the index picks from x; its arrays must be of integers."""
    for position, each in enumerate(arrays):
        if each.dtype.kind not in "iu":
            raise make_error(
                "DTYPE_NOT_SUPPORTED",
                f"Index array {position} is {each.dtype}; an index array is of integers (a mask is sent as "
                "the integers of where it is true).",
                operand=position,
                expected="an integer dtype",
                actual=each.dtype,
            )
    return select(index, x.shape, [each.shape for each in arrays])


def _getitem(avals: tuple[Aval, ...], index: Index) -> Aval:
    x, *arrays = avals
    return aval(selection(x, tuple(arrays), index).shape, x.dtype)


def _scatter_add(avals: tuple[Aval, ...], index: Index) -> Aval:
    x, updates, *arrays = avals
    shape = selection(x, tuple(arrays), index).shape
    if broadcast_shapes([updates.shape, shape]) != shape:
        raise make_error(
            "SHAPE_MISMATCH",
            f"The updates have shape {updates.shape}, which does not broadcast to the {shape} that the "
            "index picks.",
            operand="updates",
            expected=shape,
            actual=updates.shape,
        )
    return aval(x.shape, promote(x, updates))


_INDEX = Attribute(
    "index",
    "index",
    required=True,
    doc="What stands between the brackets of x[...], 'array' in the place of each index array.",
)

register(
    Op(
        "getitem",
        ("x", "*indices"),
        _getitem,
        "The elements x[index] of x: NumPy's indexing, basic and with arrays of integers.",
        attributes=(_INDEX,),
        samples=(
            Sample(((2, 3),), {"index": Index((1,))}),
            Sample(((),), {"index": Index((None, Ellipsis))}),
            Sample(((4, 3),), {"index": Index((Slice(None, None, -2), None, Slice(1)))}),
            Sample(((2, 3, 4),), {"index": Index((Ellipsis, -1))}),
            Sample(((0, 3),), {"index": Index((Slice(), 1))}),
            Sample(((4, 2), (3,)), {"index": Index((ARRAY,))}, constants={1: [2, 0, 2]}),
            Sample(
                ((3, 4), (2, 1), (3,)),
                {"index": Index((ARRAY, ARRAY))},
                constants={1: [[0], [-1]], 2: [1, 1, 3]},
            ),
            Sample(
                ((2, 3, 4), (2,)),
                {"index": Index((1, Slice(), ARRAY))},
                constants={1: [3, 3]},
            ),
            Sample(
                ((2, 3, 4), (2, 2)),
                {"index": Index((Slice(1), ARRAY, Slice(None, None, 2)))},
                constants={1: [[0, 2], [2, 1]]},
            ),
        ),
    )
)
register(
    Op(
        "scatter_add",
        ("x", "updates", "*indices"),
        _scatter_add,
        "x with updates added to the elements x[index], each as often as the index names it.",
        attributes=(_INDEX,),
        promotes=(0, 1),
        samples=(
            Sample(((2, 3), (3,)), {"index": Index((1,))}),
            Sample(((4,), ()), {"index": Index((Slice(None, None, 2),))}),
            Sample(
                ((3, 2), (4, 2), (4,)),
                {"index": Index((ARRAY,))},
                constants={2: [2, 0, 2, 2]},
            ),
            Sample(
                ((2, 3, 4), (3, 1), (3,), (1,)),
                {"index": Index((ARRAY, Slice(None, 2), ARRAY))},
                constants={2: [0, 1, 0], 3: [3]},
            ),
            Sample(((3,), (0,), (0,)), {"index": Index((ARRAY,))}, constants={2: np.empty(0, int)}),
        ),
    )
)
