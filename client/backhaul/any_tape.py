"""What every tape does without asking: recording, and letting go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, NoReturn, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from backhaul.constants import Content, content_of
from backhaul.core import Core
from backhaul.gradients import Gradients, HvpResult, PushforwardResult
from backhaul.questions import Asked, find_node, tangent_array
from backhaul.recording import holds_tensor
from backhaul.signatures import NodeType, node_type
from backhaul.tensor import SMALL, TrackedTensor
from backhaul_proto.catalog.avals import INEXACT, aval
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.errors import make_error
from backhaul_proto.messages import LEAF, LEAF_WITH_TANGENT, Answer, Call

Array = np.ndarray[Any, Any]
Node = TrackedTensor | int
"""A tensor of the tape, or its node_id."""
Direction = Mapping[TrackedTensor, Any] | Mapping[int, Any] | Mapping[Node, Any]
"""Tangents by leaf. (A mapping's key type is invariant, so each kind is named.)"""

T = TypeVar("T", bound=TrackedTensor)

_LEAF: Final = Call(LEAF)
_LEAF_WITH_TANGENT: Final = Call(LEAF_WITH_TANGENT)


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

    def leaf(self, value: ArrayLike) -> T:
        """Put a value on the tape that gradients are taken for.

        Args:
            value: an array of any shape and memory order, of float32, float64, complex64 or complex128;
                or Python numbers or lists of them, which become float64 or complex128. It is copied.

        Raises:
            InvalidArgument: DTYPE_NOT_SUPPORTED for another dtype.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().leaf(3.14).requires_grad
            True
        """
        array = self._differentiable(value)
        kind = aval(array.shape, array.dtype)
        return self._leaf(_LEAF, [array], node_type(kind, True, False, True))

    def leaf_with_tangent(self, value: ArrayLike, tangent: ArrayLike) -> T:
        """Put a value on the tape with its part of the direction v, for `hvp`.

        Args:
            value: as for `leaf`.
            tangent: of the same shape and dtype; Python numbers and lists take the value's dtype.

        Raises:
            TangentShapeMismatch: another shape: tangents never broadcast.
            InvalidArgument: DTYPE_NOT_SUPPORTED, TANGENT_DTYPE_MISMATCH.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().leaf_with_tangent([1.0, 2.0], [0.0, 1.0]).has_tangent
            True
        """
        array = self._differentiable(value)
        kind = aval(array.shape, array.dtype)
        direction = self._core.connection.frozen(tangent_array(tangent, kind))
        return self._leaf(_LEAF_WITH_TANGENT, [array, direction], node_type(kind, True, True, True))

    def constant(self, value: ArrayLike) -> T:
        """Put a value on the tape that no gradient is taken for. Equal ones are sent once.

        Args:
            value: an array of any supported dtype, integers and bools too; or Python numbers or lists.

        Raises:
            InvalidArgument: DTYPE_NOT_SUPPORTED, INVALID_VALUE.

        Example:
            >>> import backhaul as bh
            >>> bh.Tape().constant([1.0, 2.0]).node_id is None
            True
        """
        return self._constant(content_of(_array(value, "The constant")))

    # Its end

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

    def _differentiable(self, value: ArrayLike) -> Array:
        """A copy of a leaf's value."""
        array = _array(value, "The leaf")
        if array.dtype not in INEXACT:
            raise make_error(
                "DTYPE_NOT_SUPPORTED",
                f"A leaf of dtype {array.dtype} has no gradient. Convert it, for example with "
                ".astype('float64'), or make it a constant.",
                actual=array.dtype,
            )
        return self._core.connection.frozen(array)

    def _leaf(self, call: Call, arrays: Sequence[Array], type_: NodeType) -> T:
        tensor = self._kind(self, self._core.source(call, arrays, type_), type_)
        if arrays[0].nbytes <= SMALL:
            tensor._value = arrays[0]
        return tensor

    # From answers

    def _gradients(self, asked: Asked, answer: Answer) -> Any:
        found = [
            Gradients(self, dict(zip(each.nodes, each.gradients, strict=True)), _value(answer))
            for each in answer.sets
        ]
        return found if asked.many else found[0]

    def _hvps(self, asked: Asked, answer: Answer) -> Any:
        found = [
            HvpResult(
                Gradients(self, dict(zip(each.nodes, each.gradients, strict=True)), _value(answer)),
                Gradients(self, dict(zip(each.nodes, each.hvps, strict=True)), _value(answer)),
                _value(answer),
            )
            for each in answer.sets
        ]
        return found if asked.many else found[0]

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


def _array(value: ArrayLike, what: str) -> Array:
    if holds_tensor(value):
        raise make_error(
            "INVALID_VALUE",
            f"{what} is a list with tensors in it, which would lose their gradients. Join them with "
            "bh.stack([...]), or give their values, tensor.numpy().",
            operand=what,
        )
    return as_array(value, what=what)
