"""From what a user writes in an einsum call to operands and the op's typed attributes."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex

from backhaul_proto.catalog.einsum.notation import ELLIPSIS, is_label, negative_label, strip
from backhaul_proto.catalog.einsum.optimize import path_and_optimize, read_optimize
from backhaul_proto.errors import make_error

Label = int | str


def einsum_attributes(
    args: Sequence[Any],
    *,
    sizes: Mapping[Label, int] | None = None,
    path: Iterable[Iterable[int]] | None = None,
    optimize: bool | str | Sequence[Any] | None = None,
) -> tuple[list[Any], dict[str, Any]]:
    """Split the positional arguments of an einsum call into operands and attributes.

    Args:
        args: ``("ij,jk->ik", a, b)``, or interleaved ``(a, [0, 1], b, [1, "x"], [0, "x"])``.
        sizes: sizes of labels that stand only in the output.
        path: an opt_einsum path.
        optimize: how to find an order: see `read_optimize`.

    Returns:
        The operands, untouched, and the attributes of the op ``einsum``. Interleaved labels that are
        all integers stay as they are; with strings among them all are numbered in their order
        (integers by value, then strings).

    Raises:
        InvalidArgument: EINSUM_SYNTAX; EINSUM_OPERAND_COUNT when there is nothing to contract;
            INVALID_ATTRIBUTE for an unknown search, or a path given twice.
    """
    if not args:
        raise make_error(
            "EINSUM_OPERAND_COUNT",
            "einsum was called with nothing. Write einsum('ij,jk->ik', a, b), or interleaved "
            "einsum(a, [0, 1], b, [1, 2], [0, 2]).",
        )
    if isinstance(args[0], str):
        operands = list(args[1:])
        subscripts = _encodable(strip(args[0]))
        attributes: dict[str, Any] = {"subscripts": subscripts}
        numbers: dict[object, int] = {label: _code_point(label) for label in sizes or ()}
    else:
        operands = list(args[: len(args) - len(args) % 2 : 2])
        lists = [_sublist(each, f"The list of operand {i}") for i, each in enumerate(args[1::2])]
        output = _sublist(args[-1], "The output's list") if len(args) % 2 else None
        declared = _sublist(sizes or (), "sizes")
        numbers = _numbering([*lists, output or [], declared])
        attributes = {"labels": [[numbers[label] for label in each] for each in lists]}
        if output is not None:
            attributes["output"] = [numbers[label] for label in output]
    if sizes:
        attributes["size_labels"] = [numbers[label] for label in sizes]
        attributes["size_values"] = list(sizes.values())
    search, given_path = read_optimize(optimize)
    if path is not None and (search is not None or given_path is not None):
        raise path_and_optimize()
    if search is not None:
        attributes["optimize"] = search
    if path is not None or given_path is not None:
        attributes["path"] = given_path if path is None else path
    return operands, attributes


def _encodable(subscripts: str) -> str:
    for character in subscripts:
        if not character.isascii() and not is_label(character):
            raise make_error(
                "EINSUM_SYNTAX",
                f"The einsum expression {subscripts!r} holds {character!r}, a lone surrogate, "
                "which is no character. Use another letter.",
            )
    return subscripts


def _code_point(label: object) -> int:
    if isinstance(label, str) and len(label) == 1 and is_label(label):
        return ord(label)
    raise make_error(
        "EINSUM_SYNTAX",
        f"sizes has the label {label!r}; beside a subscripts string a label is one letter.",
        label=label,
    )


def _sublist(given: object, whose: str) -> list[object]:
    """The labels of one sublist: ints, strings, Ellipsis."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise make_error(
            "EINSUM_SYNTAX",
            f"{whose} is {given!r:.100}, where a list of labels belongs. The interleaved form is "
            "einsum(a, [0, 1], b, [1, 2], [0, 2]); with a string, the string comes first.",
        )
    return [_label(each, whose) for each in given]


def _label(given: object, whose: str) -> object:
    if given is Ellipsis or (isinstance(given, str) and given):
        return given
    if isinstance(given, SupportsIndex) and not isinstance(given, bool):
        try:
            number = operator.index(given)
        except TypeError:
            pass
        else:
            if number < 0:
                raise negative_label(number, whose)
            return number
    raise make_error(
        "EINSUM_SYNTAX",
        f"{whose} has {given!r:.100}: a label is an integer from 0 up, a string or Ellipsis.",
        label=f"{given!r:.100}",
    )


def _numbering(lists: Sequence[Sequence[object]]) -> dict[object, int]:
    """The integer that stands for each label: itself, if that will do for all of them."""
    labels = {label for each in lists for label in each if label is not Ellipsis}
    integers = sorted(label for label in labels if isinstance(label, int))
    strings = sorted(label for label in labels if isinstance(label, str))
    numbers: dict[object, int] = {Ellipsis: ELLIPSIS}
    if strings or (integers and integers[-1] >= 2**63):  # attributes are integers of 64 bits
        numbers.update((label, i) for i, label in enumerate([*integers, *strings]))
    else:
        numbers.update((label, label) for label in integers)
    return numbers
