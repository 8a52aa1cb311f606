"""What a pullback and an hvp return."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar

import numpy as np

from backhaul.handle import Handle
from backhaul_proto.errors import BackhaulError, make_error

if TYPE_CHECKING:
    from backhaul.any_tape import AnyTape
    from backhaul.tensor import TrackedTensor

Array = np.ndarray[Any, Any]
Value = TypeVar("Value", bound="Array | TrackedTensor")
"""What gradients are: arrays, or with ``fetch=False`` tensors."""


class Gradients(Mapping[int, Value], Generic[Value]):
    """The gradients of a loss by node id: of every leaf that it reaches, or of ``wrt``.

    Keys are node ids; look-ups take a tensor too. It is read-only; the arrays in it are the caller's.
    With ``fetch=False`` it holds tensors: constants of the tape, whose numbers stayed on the server.

    Example:
        >>> import backhaul as bh
        >>> tape = bh.Tape()
        >>> x, unused = tape.leaf([1.0, 2.0]), tape.leaf(1.0)
        >>> grads = tape.pullback(bh.sum(x * x))
        >>> grads[x], grads.get(unused), float(grads.value)
        (array([2., 4.]), None, 5.0)
    """

    __slots__ = ("_found", "_tape", "_tape_name", "_value")

    def __init__(
        self, tape: AnyTape[Any], found: Mapping[int, Value], value: Array | TrackedTensor
    ) -> None:
        self._found = found
        self._tape = weakref.ref(tape)  # arrays keep no session open
        self._tape_name = str(tape)
        self._value = value

    @property
    def value(self) -> Array:
        """The loss's value. With ``fetch=False`` that of a loss of many elements is fetched here."""
        value = self._value
        return value._now() if isinstance(value, Handle) else value

    def __getitem__(self, key: TrackedTensor | int | None) -> Value:
        """The gradient for a leaf.

        Raises:
            MissingNode: the loss does not depend on it (MISSING_GRADIENT, also a KeyError); or it is
                no node of this tape that requires a gradient.
        """
        node = self._node(key)
        found = self._found.get(node)
        if found is None:
            raise make_error(
                "MISSING_GRADIENT",
                f"There is no gradient for node {node}: the loss does not depend on it, or it is no "
                "leaf. tape.explain(loss) tells why it is not reached; wrt=[...] gives zeros, and "
                "gradients of other tensors than leaves.",
                node=node,
            )
        return found

    def get(self, key: TrackedTensor | int | None, default: Any = None) -> Any:
        """The gradient for a leaf, the default (None) when the loss does not depend on it.

        Raises:
            MissingNode: it is no node of this tape that requires a gradient.
        """
        return self._found.get(self._node(key), default)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, Handle):
            return key._tape is self._tape() and abs(key._id) in self._found
        return key in self._found

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        found = self._found
        shapes = ", ".join(f"{node}: {each.shape}" for node, each in found.items())
        stay = any(isinstance(each, Handle) for each in found.values())
        where = " that stayed on the server" if stay else ""
        return f"<Gradients of {self._tape_name}{where}, shapes by node {{{shapes}}}>"

    def _node(self, key: TrackedTensor | SupportsIndex | None) -> int:
        tape = self._tape()
        if isinstance(key, Handle):
            if key._tape is not tape:
                raise self._missing(f"The tensor is on {key._tape}", key._id)
            if not key._node_type.requires_grad:
                raise self._missing(f"The tensor (node {key._id}) requires no gradient", key._id)
            return abs(key._id)
        if key is None:
            raise self._missing("None is the node_id of a tensor that requires no gradient", None)
        try:
            node = operator.index(key)
        except TypeError:
            raise make_error(
                "INVALID_VALUE",
                f"Gradients are looked up with a leaf or its node_id, not with {key!r:.100}.",
            ) from None
        known = max(self._found, default=0) if tape is None else tape._recorder.next_id - 1
        if not 0 < node <= known:
            raise self._missing(f"No node has the id {node}", node)
        return node

    def _missing(self, what: str, node: int | None) -> BackhaulError:
        return make_error(
            "MISSING_NODE",
            f"{what}; these are gradients of leaves of {self._tape_name}. Look up with one of its "
            "leaves, or with a leaf's node_id.",
            node=node,
        )


@dataclass(frozen=True, slots=True)
class PushforwardResult:
    """What a pushforward returns.

    Attributes:
        value: the output's value.
        tangent: J·v, of the output's shape and dtype.
    """

    value: Array
    tangent: Array


@dataclass(frozen=True, slots=True)
class HvpResult(Generic[Value]):
    """What an hvp returns.

    Attributes:
        gradients: as a pullback gives them.
        hvp: H·v of the same nodes.
        value: the loss's value.
    """

    gradients: Gradients[Value]
    hvp: Gradients[Value]
    value: Array
