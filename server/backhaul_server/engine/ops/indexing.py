"""Rules of ops that pick elements by an index, or add to them: each the other's adjoint.

Their keyword ``key`` is the index as the array library takes it, `ARRAY` where the operands that are
index arrays stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.index import ARRAY, Index, Slice
from backhaul_proto.catalog.indexing import selection
from backhaul_proto.errors import make_error
from backhaul_server.engine.rules import Array, Namespace, Rule, rule, zeros_like
from backhaul_server.engine.scattered import Key, Scattered, filled

Prepared = tuple[Rule, dict[str, Any]]


def at_axis(axis: int) -> Key:
    """The key of one index array along this axis."""
    return (*(slice(None),) * axis, ARRAY, ...)


def _key(x: Aval, arrays: tuple[Aval, ...], index: Index) -> Key:
    """The index as a key; an ellipsis in it makes an array also of a single element."""
    items = selection(x, arrays, index).key
    key = tuple(slice(*each) if isinstance(each, Slice) else each for each in items)
    return key if Ellipsis in items else (*key, ...)


@rule("getitem")
class GetItem(Rule):
    """y = x[key]: a view, or a copy where there are index arrays."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        x, *arrays = avals
        return self, {"key": _key(x, tuple(arrays), attributes["index"])}

    def forward(self, xp: Any, x: Array, *arrays: Array, key: Key) -> Array:
        if not arrays:
            return x[key]
        try:
            return xp.getitem(x, filled(key, arrays))
        except IndexError as error:
            raise _out_of_range(error) from None

    def jvp(self, F: Namespace, y: Array, *both: Array, key: Key) -> Array:
        count = len(both) // 2
        return F.getitem(both[count], *both[1:count], key=key)

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        **keywords: Any,
    ) -> Any:
        x, *arrays = operands
        sent = Scattered(tuple(x.shape), ct, keywords["key"], arrays)
        return [sent, *(None for _ in arrays)]


@rule("scatter_add")
class ScatterAdd(Rule):
    """y is x with updates added to y[key]; y[key] reads the cotangents of these."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        x, _, *arrays = avals
        return self, {"key": _key(x, tuple(arrays), attributes["index"])}

    def forward(self, xp: Any, x: Array, updates: Array, *arrays: Array, key: Key) -> Array:
        y = xp.asarray(x, dtype=xp.result_type(x, updates), copy=True)
        try:
            return xp.add_at(y, filled(key, arrays), updates)
        except IndexError as error:
            raise _out_of_range(error) from None

    def jvp(self, F: Namespace, y: Array, *both: Array, key: Key) -> Array | None:
        count = len(both) // 2
        arrays, dx, du = both[2:count], both[count], both[count + 1]
        if du is None:
            return dx
        start = zeros_like(F, y) if dx is None else dx
        return F.scatter_add(start, du, *arrays, key=key)

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        **keywords: Any,
    ) -> Any:
        arrays = operands[2:]
        read = F.getitem(ct, *arrays, **keywords) if needs[1] else None
        return [ct if needs[0] else None, read, *(None for _ in arrays)]


def _out_of_range(error: IndexError) -> Exception:
    return make_error(
        "INDEX_OUT_OF_RANGE",
        f"An index array names elements that are not there: {error}. Its values must lie within the "
        "axis, negative ones counting from its end.",
    )
