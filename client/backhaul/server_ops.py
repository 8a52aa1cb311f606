"""What a server tells of its ops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AttributeInfo:
    """A static argument of an op.

    Attributes:
        name: its name.
        type: bool, int, float, string, dtype, ints, axes (an int or ints), int_lists, paired_axes
            (an int, or ints and lists of them) or index.
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
class OpSupport:
    """Which derivatives of an op exist for operands of a dtype. Its value does, in any case.

    Attributes:
        vjp: a pullback goes through it.
        jvp: a pushforward does.
        hvp: an hvp does.
    """

    vjp: bool
    jvp: bool
    hvp: bool


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
        support: what exists for each dtype that operands may have, by its name.
    """

    name: str
    operands: tuple[str, ...]
    attributes: tuple[AttributeInfo, ...]
    doc: str
    has_vjp: bool
    has_jvp: bool
    support: Mapping[str, OpSupport] = field(default_factory=dict)
