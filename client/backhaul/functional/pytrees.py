"""Nested containers: their leaves in a row, and back. As JAX's pytrees, without a registry."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from backhaul_proto.errors import BackhaulError, make_error

MAX_DEPTH: Final = 100
"""Containers in one another, at most: a list may hold itself."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The structure of nested containers. Equal ones have equal containers and keys in the same order.

    Attributes:
        kind: the class of the container; None: a leaf.
        keys: what tells its children apart: indices, keys, or names of fields.
        children: their structures.
        static: fields of a dataclass that are marked ``metadata={"static": True}``: name, value, and the
            value as a key.
        size: the number of leaves.
    """

    kind: type | None = None
    keys: tuple[Hashable, ...] = ()
    children: tuple[Tree, ...] = ()
    static: tuple[tuple[str, Any, Any], ...] = ()
    size: int = 1

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """The containers, with these leaves in place of those that they had."""
        return self._filled(iter(leaves))

    def _filled(self, leaves: Iterator[Any]) -> Any:
        kind = self.kind
        if kind is None:
            return next(leaves)
        if kind is type(None):
            return None
        children = [each._filled(leaves) for each in self.children]
        if kind is tuple or kind is list:
            return kind(children)
        if kind is dict or kind is OrderedDict:
            return kind(zip(self.keys, children, strict=True))
        if issubclass(kind, tuple):  # a namedtuple
            return kind(*children)
        made = object.__new__(kind)  # its __init__ may check for what gradients are not
        static = [(name, value) for name, value, _ in self.static]
        for name, value in (*static, *zip(self.keys, children, strict=True)):
            object.__setattr__(made, str(name), value)
        return made

    def paths(self, root: str = "") -> Iterator[str]:
        """How each leaf is got at from the whole, in words: ``['w'][0].bias``."""
        if self.kind is None:
            yield root
            return
        named = self.kind not in (tuple, list, dict, OrderedDict)
        for key, child in zip(self.keys, self.children, strict=True):
            yield from child.paths(f"{root}.{key}" if named else f"{root}[{key!r}]")


LEAF: Final = Tree()
NOTHING: Final = Tree(type(None), size=0)


def flatten(value: Any) -> tuple[list[Any], Tree]:
    """The leaves of nested dicts, lists, tuples, namedtuples and dataclasses; None holds no leaf.

    Raises:
        InvalidArgument: INVALID_VALUE: a container that holds itself.

    Example:
        >>> from backhaul.functional.pytrees import flatten
        >>> leaves, tree = flatten({"w": [1.0, 2.0], "b": (3.0, None)})
        >>> leaves, tree.unflatten([10, 20, 30]), list(tree.paths("p"))
        ([1.0, 2.0, 3.0], {'w': [10, 20], 'b': (30, None)}, ["p['w'][0]", "p['w'][1]", "p['b'][0]"])
    """
    leaves: list[Any] = []
    return leaves, _flattened(value, leaves, 0)


def _flattened(value: Any, leaves: list[Any], depth: int) -> Tree:
    found = _opened(value)
    if found is None:
        leaves.append(value)
        return LEAF
    if depth == MAX_DEPTH:
        raise make_error(
            "INVALID_VALUE",
            f"An argument has more than {MAX_DEPTH} containers in one another; one of them may hold itself.",
        )
    keys, children, static = found
    before = len(leaves)
    trees = tuple([_flattened(each, leaves, depth + 1) for each in children])
    if value is None:
        return NOTHING
    return Tree(type(value), keys, trees, static, len(leaves) - before)


def exact_key(value: Any) -> Any:
    """A value as a key: equal for those that make equal steps. 1, 1.0 and True do not, nor 0.0 and -0.0."""
    kind = type(value)
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if kind is tuple:
        return kind, tuple(map(exact_key, value))
    return kind, value


_Opened = tuple[tuple[Hashable, ...], Sequence[Any], tuple[tuple[str, Any, Any], ...]]


def _opened(value: Any) -> _Opened | None:
    """Keys, children and static fields of a container; None for a leaf."""
    kind = type(value)
    if kind is tuple or kind is list:
        return tuple(range(len(value))), value, ()
    if kind is dict or kind is OrderedDict:
        return tuple(value), list(value.values()), ()
    if value is None:
        return (), (), ()
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return tuple(kind._fields), value, ()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        names = tuple(each.name for each in fields if not each.metadata.get("static"))
        values = [(x.name, getattr(value, x.name)) for x in fields if x.metadata.get("static")]
        static = tuple((name, each, exact_key(each)) for name, each in values)
        return names, [getattr(value, each) for each in names], static
    return None


def flatten_like(tree: Tree, value: Any, what: str) -> list[Any]:
    """The leaves of a value that is built like another one, in that one's order.

    The order of a dict's keys makes no difference, nor do dicts and OrderedDicts differ.

    Args:
        tree: how the other one is built.
        value: what is taken apart. Below a leaf of the tree nothing is.
        what: what it is, in words.

    Raises:
        InvalidArgument: TREE_MISMATCH, with the place.
    """
    leaves: list[Any] = []
    _alike(tree, value, what, leaves)
    return leaves


_DICTS: Final = (dict, OrderedDict)


def _alike(tree: Tree, value: Any, where: str, leaves: list[Any]) -> None:
    if tree.kind is None:
        leaves.append(value)
        return
    found = _opened(value)
    kind = type(value)
    same = kind is tree.kind or (kind in _DICTS and tree.kind in _DICTS)
    if found is None or not same:
        raise _mismatch(where, f"a {tree.kind.__name__}", f"a {kind.__name__}")
    keys, children, _ = found
    given = dict(zip(keys, children, strict=True))
    if given.keys() != set(tree.keys):
        if tree.kind in (tuple, list):
            raise _mismatch(
                where, f"a {tree.kind.__name__} of {len(tree.keys)}", f"one of {len(keys)}"
            )
        raise _mismatch(where, f"one of {list(tree.keys)!r:.100}", f"one of {list(keys)!r:.100}")
    named = kind not in (tuple, list, *_DICTS)
    for key, child in zip(tree.keys, tree.children, strict=True):
        _alike(child, given[key], f"{where}.{key}" if named else f"{where}[{key!r}]", leaves)


def _mismatch(where: str, expected: str, actual: str) -> BackhaulError:
    return make_error(
        "TREE_MISMATCH",
        f"{where} is built otherwise than what it stands beside: there it is {expected}, here {actual}.",
        expected=expected,
        actual=actual,
    )
