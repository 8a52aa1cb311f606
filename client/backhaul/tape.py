"""The tape: what a user records on and asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike

from backhaul.connection import Connection, default_connection
from backhaul.constants import Content, content_of, frozen
from backhaul.core import Core
from backhaul.gradients import Gradients, HvpResult, PushforwardResult
from backhaul.limits import byte_limit
from backhaul.questions import (
    Asked,
    find_node,
    hvp_question,
    pullback_question,
    pushforward_question,
    tangent_array,
)
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

_LEAF: Final = Call(LEAF)
_LEAF_WITH_TANGENT: Final = Call(LEAF_WITH_TANGENT)


class Tape:
    """A reverse-mode tape on a server.

    Operations on its tensors are recorded; nothing is sent until a value, a gradient or a Hessian-vector
    product is asked for. Then everything recorded travels with the question, in one round trip. The tape
    is a context manager: at its end it is closed. Threads may share it; processes may not.

    Args:
        connection: where to; left out: ``$BACKHAUL_TARGET``, else a server inside this process.
        memory_limit: bytes that the tape may use on the server, for what it holds and what stands beside
            that while it computes. What would take more is refused before it is run
            (MemoryLimitExceeded), and the tape lives on. Left out, or above the server's own limit for a
            session (``connection.info().limits.session_memory``): that.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no connection, or no number of bytes.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a, b = tape.leaf(np.ones((2, 3))), tape.leaf(np.ones((3, 4)))
        >>> c = bh.einsum("ij,jk->ik", a, b)
        >>> grads = tape.pullback(bh.einsum("ij,ij->", c, c))
        >>> grads[a]
        array([[24., 24., 24.],
               [24., 24., 24.]])
    """

    def __init__(
        self, connection: Connection | None = None, *, memory_limit: int | None = None
    ) -> None:
        if connection is not None and not isinstance(connection, Connection):
            raise make_error(
                "INVALID_VALUE",
                f"A tape is made on a connection, and {connection!r:.100} is none. Write "
                "bh.Tape(bh.connect('host:port')), or bh.Tape() for the default one.",
            )
        limit = 0 if memory_limit is None else byte_limit(memory_limit)
        self._core = Core(connection or default_connection(), limit)
        # A hop less where it counts: for each step, and for each handle that goes.
        self._recorder = self._core.recorder
        self._dropped = self._core.dropped

    # Recording

    def leaf(self, value: ArrayLike) -> TrackedTensor:
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

    def leaf_with_tangent(self, value: ArrayLike, tangent: ArrayLike) -> TrackedTensor:
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

    def constant(self, value: ArrayLike) -> TrackedTensor:
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

    # Asking

    @overload
    def pullback(
        self,
        loss: Node,
        *,
        cotangent: TrackedTensor | Array | complex | None = None,
        wrt: Iterable[Node] | None = None,
    ) -> Gradients: ...
    @overload
    def pullback(
        self, loss: Node, *, cotangent: Sequence[Any], wrt: Iterable[Node] | None = None
    ) -> Any: ...
    def pullback(
        self, loss: Node, *, cotangent: Any = None, wrt: Iterable[Node] | None = None
    ) -> Any:
        """The gradients of a loss. Changes nothing: ask as often as you like, and record on.

        Args:
            loss: a real tensor of one element; of any shape and dtype with ``cotangent``.
            cotangent: of the loss's exact shape and dtype (Python numbers and lists take its dtype): the
                gradients are those of Re sum(conj(cotangent) * loss). A list of cotangents is answered by
                a list of gradients, in one round trip.
            wrt: the tensors that gradients are wanted for, with zeros where the loss does not depend on
                one. Left out: every leaf that the loss depends on.

        Returns:
            Gradients by node. That of a complex leaf is dL/dRe + i dL/dIm (JAX's is its conjugate).

        Raises:
            MissingNode: the loss is of another tape, released, or requires no gradient.
            NonScalarLoss: it has more or less than one element.
            InvalidArgument: COMPLEX_LOSS, COTANGENT_MISMATCH.

        Example:
            >>> import backhaul as bh
            >>> tape = bh.Tape()
            >>> x = tape.leaf([1.0, 2.0])
            >>> tape.pullback(bh.sum(x * x))[x]
            array([2., 4.])
            >>> tape.pullback(x * x, cotangent=[1.0, 0.0])[x]
            array([2., 0.])
        """
        self._core.take_dropped()
        asked = pullback_question(self, loss, cotangent, wrt)
        if asked.is_empty:
            return []
        answer = self._ask(loss, asked)
        found = [
            Gradients(self, dict(zip(each.nodes, each.gradients, strict=True)), _value(answer))
            for each in answer.sets
        ]
        return found if asked.many else found[0]

    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Direction | None = None,
        wrt: Iterable[Node] | None = None,
    ) -> HvpResult: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Sequence[Direction],
        wrt: Iterable[Node] | None = None,
    ) -> list[HvpResult]: ...
    def hvp(
        self, loss: Node, *, tangents: Any = None, wrt: Iterable[Node] | None = None
    ) -> HvpResult | list[HvpResult]:
        """The gradients of a loss and its Hessian times a direction v. Changes nothing.

        Args:
            loss: a real tensor of one element.
            tangents: the direction: tangents by leaf, zero for all other leaves. A list of directions is
                answered by a list, in one round trip. Left out: the tangents that the leaves were made
                with.
            wrt: as for `pullback`.

        Returns:
            The gradients, as `pullback` gives them, and H·v of the same nodes.

        Raises:
            MissingNode, NonScalarLoss: as `pullback`.
            HvpNotSupported: an op on the way has no second-order rule.
            TangentShapeMismatch: a tangent has another shape than its leaf.
            InvalidArgument: HVP_WITHOUT_TANGENT when there is no direction; COMPLEX_LOSS;
                TANGENT_DTYPE_MISMATCH; INVALID_VALUE for a tangent of what is no leaf.

        Example:
            >>> import backhaul as bh
            >>> tape = bh.Tape()
            >>> x = tape.leaf([1.0, 2.0])
            >>> tape.hvp(bh.sum(x * x * x), tangents={x: [1.0, 1.0]}).hvp[x]
            array([ 6., 12.])
        """
        self._core.take_dropped()
        asked = hvp_question(self, loss, tangents, wrt)
        answer = self._ask(loss, asked)
        found = [
            HvpResult(
                Gradients(self, dict(zip(each.nodes, each.gradients, strict=True)), _value(answer)),
                Gradients(self, dict(zip(each.nodes, each.hvps, strict=True)), _value(answer)),
                _value(answer),
            )
            for each in answer.sets
        ]
        return found if asked.many else found[0]

    @overload
    def pushforward(
        self, output: Node, *, tangents: Direction | None = None
    ) -> PushforwardResult: ...
    @overload
    def pushforward(
        self, output: Node, *, tangents: Sequence[Direction]
    ) -> list[PushforwardResult]: ...
    def pushforward(
        self, output: Node, *, tangents: Any = None
    ) -> PushforwardResult | list[PushforwardResult]:
        """The tangent of an output along a direction v, J·v: forward only. Changes nothing.

        Args:
            output: a tensor of any shape and dtype that was computed from leaves.
            tangents: as for `hvp`: the direction, or a list of directions, answered by a list in one
                round trip.

        Returns:
            The output's value, and its tangent: zeros where it depends on no leaf of the direction.

        Raises:
            MissingNode: the output is of another tape, released, or requires no gradient.
            HvpNotSupported: an op on the way has no forward-mode rule.
            TangentShapeMismatch, InvalidArgument: as `hvp`.

        Example:
            >>> import backhaul as bh
            >>> tape = bh.Tape()
            >>> x = tape.leaf([1.0, 2.0])
            >>> tape.pushforward(x * x, tangents={x: [1.0, 0.5]}).tangent
            array([2., 2.])
        """
        self._core.take_dropped()
        asked = pushforward_question(self, output, tangents)
        answer = self._ask(output, asked)
        found = [PushforwardResult(_value(answer), each) for each in answer.tangents]
        return found if asked.many else found[0]

    # Its end

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

    def close(self) -> None:
        """Close the session and free all that it holds. Closing again does nothing."""
        self._core.close()

    def clone(self) -> Tape:
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

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self._core.forget()
        except AttributeError:
            return  # it was only half made

    def __repr__(self) -> str:
        return self._core.name

    # For tensors

    def _constant(self, content: Content) -> TrackedTensor:
        node, array = self._core.constant(content)
        tensor = TrackedTensor(self, node, content.type)
        if array.nbytes <= SMALL:
            is_own = content.frozen or array is not content.array
            tensor._value = array if is_own else frozen(array)
        return tensor

    def _fetch(self, *tensors: TrackedTensor) -> list[Array]:
        """The values of tensors, each an array of the caller's own: one round trip for all not known here."""
        self._core.check_usable()
        nodes = [find_node(self, each, "The tensor")[0] for each in tensors]
        pairs = list(zip(nodes, tensors, strict=True))
        unknown = tuple(dict.fromkeys(node for node, each in pairs if each._value is None))
        values: dict[int, Array] = {}
        if unknown:
            values = dict(zip(unknown, self._core.ask(unknown).values, strict=True))
        handed: set[int] = set()
        found = []
        for node, tensor in pairs:
            value = values[node] if tensor._value is None else tensor._value
            if value.nbytes <= SMALL:
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

    def _leaf(self, call: Call, arrays: Sequence[Array], type_: NodeType) -> TrackedTensor:
        tensor = TrackedTensor(self, self._core.source(call, arrays, type_), type_)
        if arrays[0].nbytes <= SMALL:
            tensor._value = arrays[0]
        return tensor

    def _ask(self, loss: Node, asked: Asked) -> Answer:
        answer = self._core.ask((), asked.question)
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
