"""Where the nodes of a graph stand: in layers, so that each stands below what it was computed from.

The layered method of Sugiyama, Tagawa and Toda (1981): layers by the longest path, places within a layer
by the barycentre of the neighbours, a few times down and up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

SWEEPS: Final = 6
_LONGEST_CHAIN: Final = 6
"""Layers over which a line is led past what stands between; longer ones go straight."""

Key = int
_Item = tuple[Key, Key, int]
"""A node (it, it, 0), or the place of a line from one node to another in a layer between."""


class Places(NamedTuple):
    """A layout on a grid.

    Attributes:
        columns: where each node stands in its layer, in units of a node's width.
        rows: the layer of each node.
        lines: the columns through which a line goes in the layers between its ends.
        width: how many columns there are.
        height: how many layers.
    """

    columns: Mapping[Key, float]
    rows: Mapping[Key, int]
    lines: Mapping[tuple[Key, Key], Sequence[float]]
    width: float
    height: int


def place(inputs: Mapping[Key, Sequence[Key]]) -> Places:
    """A layout of a graph without cycles.

    Args:
        inputs: by node, in an order in which inputs come first, what it was computed from. Inputs that are
            no nodes are passed over.

    >>> found = place({1: [], 2: [], 3: [1, 2]})
    >>> found.rows
    {1: 0, 2: 0, 3: 1}
    """
    edges = {
        node: [x for x in dict.fromkeys(given) if x in inputs] for node, given in inputs.items()
    }
    rows = _rows(edges)
    height = max(rows.values(), default=-1) + 1
    layers, above, below = _layers(edges, rows, height)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        order = range(1, height) if down else range(height - 2, -1, -1)
        for row in order:
            _sort(layers[row], above if down else below, layers[row - 1 if down else row + 1])
    columns: dict[_Item, float] = {}
    width = max(map(len, layers), default=0)
    for layer in layers:
        start = (width - len(layer)) / 2
        for i, item in enumerate(layer):
            columns[item] = start + i
    lines = {
        (source, node): [
            columns[source, node, row]
            for row in range(rows[source] + 1, rows[node])
            if (source, node, row) in columns
        ]
        for node, given in edges.items()
        for source in given
    }
    found = {node: columns[node, node, 0] for node in edges}
    return Places(found, rows, lines, float(width), height)


def _rows(edges: Mapping[Key, Sequence[Key]]) -> dict[Key, int]:
    """Layers by the longest path; what was computed from nothing stands just above what takes it first."""
    rows: dict[Key, int] = {}
    first_use: dict[Key, int] = {}
    for node, given in edges.items():
        rows[node] = max((rows[each] + 1 for each in given), default=0)
        for each in given:
            first_use[each] = min(first_use.get(each, rows[node]), rows[node])
    for node, given in edges.items():
        if not given and node in first_use:
            rows[node] = first_use[node] - 1
    return rows


def _layers(
    edges: Mapping[Key, Sequence[Key]], rows: Mapping[Key, int], height: int
) -> tuple[list[list[_Item]], dict[_Item, list[_Item]], dict[_Item, list[_Item]]]:
    layers: list[list[_Item]] = [[] for _ in range(height)]
    above: dict[_Item, list[_Item]] = {}
    below: dict[_Item, list[_Item]] = {}
    for node in edges:
        layers[rows[node]].append((node, node, 0))
    for node, given in edges.items():
        for source in given:
            before: _Item = (source, source, 0)
            span = rows[node] - rows[source]
            between = range(rows[source] + 1, rows[node]) if span <= _LONGEST_CHAIN else ()
            for row in between:
                item = (source, node, row)
                layers[row].append(item)
                _join(before, item, above, below)
                before = item
            _join(before, (node, node, 0), above, below)
    return layers, above, below


def _join(
    upper: _Item, lower: _Item, above: dict[_Item, list[_Item]], below: dict[_Item, list[_Item]]
) -> None:
    above.setdefault(lower, []).append(upper)
    below.setdefault(upper, []).append(lower)


def _sort(
    layer: list[_Item], neighbours: Mapping[_Item, Sequence[_Item]], fixed: Sequence[_Item]
) -> None:
    places = {item: i for i, item in enumerate(fixed)}

    def barycentre(at: int) -> float:
        found = [places[each] for each in neighbours.get(layer[at], ()) if each in places]
        return sum(found) / len(found) if found else at

    order = sorted(range(len(layer)), key=barycentre)
    layer[:] = [layer[i] for i in order]
