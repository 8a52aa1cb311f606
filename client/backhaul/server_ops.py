"""What a server tells of its ops."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AttributeInfo:
    """A static argument of an op.

    Attributes:
        name: its name.
        type: bool, int, float, string, dtype, ints, axes (an int or ints), int_lists or index.
        required: whether it must be given.
        default: the default in words, where it is not required.
        doc: what it means.
    """

    name: str
    type: str
    required: bool
    default: str
    doc: str


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An op of the server's catalog.

    Attributes:
        name: as in ``bh.apply(name, ...)``.
        operands: names of its operands; one that starts with ``*`` stands for any number.
        attributes: its static arguments.
        doc: words; the first line says what it computes.
        has_vjp: whether pullback goes through it.
        has_jvp: whether hvp goes through it.
    """

    name: str
    operands: tuple[str, ...]
    attributes: tuple[AttributeInfo, ...]
    doc: str
    has_vjp: bool
    has_jvp: bool
