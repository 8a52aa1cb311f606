"""What every tape does without asking: recording, and letting go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, NoReturn, Self, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from backhaul.constants import Content, content_of
from backhaul.core import Core
from backhaul.gradients import Gradients, HvpResult, PushforwardResult
from backhaul.kept import Kept
from backhaul.leaves import RecordedLeaf, array_of, record_leaf, record_leaf_with_tangent
from backhaul.questions import Asked, find_node
from backhaul.recording import record
from backhaul.signatures import signature
from backhaul.tensor import SMALL, STOP_GRADIENT, TrackedTensor
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Answer, GradientSet, asked_node

Array = np.ndarray[Any, Any]
Node = TrackedTensor | int
"""A tensor of the tape, or its node_id."""
Direction = Mapping[TrackedTensor, Any] | Mapping[int, Any] | Mapping[Node, Any]
"""Tangents by leaf. (A mapping's key type is invariant, so each kind is named.)"""

T = TypeVar("T", bound=TrackedTensor)


class Wanted(NamedTuple):
    """A tensor whose value is wanted, its node, and the value where it is known here."""

    tensor: TrackedTensor
    node: int
    known: Array | None


def unknown(wanted: Iterable[Wanted]) -> tuple[int, ...]:
    """The nodes whose values are to be asked."""
    return tuple(dict.fromkeys(each.node for each in wanted if each.known is None))


class AnyTape(ABC, Generic[T]):
    """A tape, whether its questions are waited for or awaited.

    Args:
        core: what stands behind it.
        kind: the class of its tensors.
    """

    def __init__(self, core: Core, kind: type[T]) -> None:
        self._core = core
        self._kind = kind
        # A hop less where it counts: for each step, and for each handle that goes.
        self._recorder = core.recorder
        self._dropped = core.dropped

    # Recording

    def leaf(self, value: ArrayLike | TrackedTensor) -> T:
        """Put a value on the tape that gradients are taken for.

        Args:
            value: an array of any shape and memory order, of float32, float64, complex64 or complex128;
                or Python numbers or lists of them, which become float64 or complex128. It is copied. Or a
                tensor of this tape, of such a dtype: its numbers stay on the server, and nothing of how
                it was computed is kept.

        Raises:
            InvalidArgument: DTYPE_NOT_SUPPORTED for another dtype.
            MissingNode: a tensor of another tape, or one that was released.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().leaf(3.14).requires_grad
            True
        """
        return self._made(value, record_leaf(self, value))

    def leaf_with_tangent(
        self, value: ArrayLike | TrackedTensor, tangent: ArrayLike | TrackedTensor
    ) -> T:
        """Put a value on the tape with its part of the direction v, for `hvp`.

        Args:
            value: as for `leaf`.
            tangent: of the same shape and dtype, an array or a tensor; Python numbers and lists take the
                value's dtype.

        Raises:
            TangentShapeMismatch: another shape: tangents never broadcast.
            InvalidArgument: DTYPE_NOT_SUPPORTED, TANGENT_DTYPE_MISMATCH.
            MissingNode: a tensor of another tape, or one that was released.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().leaf_with_tangent([1.0, 2.0], [0.0, 1.0]).has_tangent
            True
        """
        return self._made(value, record_leaf_with_tangent(self, value, tangent))

    def constant(self, value: ArrayLike | TrackedTensor) -> T:
        """Put a value on the tape that no gradient is taken for. Equal arrays are sent once.

        Args:
            value: an array of any supported dtype, integers and bools too; or Python numbers or lists. Of
                a tensor of this tape: the same as its `detach()`.

        Raises:
            InvalidArgument: DTYPE_NOT_SUPPORTED, INVALID_VALUE.
            MissingNode: a tensor of another tape, or one that was released.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().constant([1.0, 2.0]).node_id is None
            True
        """
        if isinstance(value, TrackedTensor):
            find_node(self, value, "The constant's value")
            return cast("T", record(STOP_GRADIENT, (value,)))
        return self._constant(content_of(array_of(value, "The constant")))

    # Letting go

    def release(self, *tensors: TrackedTensor) -> None:
        """Let the server free tensors; dropping their last reference does the same.

        Memory goes when nothing that lives needs it for a gradient.

        Raises:
            MissingNode: one is on another tape, or was released before; then none is released.
            InvalidArgument: INVALID_VALUE for what is no tensor.
        """
        self._core.check_usable()
        for position, each in enumerate(tensors):
            if not isinstance(each, TrackedTensor):
                raise make_error(
                    "INVALID_VALUE",
                    f"release() was given {each!r:.100}; it takes tensors, one argument each.",
                )
            find_node(self, each, f"Tensor {position}")
        for each in dict.fromkeys(tensors):
            node = each._id
            each._id = -node  # first: an interrupt between may not lead to its being dropped twice
            self._dropped.append(node)
            each._value = None

    def clone(self) -> Self:
        """A further reference to this tape."""
        return self

    __copy__ = clone

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise TypeError(
            f"{self} cannot be copied: its session is one. Make a new tape and record on it."
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self} cannot be pickled: its session belongs to this process. Send arrays "
            "(tensor.numpy()), and make a tape where they arrive."
        )

    def __del__(self) -> None:
        try:
            self._core.forget()
        except AttributeError:
            return  # it was only half made

    def __repr__(self) -> str:
        return self._core.name

    # For tensors

    def _constant(self, content: Content) -> T:
        tensor = self._kind(self, self._core.constant(content), content.type)
        if content.array.nbytes <= SMALL:
            tensor._value = content.array
        return tensor

    @abstractmethod
    def _fetch(self, *tensors: TrackedTensor) -> list[Array]:
        """The values of tensors, each an array of the caller's own, for what cannot await them."""

    @abstractmethod
    def _fetched(self, *tensors: TrackedTensor) -> Any:
        """The same list, awaitable where questions are awaited."""

    def _leaves(self) -> list[int]:
        """The leaves that have a tensor still."""
        with self._recorder.lock:
            return [node for node, type_ in self._recorder.types.items() if type_.is_leaf]

    def _wanted(self, tensors: Sequence[TrackedTensor]) -> list[Wanted]:
        """What is known of the values of tensors."""
        self._core.check_usable()
        return [
            Wanted(each, find_node(self, each, "The tensor")[0], each._value) for each in tensors
        ]

    def _values(self, wanted: Sequence[Wanted], answered: Mapping[int, Array]) -> list[Array]:
        """The values of tensors, each an array of the caller's own, once what was not known is there."""
        handed: set[int] = set()
        found = []
        for tensor, node, known in wanted:
            value = answered[node] if known is None else known
            if value.nbytes <= SMALL and tensor._id > 0:  # it may have been released meanwhile
                tensor._value = value
            is_own = value.nbytes > SMALL and node not in handed
            handed.add(node)
            found.append(value if is_own else value.copy())
        return found

    def _made(self, value: object, leaf: RecordedLeaf) -> T:
        tensor = self._kind(self, leaf.node, leaf.type)
        if isinstance(value, TrackedTensor):
            tensor._value = value._value
        elif leaf.array is not None and leaf.array.nbytes <= SMALL:
            tensor._value = leaf.array
        return tensor

    def _value_later(self, asked: Asked) -> T | None:
        """A loss of many elements as a constant: its value is not sent, and its graph not kept for it.

        None where the loss has one element: that comes with the answer.
        """
        node = asked_node(asked.question)
        type_ = find_node(self, node, "The loss")[1]
        if type_.aval.size == 1:
            return None
        found = signature(STOP_GRADIENT, (), (type_,))
        if self._recorder.next_id >= self._recorder.full_at:
            self._core.full()
        return self._kind(self, self._recorder.step(found, [node]), found.results[0])

    # From answers

    def _gradients(
        self, asked: Asked, answer: Answer, kept: Kept | None = None, value: T | None = None
    ) -> Any:
        """The gradients; ``kept`` is what keeps them, ``value`` the loss where its value did not come."""
        found = [
            Gradients(self, self._by_node(each, kept), _value(answer) if value is None else value)
            for each in answer.sets
        ]
        if kept is not None:
            kept.handed_over()
        return found if asked.many else found[0]

    def _hvps(self, asked: Asked, answer: Answer, kept: Kept | None = None) -> Any:
        found = [
            HvpResult(
                Gradients(self, self._by_node(each, kept), _value(answer)),
                Gradients(self, self._by_node(each, kept, hvps=True), _value(answer)),
                _value(answer),
            )
            for each in answer.sets
        ]
        if kept is not None:
            kept.handed_over()
        return found if asked.many else found[0]

    def _by_node(
        self, found: GradientSet, kept: Kept | None, *, hvps: bool = False
    ) -> dict[int, Any]:
        """Gradients, or H·v, by the nodes that they are of: arrays or, where they are kept, tensors."""
        made: Sequence[Any] = found.hvps if hvps else found.gradients
        if kept is not None:
            ids = found.kept_hvps if hvps else found.kept
            made = [self._kind(self, each, kept.types[each]) for each in ids]
        return dict(zip(found.nodes, made, strict=True))

    def _pushed(self, asked: Asked, answer: Answer) -> Any:
        found = [PushforwardResult(_value(answer), each) for each in answer.tangents]
        return found if asked.many else found[0]

    def _noted(self, loss: Node, answer: Answer) -> Answer:
        """The answer, its value kept with the loss."""
        value = answer.loss_value
        if isinstance(loss, TrackedTensor) and value is not None and value.nbytes <= SMALL:
            loss._value = value.copy()
        return answer


def _value(answer: Answer) -> Array:
    """The loss's value, as an array of the caller's own."""
    assert answer.loss_value is not None
    return answer.loss_value.copy()
