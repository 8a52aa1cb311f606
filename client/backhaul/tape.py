"""The tape: what a user records on and asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, NoReturn, overload

import numpy as np
from numpy.typing import ArrayLike

from backhaul.connection import Connection, default_connection
from backhaul.constants import Content, content_of, frozen
from backhaul.core import Core
from backhaul.gradients import Gradients, HvpResult, PushforwardResult
from backhaul.kept import Kept
from backhaul.leaves import array_of, record_leaf, record_leaf_with_tangent
from backhaul.limits import byte_limit
from backhaul.questions import (
    Asked,
    find_node,
    hvp_question,
    pullback_question,
    pushforward_question,
)
from backhaul.recording import record
from backhaul.signatures import NodeType, signature
from backhaul.tensor import SMALL, TrackedTensor
from backhaul_proto.catalog.ops import get
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Answer, GradientSet, asked_node

Array = np.ndarray[Any, Any]
Node = TrackedTensor | int
"""A tensor of the tape, or its node_id."""
Direction = Mapping[TrackedTensor, Any] | Mapping[int, Any] | Mapping[Node, Any]
"""Tangents by leaf. (A mapping's key type is invariant, so each kind is named.)"""

_STOP_GRADIENT: Final = get("stop_gradient")


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

    def leaf(self, value: ArrayLike | TrackedTensor) -> TrackedTensor:
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
        return self._made_leaf(value, *record_leaf(self, value))

    def leaf_with_tangent(
        self, value: ArrayLike | TrackedTensor, tangent: ArrayLike | TrackedTensor
    ) -> TrackedTensor:
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
        return self._made_leaf(value, *record_leaf_with_tangent(self, value, tangent))

    def constant(self, value: ArrayLike | TrackedTensor) -> TrackedTensor:
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
            return record(_STOP_GRADIENT, (value,))
        return self._constant(content_of(array_of(value, "The constant")))

    # Asking

    @overload
    def pullback(
        self,
        loss: Node,
        *,
        cotangent: TrackedTensor | Array | complex | None = None,
        wrt: Iterable[Node] | None = None,
        fetch: Literal[True] = True,
    ) -> Gradients[Array]: ...
    @overload
    def pullback(
        self,
        loss: Node,
        *,
        cotangent: TrackedTensor | Array | complex | None = None,
        wrt: Iterable[Node] | None = None,
        fetch: Literal[False],
    ) -> Gradients[TrackedTensor]: ...
    @overload
    def pullback(
        self,
        loss: Node,
        *,
        cotangent: Any = None,
        wrt: Iterable[Node] | None = None,
        fetch: bool = True,
    ) -> Any: ...
    def pullback(
        self,
        loss: Node,
        *,
        cotangent: Any = None,
        wrt: Iterable[Node] | None = None,
        fetch: bool = True,
    ) -> Any:
        """The gradients of a loss. Changes nothing: ask as often as you like, and record on.

        Args:
            loss: a real tensor of one element; of any shape and dtype with ``cotangent``.
            cotangent: of the loss's exact shape and dtype (Python numbers and lists take its dtype): the
                gradients are those of Re sum(conj(cotangent) * loss). A list of cotangents is answered by
                a list of gradients, in one round trip.
            wrt: the tensors that gradients are wanted for, with zeros where the loss does not depend on
                one. Left out: every leaf that the loss depends on.
            fetch: whether the gradients are sent here, as arrays. False: they stay on the server, as
                constants of this tape, to be used in further steps: tensors in place of arrays. Without
                ``wrt``, leaves that were dropped or released get none then.

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
        value = None if fetch else self._value_later(loss, asked)
        answer, kept = self._ask_gradients(loss, asked, fetch)
        found = [
            Gradients(self, self._by_node(each, kept), _value(answer) if value is None else value)
            for each in answer.sets
        ]
        if kept is not None:
            kept.handed_over()
        return found if asked.many else found[0]

    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Direction | None = None,
        wrt: Iterable[Node] | None = None,
        fetch: Literal[True] = True,
    ) -> HvpResult[Array]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Direction | None = None,
        wrt: Iterable[Node] | None = None,
        fetch: Literal[False],
    ) -> HvpResult[TrackedTensor]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Sequence[Direction],
        wrt: Iterable[Node] | None = None,
        fetch: Literal[True] = True,
    ) -> list[HvpResult[Array]]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Sequence[Direction],
        wrt: Iterable[Node] | None = None,
        fetch: Literal[False],
    ) -> list[HvpResult[TrackedTensor]]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Any = None,
        wrt: Iterable[Node] | None = None,
        fetch: bool,
    ) -> Any: ...
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Any = None,
        wrt: Iterable[Node] | None = None,
        fetch: bool = True,
    ) -> Any:
        """The gradients of a loss and its Hessian times a direction v. Changes nothing.

        Args:
            loss: a real tensor of one element.
            tangents: the direction: tangents by leaf, zero for all other leaves. A list of directions is
                answered by a list, in one round trip. Left out: the tangents that the leaves were made
                with.
            wrt: as for `pullback`.
            fetch: as for `pullback`: False leaves gradients and H·v on the server.

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
        answer, kept = self._ask_gradients(loss, asked, fetch)
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

    def _made_leaf(
        self, value: object, node: int, type_: NodeType, array: Array | None
    ) -> TrackedTensor:
        tensor = TrackedTensor(self, node, type_)
        if isinstance(value, TrackedTensor):
            tensor._value = value._value
        elif array is not None and array.nbytes <= SMALL:
            tensor._value = array
        return tensor

    def _ask(self, loss: Node, asked: Asked, kept: Kept | None = None) -> Answer:
        answer = self._core.ask((), asked.question, kept)
        value = answer.loss_value
        if isinstance(loss, TrackedTensor) and value is not None and value.nbytes <= SMALL:
            loss._value = value.copy()
        return answer

    def _ask_gradients(self, loss: Node, asked: Asked, fetch: bool) -> tuple[Answer, Kept | None]:
        """The answer, and what keeps the gradients if they are not sent: until there are tensors of them."""
        kept = None if fetch else Kept(self._dropped)
        return self._ask(loss, asked, kept), kept

    def _by_node(
        self, found: GradientSet, kept: Kept | None, *, hvps: bool = False
    ) -> dict[int, Any]:
        """Gradients, or H·v, by the nodes that they are of: arrays or, where they are kept, tensors."""
        made: Sequence[Any] = found.hvps if hvps else found.gradients
        if kept is not None:
            ids = found.kept_hvps if hvps else found.kept
            made = [TrackedTensor(self, each, kept.types[each]) for each in ids]
        return dict(zip(found.nodes, made, strict=True))

    def _value_later(self, loss: Node, asked: Asked) -> TrackedTensor | None:
        """A loss of many elements as a constant: its value is not sent, and its graph not kept for it."""
        node = asked_node(asked.question)
        type_ = find_node(self, loss, "The loss")[1]
        if type_.aval.size == 1:
            return None
        found = signature(_STOP_GRADIENT, (), (type_,))
        if self._recorder.next_id >= self._recorder.full_at:
            self._core.flush()
        return TrackedTensor(self, self._recorder.step(found, [node]), found.results[0])


def _value(answer: Answer) -> Array:
    """The loss's value, as an array of the caller's own."""
    assert answer.loss_value is not None
    return answer.loss_value.copy()
