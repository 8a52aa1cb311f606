"""From an expression and its operands' shapes to an `Einsum`: what is to be computed, without names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import ascii_letters
from typing import Final

from backhaul_proto.catalog.avals import Shape
from backhaul_proto.catalog.einsum.notation import (
    ELLIPSIS,
    Expression,
    Ints,
    parse,
    read_lists,
)
from backhaul_proto.catalog.einsum.optimize import check_search, path_and_optimize
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.kept_calls import kept_by_size, weight

MAX_RANK: Final = 64
"""NumPy's limit on the number of axes."""


@dataclass(frozen=True, slots=True)
class Einsum:
    """An einsum with its labels numbered 0, 1, ... in the order of their first appearance.

    So expressions that differ in letters alone are equal, and share one plan.

    Attributes:
        shapes: the operands' shapes. An axis of size 1 broadcasts to its label's size.
        inputs: the label of each axis of each operand, ellipsis axes included.
        output: the label of each axis of the result; one that repeats means a diagonal.
        sizes: the size of each label.
        groups: what is contracted with what, as in `Expression.groups`; groups of three members or
            more leave the order among them open.
        search: how to find that, by a name of `optimize.LIMITS`; None for the usual way.
    """

    shapes: tuple[Shape, ...]
    inputs: tuple[Ints, ...]
    output: Ints
    sizes: Ints
    groups: tuple[Ints, ...]
    search: str | None = None

    @property
    def shape(self) -> Shape:
        """The result's shape."""
        return tuple(self.sizes[label] for label in self.output)


def symbol(label: int) -> str:
    """The letter of a numbered label: a-z, A-Z, then from U+00C0 on; opt_einsum's.

    >>> symbol(0), symbol(51), symbol(52)
    ('a', 'Z', 'À')
    """
    if label < len(ascii_letters):
        return ascii_letters[label]
    point = label + 140
    return chr(point if point < 0xD800 else point + 0x800)  # past the surrogates


def _weigh(shapes: tuple[Shape, ...], **attributes: object) -> int:
    return len(shapes) + sum(map(weight, attributes.values()))


@kept_by_size(1024, _weigh)
def resolve(
    shapes: tuple[Shape, ...],
    *,
    subscripts: str | None = None,
    labels: tuple[Ints, ...] | None = None,
    output: Ints | None = None,
    size_labels: Ints = (),
    size_values: Ints = (),
    path: tuple[Ints, ...] | None = None,
    optimize: str | None = None,
) -> Einsum:
    """Read the attributes of the op ``einsum`` for operands of these shapes.

    Raises:
        InvalidArgument: EINSUM_SYNTAX, EINSUM_OPERAND_COUNT, EINSUM_RANK, EINSUM_DIMENSION,
            EINSUM_OUTPUT; INVALID_ATTRIBUTE for a path that does not fit, or a search that is unknown
            or cannot take so many operands.
    """
    expression = _express(subscripts, labels, output)
    if len(expression.terms) != len(shapes) or not shapes:
        raise _operand_count(expression, len(shapes))
    inputs = [_axes(expression, i, shape) for i, shape in enumerate(shapes)]
    sizes = _label_sizes(expression, inputs, shapes)
    _declare_sizes(expression, sizes, size_labels, size_values)
    result = _result_labels(expression, inputs, sizes)
    groups = _groups(expression, path)
    if path is not None and optimize is not None:
        raise path_and_optimize()
    numbers = {
        label: number
        for number, label in enumerate(
            dict.fromkeys(label for term in (*inputs, result) for label in term)
        )
    }
    return Einsum(
        shapes=shapes,
        inputs=tuple(tuple(numbers[label] for label in term) for term in inputs),
        output=tuple(numbers[label] for label in result),
        sizes=tuple(sizes[label] for label in numbers),
        groups=groups,
        search=check_search(optimize, groups),
    )


def _express(
    subscripts: str | None, labels: tuple[Ints, ...] | None, output: Ints | None
) -> Expression:
    if subscripts is not None and labels is None and output is None:
        return parse(subscripts)
    if labels is not None and subscripts is None:
        return read_lists(labels, output)
    raise make_error(
        "EINSUM_SYNTAX",
        "An einsum is written either as subscripts, one string, or as labels (one list an operand) "
        "with an optional output; not both, and not neither.",
    )


def _operand_count(expression: Expression, given: int) -> BackhaulError:
    wanted = len(expression.terms)
    where = "has commas for" if expression.lettered else "has lists of labels for"
    return make_error(
        "EINSUM_OPERAND_COUNT",
        f"The einsum expression {where} {wanted} operand(s), {given} given. "
        "Every operand needs its own term, and every term its operand.",
        expected=wanted,
        actual=given,
    )


def _axes(expression: Expression, operand: int, shape: Shape) -> Ints:
    """The label of each axis; axes under the ellipsis get labels of their own below ELLIPSIS.

    Those count from the right, so that ellipses of different rank align as in broadcasting.
    """
    term = expression.terms[operand]
    named = len(term) - (ELLIPSIS in term)
    under = len(shape) - named
    if under < 0 or (under > 0 and ELLIPSIS not in term):
        at_least = "at least " if ELLIPSIS in term else ""
        raise make_error(
            "EINSUM_RANK",
            f"Operand {operand} has shape {shape}, {len(shape)} axes, but its term "
            f"{expression.term(operand)} has {at_least}{named} label(s). Give one label an axis, or "
            "'...' for axes that only broadcast.",
            operand=operand,
            expected=f"{at_least}{named}",
            actual=len(shape),
        )
    return _expand(term, under)


def _expand(term: Ints, under: int) -> Ints:
    if ELLIPSIS not in term:
        return term
    at = term.index(ELLIPSIS)
    return (*term[:at], *range(ELLIPSIS - under, ELLIPSIS), *term[at + 1 :])


def _label_sizes(
    expression: Expression, inputs: Sequence[Ints], shapes: Sequence[Shape]
) -> dict[int, int]:
    """The size of every label of the operands: equal wherever it stands, or 1 in an operand."""
    sizes: dict[int, int] = {}
    found_in: dict[int, int] = {}
    for operand, (term, shape) in enumerate(zip(inputs, shapes, strict=True)):
        own: dict[int, int] = {}
        for label, size in zip(term, shape, strict=True):
            if own.setdefault(label, size) != size:
                raise make_error(
                    "EINSUM_DIMENSION",
                    f"Label {expression.name(label)} stands twice in {expression.term(operand)}, "
                    f"the term of operand {operand}, for axes of size {own[label]} and {size} "
                    f"(shape {shape}). A diagonal needs equal sizes, size 1 included.",
                    operand=operand,
                    label=expression.name(label),
                    expected=own[label],
                    actual=size,
                )
        for label, size in own.items():
            if (known := sizes.get(label, 1)) == 1:
                sizes[label], found_in[label] = size, operand
            elif size not in (1, known):
                raise make_error(
                    "EINSUM_DIMENSION",
                    f"Label {expression.name(label)} has size {known} in operand "
                    f"{found_in[label]} (shape {shapes[found_in[label]]}) and size {size} in "
                    f"operand {operand} (shape {shape}). Equal sizes or 1 would do: check the "
                    "order of the axes, or use another label.",
                    operand=operand,
                    label=expression.name(label),
                    expected=known,
                    actual=size,
                )
    return sizes


def _declare_sizes(
    expression: Expression, sizes: dict[int, int], labels: Ints, values: Ints
) -> None:
    """Add the sizes that the user gave."""
    if len(labels) != len(values):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"size_labels has {len(labels)} entries and size_values {len(values)}; they go in pairs.",
            attribute="size_values",
            expected=len(labels),
            actual=len(values),
        )
    written = expression.output or ()
    for label, value in zip(labels, values, strict=True):
        name = expression.name(label)
        if label < 0 or (label not in sizes and label not in written):
            raise make_error(
                "EINSUM_OUTPUT",
                f"sizes gives label {name} the size {value}, but no term has that label. "
                "Write it into the output, or leave it out of sizes.",
                label=name,
            )
        if value < 0 or sizes.setdefault(label, value) != value:
            expected = "0 or more" if value < 0 else sizes[label]
            raise make_error(
                "EINSUM_DIMENSION",
                f"sizes gives label {name} the size {value}; it must be {expected}. A label that "
                "stands in an operand has its size from there: sizes= is for labels of the output "
                "alone, and does not broadcast.",
                label=name,
                expected=expected,
                actual=value,
            )


def _result_labels(expression: Expression, inputs: Sequence[Ints], sizes: dict[int, int]) -> Ints:
    under = sum(label < ELLIPSIS for label in sizes)  # they are numbered without gaps
    counts = Counter(label for term in inputs for label in term)
    if expression.output is None:
        once = sorted(label for label, count in counts.items() if count == 1 and label >= 0)
        result = _expand((ELLIPSIS, *once), under)
    else:
        result = _expand(expression.output, under)
        for label in result:
            if label not in sizes:
                raise _unknown_output(expression, label)
    if len(result) > MAX_RANK:
        raise make_error(
            "EINSUM_RANK",
            f"The einsum's result would have {len(result)} axes; an array has at most {MAX_RANK}. "
            "Sum over some labels, or reshape operands so that several axes become one.",
            expected=MAX_RANK,
            actual=len(result),
        )
    return result


def _unknown_output(expression: Expression, label: int) -> BackhaulError:
    name = expression.name(label)
    if expression.lettered and chr(label) in "0123456789":  # as in 'a->1': hardly meant as a label
        return make_error(
            "EINSUM_SYNTAX",
            f"The output has {name}, and no operand has a label {name}. A digit is a label only "
            "where an operand has it; an output of one element is written with nothing after '->'.",
            label=name,
        )
    return make_error(
        "EINSUM_OUTPUT",
        f"The output has label {name}, which stands in no operand, so its size is unknown. "
        f"Give it with sizes={{{name}: n}}, or correct the output.",
        label=name,
    )


def _groups(expression: Expression, path: tuple[Ints, ...] | None) -> tuple[Ints, ...]:
    if path is None:
        return expression.groups
    if expression.grouped:
        raise make_error(
            "EINSUM_SYNTAX",
            "The expression has parentheses and path= was given too: each fixes the order. "
            "Leave one of them out.",
        )
    return tuple(_path_groups(path, len(expression.terms)))


def _path_groups(path: tuple[Ints, ...], count: int) -> Iterator[Ints]:
    """The groups of an opt_einsum path, whose positions are those in the list of what is left."""
    if path == () and count == 1:
        return
    left = list(range(count))
    made = 0
    for number, step in enumerate(path):
        if not step or len(set(step)) < len(step) or not all(0 <= p < len(left) for p in step):
            raise make_error(
                "INVALID_ATTRIBUTE",
                f"Step {number} of path, {step}, does not name different ones of the {len(left)} "
                f"operand(s) left then (0 to {len(left) - 1}). path= takes an opt_einsum path: "
                "positions in the shrinking list, results appended.",
                attribute="path",
                actual=step,
            )
        members = tuple(left[position] for position in step)
        for position in sorted(step, reverse=True):
            del left[position]
        if len(members) == 1:
            left.append(members[0])
            continue
        yield members
        left.append(count + made)
        made += 1
    if len(left) > 1:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"path leaves {len(left)} of {count} operands uncontracted; it was perhaps made for "
            "another expression.",
            attribute="path",
            expected=1,
            actual=len(left),
        )
