"""The arguments of a call: which are differentiated, and what the others are."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from backhaul.functional.pytrees import Tree, exact_key, flatten, flatten_like
from backhaul.handle import Handle
from backhaul_proto.errors import BackhaulError, make_error

Argnums = int | Sequence[int]
"""The position of an argument, or positions."""

_STATIC: Final = (bool, int, float, complex, str, bytes, type(None))


def checked_argnums(argnums: Any, name: str = "argnums") -> int | tuple[int, ...]:
    """Positions of arguments, as an int or a tuple of ints.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    one = not isinstance(argnums, Iterable)
    try:
        found = tuple(operator.index(each) for each in ([argnums] if one else argnums))
    except TypeError:
        raise _wrong_argnums(name, argnums, "it is a position or positions of arguments") from None
    if any(isinstance(each, bool) for each in ([argnums] if one else argnums)):
        raise _wrong_argnums(name, argnums, "it is a position or positions of arguments")
    if len(set(found)) < len(found):
        raise _wrong_argnums(name, argnums, "each argument is to be named once")
    return found[0] if one else found


def _wrong_argnums(name: str, given: Any, what: str) -> BackhaulError:
    return make_error("INVALID_VALUE", f"{name}={given!r:.100}: {what}.")


def positions(argnums: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """The positions that are meant of so many arguments; negative ones count from the end.

    Raises:
        InvalidArgument: INVALID_VALUE: there is no such argument.
    """
    given = (argnums,) if isinstance(argnums, int) else argnums
    found = []
    for each in given:
        if not -count <= each < count:
            raise make_error(
                "INVALID_VALUE",
                f"argnums={argnums}: the function was called with {count} positional arguments, so there is "
                f"no argument {each}. Arguments given by name are never differentiated.",
                argnums=argnums,
            )
        found.append(each % count)
    if len(set(found)) < len(found):
        raise _wrong_argnums("argnums", argnums, f"of {count} arguments it names one twice")
    return tuple(found)


@dataclass(slots=True)
class Arguments:
    """The arguments of one call, taken apart.

    Attributes:
        args: all positional ones.
        kwargs: those by name.
        chosen: positions of those that are differentiated.
        leaves: their leaves.
        tree: the structure of the tuple of them.
        passing: ids of arrays that will hardly come again: those of one set of a batch.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    chosen: tuple[int, ...]
    leaves: list[Any]
    tree: Tree
    passing: frozenset[int] = frozenset()

    @property
    def paths(self) -> list[str]:
        """Where each leaf stands, in words."""
        return [
            path
            for position, child in zip(self.chosen, self.tree.children, strict=True)
            for path in child.paths(f"argument {position}")
        ]

    def filled(self, leaves: Sequence[Any]) -> list[Any]:
        """The positional arguments, with these in place of the leaves."""
        args = list(self.args)
        for position, value in zip(self.chosen, self.tree.unflatten(leaves), strict=True):
            args[position] = value
        return args

    def like(self, values: Sequence[Any], what: str) -> list[Any]:
        """The leaves of values, one for each differentiated argument, in the order of the arguments' leaves.

        Raises:
            InvalidArgument: TREE_MISMATCH.
        """
        if len(values) != len(self.chosen):
            raise make_error(
                "TREE_MISMATCH",
                f"{what}: there are {len(values)} for {len(self.chosen)} arguments; give one for each, in a "
                "tuple.",
                expected=len(self.chosen),
                actual=len(values),
            )
        found: list[Any] = []
        for position, (child, value) in enumerate(zip(self.tree.children, values, strict=True)):
            found += flatten_like(child, value, f"{what}[{position}]")
        return found


def taken_apart(
    argnums: int | tuple[int, ...],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    name: str,
    passing: frozenset[int] = frozenset(),
) -> Arguments:
    """The arguments of a call.

    Args:
        argnums: which are differentiated.
        args: as they were given.
        kwargs: as they were given.
        name: of the function that was called, for errors.
        passing: see `Arguments`.

    Raises:
        InvalidArgument: INVALID_VALUE; NESTED_TRANSFORM.
    """
    chosen = positions(argnums, len(args))
    leaves, tree = flatten(tuple([args[each] for each in chosen]))
    found = Arguments(args, kwargs, chosen, leaves, tree, passing)
    if not leaves and chosen:
        raise make_error(
            "INVALID_VALUE",
            f"{name}: there is no array in the arguments that are differentiated (argnums={argnums}).",
        )
    for each in leaves:
        if isinstance(each, Handle):
            raise nested(name)
    return found


def nested(name: str) -> BackhaulError:
    """A function of ours that was called on tensors: within another one, or on those of a tape."""
    return make_error(
        "NESTED_TRANSFORM",
        f"{name} was called on a tensor, probably within a function that is differentiated itself. What it "
        "gives are arrays, which no gradient flows through. For second derivatives call bh.hvp, bh.hessian "
        "or bh.gauss_newton_product on the function itself; for a constant, give tensor.numpy().",
    )


class Others(NamedTuple):
    """What is not differentiated, as a kept program sees it.

    Attributes:
        data: the arrays, which may be others at each call.
        tree: the structure of all that is not static, as (arguments by position, arguments by name).
        at: places of the arrays among its leaves.
        rest: its leaves.
        key: equal where all but the numbers of the arrays is equal.
    """

    data: list[Any]
    tree: Tree
    at: tuple[int, ...]
    rest: tuple[Any, ...]
    key: tuple[Any, ...]

    def filled(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], data: Sequence[Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The arguments, with these in place of the arrays."""
        leaves = list(self.rest)
        for position, value in zip(self.at, data, strict=True):
            leaves[position] = value
        given, named = self.tree.unflatten(leaves)
        filled = list(args)
        for position, value in given.items():
            filled[position] = value
        return filled, {**kwargs, **named}


def is_data(value: Any) -> bool:
    """Whether this is an array, or a NumPy number."""
    return isinstance(value, np.ndarray | np.generic)


def others(
    arguments: Arguments,
    name: str,
    static_argnums: tuple[int, ...] = (),
    static_argnames: frozenset[str] = frozenset(),
    *,
    keyed: bool = True,
) -> Others:
    """What is not differentiated, taken apart: arrays are data, all else is part of the key.

    Args:
        arguments: those of the call.
        name: of the function that was called, for errors.
        static_argnums: positions of arguments that are part of the key as they are.
        static_argnames: their names.
        keyed: whether a key is wanted; else anything may stand among the arrays.

    Raises:
        InvalidArgument: INVALID_VALUE for what is neither, and not named as static; or static and not
            hashable.
    """
    args, kwargs = arguments.args, arguments.kwargs
    static = {each % len(args) for each in static_argnums if -len(args) <= each < len(args)}
    static.difference_update(arguments.chosen)
    left = set(range(len(args))).difference(arguments.chosen, static)
    if not left and not static and not kwargs:
        return _NO_OTHERS
    given = {i: args[i] for i in sorted(left)}
    named = {key: each for key, each in kwargs.items() if key not in static_argnames}
    leaves, tree = flatten((given, named))
    at = tuple([i for i, each in enumerate(leaves) if is_data(each)])
    data = [leaves[i] for i in at]
    if not keyed:
        return Others(data, tree, at, tuple(leaves), ())
    keys: list[Any] = [tree]
    for i, each in enumerate(leaves):
        if type(each) in _STATIC:
            keys.append(exact_key(each))
        elif isinstance(each, Handle):
            raise nested(name)
        elif not is_data(each):
            raise _neither(name, [*tree.paths()][i], each)
    by_value = [(f"argument {i}", args[i]) for i in sorted(static)]
    by_value += [(f"argument {k!r}", kwargs[k]) for k in sorted(static_argnames & kwargs.keys())]
    for what, value in by_value:
        if not isinstance(value, Hashable):
            raise make_error(
                "INVALID_VALUE",
                f"{name}: {what} is static, and a {type(value).__name__} is not hashable. Give something "
                "immutable, such as a tuple in place of a list.",
            )
        keys.append((what, exact_key(value)))
    return Others(data, tree, at, tuple(leaves), tuple(keys))


def _neither(name: str, path: str, value: Any) -> BackhaulError:
    return make_error(
        "INVALID_VALUE",
        f"{name}: among the arguments that are not differentiated there is a {type(value).__name__} (at "
        f"{path}). A program is kept for arrays, numbers and strings; of anything else bh.jit cannot tell "
        "whether it has changed. Name the argument in static_argnums= or static_argnames= if it is hashable "
        "and does not change, or leave bh.jit out.",
    )


_NO_OTHERS: Final = Others([], flatten(({}, {}))[1], (), (), ())
