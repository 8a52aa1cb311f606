"""The notation: from a subscripts string, or lists of integer labels, to an `Expression`.

A label is an integer in both forms: the character's code point in a string, the number itself in
lists. So what comes after reads one form, and sorting labels is NumPy's order of letters.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backhaul_proto.errors import BackhaulError, make_error

Ints = tuple[int, ...]

ELLIPSIS: Final = -1
"""Stands for ``...`` in a term."""


_SHOWN: Final = 60  # labels of a term in a message


@dataclass(frozen=True, slots=True)
class Expression:
    """An einsum expression as written: nothing is known of the operands yet.

    Attributes:
        terms: the labels of each operand.
        output: the output's labels; None when it is implicit.
        groups: what is contracted with what, inner groups first. A member below ``len(terms)`` is an
            operand, ``len(terms) + g`` the result of group g. The last group gives the result.
        grouped: whether the groups were written (parentheses).
        lettered: whether labels are characters.
    """

    terms: tuple[Ints, ...]
    output: Ints | None
    groups: tuple[Ints, ...]
    grouped: bool
    lettered: bool

    def name(self, label: int) -> str:
        """The label as the user wrote it; for an ellipsis axis (below zero) a description."""
        if label < 0:
            return f"axis {label - ELLIPSIS} of '...'"
        return repr(chr(label)) if self.lettered and label <= sys.maxunicode else str(label)

    def term(self, operand: int) -> str:
        """The operand's term as the user wrote it."""
        return self.written(self.terms[operand])

    def written(self, labels: Sequence[int]) -> str:
        """A term as the user wrote it; of a long one the beginning."""
        shown = labels[:_SHOWN]
        more = " and so on" if len(labels) > _SHOWN else ""
        if self.lettered:
            text = repr("".join("..." if each == ELLIPSIS else chr(each) for each in shown))
        else:
            text = str([Ellipsis if each == ELLIPSIS else each for each in shown])
        return text.replace("Ellipsis", "...") + more


def parse(subscripts: str) -> Expression:
    """Read a subscripts string such as ``"ij,(jk,kl)->il"``.

    Raises:
        InvalidArgument: EINSUM_SYNTAX, pointing at what is wrong.
    """
    text = strip(subscripts)
    left, arrow, right = text.partition("->")
    if "->" in right:
        raise _syntax(text, "it has more than one '->'", "Keep one.")
    terms, groups = _operands(text, left)
    output = _labels(text, right, "The output") if arrow else None
    return Expression(terms, output, groups, grouped="(" in left, lettered=True)


def read_lists(labels: Sequence[Ints], output: Ints | None) -> Expression:
    """Read lists of integer labels, -1 for the ellipsis.

    Raises:
        InvalidArgument: EINSUM_SYNTAX, naming the list.
    """
    for position, term in enumerate(labels):
        _check_list(term, f"The list of operand {position}")
    if output is not None:
        _check_list(output, "The output's list")
    return Expression(
        tuple(labels), output, flat_groups(len(labels)), grouped=False, lettered=False
    )


def flat_groups(count: int) -> tuple[Ints, ...]:
    """The groups of an expression without parentheses: all operands together."""
    return (tuple(range(count)),) if count > 1 else ()


def strip(subscripts: str) -> str:
    """The string without its whitespace, which means nothing."""
    return "".join(subscripts.split())


def is_label(character: str) -> bool:
    """Whether this character (not whitespace) can be a label.

    ASCII letters and digits; beyond ASCII everything: networks with hundreds of labels use signs
    and unassigned code points too. Surrogates are no characters.
    """
    if character.isascii():
        return character.isalnum()
    return not "\ud800" <= character <= "\udfff"


_TOKENS: Final = re.compile(r"[(),]|[^(),]+")


def _operands(text: str, left: str) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
    """The terms left of the arrow, and the groups that their parentheses make."""
    terms: list[Ints] = []
    closed: list[list[int]] = []  # a member is an operand, or ~g for the result of closed group g
    open_groups: list[list[int]] = [[]]
    begins = True  # a member begins here: after a comma, after "(", at the start

    def add_term(word: str) -> None:
        open_groups[-1].append(len(terms))
        terms.append(_labels(text, word, f"Operand {len(terms)}"))

    for token in _TOKENS.findall(left):
        if token == "(":
            if not begins:
                raise _syntax(text, "a '(' follows a label or a ')'", "Put a comma between.")
            open_groups.append([])
        elif token == ",":
            if begins:
                add_term("")
            begins = True
        elif token == ")":
            if begins:
                add_term("")
            begins = False
            closed.append(open_groups.pop())
            if not open_groups:
                raise _syntax(text, "a ')' has no '('", "Balance the parentheses.")
            if len(closed[-1]) < 2:
                raise _syntax(
                    text,
                    "a group in parentheses has fewer than two members",
                    "Parentheses say which operands are contracted first: group two or more.",
                )
            open_groups[-1].append(~(len(closed) - 1))
        elif not begins:
            raise _syntax(text, f"{token!r} follows a ')'", "Put a comma between.")
        else:
            add_term(token)
            begins = False
    if begins:
        add_term("")
    if len(open_groups) > 1:
        raise _syntax(text, "a '(' has no ')'", "Balance the parentheses.")
    if len(open_groups[0]) > 1:
        closed.append(open_groups[0])
    count = len(terms)
    return tuple(terms), tuple(
        tuple(member if member >= 0 else count + ~member for member in group) for group in closed
    )


def _labels(text: str, word: str, whose: str) -> Ints:
    """The labels of one term."""
    head, dots, tail = word.partition("...")
    for character in head + tail:
        if character == ".":
            why = "a second '...'" if dots and "..." in tail else "a '.' that is not part of '...'"
            raise _syntax(text, f"{whose} has {why}", "A term has at most one '...'.")
        if not is_label(character):
            raise _syntax(
                text,
                f"{whose} has {character!r}, which is no label",
                "Labels are letters (of any script); the arrow is '->', operands are separated "
                "by commas.",
            )
    before, after = tuple(map(ord, head)), tuple(map(ord, tail))
    return (*before, ELLIPSIS, *after) if dots else before


def _check_list(labels: Ints, whose: str) -> None:
    for label in labels:
        if label < ELLIPSIS:
            raise negative_label(label, whose)
    if labels.count(ELLIPSIS) > 1:
        raise make_error(
            "EINSUM_SYNTAX", f"{whose} has more than one Ellipsis; a term has at most one."
        )


def negative_label(label: int, whose: str) -> BackhaulError:
    """The error for a label below zero."""
    return make_error(
        "EINSUM_SYNTAX",
        f"{whose} has the label {label}: integer labels count from 0 up. A label is a name, "
        "not an axis; number them from 0, and write Ellipsis for '...'.",
        label=label,
    )


def _syntax(text: str, what: str, remedy: str) -> BackhaulError:
    shown = text if len(text) <= 200 else text[:200] + "…"
    return make_error(
        "EINSUM_SYNTAX",
        f"The einsum expression {shown!r} cannot be read: {what}. {remedy}",
        subscripts=shown,
    )
