"""The tape: what a user records on and asks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, overload

from backhaul.any_tape import AnyTape, Array, Direction, Node, unknown
from backhaul.connection import Connection, default_connection
from backhaul.core import BlockingCore
from backhaul.gradients import Gradients, HvpResult, PushforwardResult
from backhaul.kept import Kept
from backhaul.limits import byte_limit, device_name, lease_seconds, node_count
from backhaul.questions import (
    Asked,
    find_node,
    hvp_question,
    pullback_question,
    pushforward_question,
)
from backhaul.sight.blame import Blame, blame
from backhaul.sight.explain import Explanation, explain
from backhaul.sight.graph import Graph, graph_of
from backhaul.sight.profile import BlockingProfile
from backhaul.sight.show import BOXES, Picture, picture
from backhaul.tensor import TrackedTensor
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Answer


class Tape(AnyTape[TrackedTensor]):
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
        lease: seconds that the tape lives on the server when that hears nothing of this process any more: it
            was killed, or cut off. While it runs, leases are renewed by themselves. Left out, or above the
            server's own (``connection.info().limits.lease_seconds``): that.
        device: where the tape computes, such as ``"cuda:0"`` or ``"cpu"``: its arrays stay there, from leaves
            to gradients. ``connection.info().devices`` tells which the server has. Left out: the first of
            them. A name that it has not is refused by the first request (InvalidArgument, UNKNOWN_DEVICE).

    Raises:
        InvalidArgument: INVALID_VALUE for what is no connection, no number of bytes or seconds, or no name.

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

    _core: BlockingCore

    def __init__(
        self,
        connection: Connection | None = None,
        *,
        memory_limit: int | None = None,
        lease: float | None = None,
        device: str | None = None,
    ) -> None:
        if connection is not None and not isinstance(connection, Connection):
            raise make_error(
                "INVALID_VALUE",
                f"A tape is made on a connection, and {connection!r:.100} is none. Write "
                "bh.Tape(bh.connect('host:port')), or bh.Tape() for the default one.",
            )
        limit = 0 if memory_limit is None else byte_limit(memory_limit)
        seconds = 0.0 if lease is None else lease_seconds(lease)
        name = "" if device is None else device_name(device)
        core = BlockingCore(connection or default_connection(), limit, seconds, name)
        super().__init__(core, TrackedTensor)

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
        if fetch:
            return self._gradients(asked, self._ask(loss, asked))
        value = self._value_later(asked)
        with Kept(self._dropped) as kept:
            return self._gradients(asked, self._ask(loss, asked, kept), kept, value)

    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Direction | None = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[True] = True,
    ) -> HvpResult[Array]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Direction | None = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[False],
    ) -> HvpResult[TrackedTensor]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Sequence[Direction],
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[True] = True,
    ) -> list[HvpResult[Array]]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Sequence[Direction],
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[False],
    ) -> list[HvpResult[TrackedTensor]]: ...
    @overload
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Any = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: bool,
    ) -> Any: ...
    def hvp(
        self,
        loss: Node,
        *,
        tangents: Any = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: bool = True,
    ) -> Any:
        """The gradients of a loss and its Hessian times a direction v. Changes nothing.

        Args:
            loss: a real tensor of one element.
            tangents: the direction: tangents by leaf, zero for all other leaves. A list of directions is
                answered by a list, in one round trip. Left out: the tangents that the leaves were made
                with.
            wrt: as for `pullback`.
            linear: tensors that are taken as linear functions of the leaves: H·v is then the Gauss-Newton
                product, Jᵀ·H·J·v with J the Jacobian of these tensors and H the Hessian of the loss as a
                function of them.
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
        asked = hvp_question(self, loss, tangents, wrt, linear)
        if fetch:
            return self._hvps(asked, self._ask(loss, asked))
        with Kept(self._dropped) as kept:
            return self._hvps(asked, self._ask(loss, asked, kept), kept)

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
        found: PushforwardResult | list[PushforwardResult] = self._pushed(
            asked, self._ask(output, asked)
        )
        return found

    def flush(self) -> None:
        """Send what was recorded, without a question.

        The next question sends it in any case, and so does what is recorded when it is much.

        Raises:
            BackhaulError: the server refused it, or cannot be reached.

        Example:
            >>> import backhaul as bh
            >>> tape = bh.Tape()
            >>> x = tape.leaf([1.0, 2.0])
            >>> tape.flush()
        """
        self._core.flush()

    # Sight

    def explain(self, loss: Node) -> Explanation:
        """Which leaves a loss reaches, through which steps, and why it does not reach the others.

        Takes one round trip. The loss may be any tensor of the tape, a constant too: then it says why no
        gradient flows.

        Args:
            loss: the tensor.

        Raises:
            MissingNode: it is of another tape, or released.
            VersionMismatch: the server is of a version that does not tell.

        Example:
            >>> import backhaul as bh
            >>> tape = bh.Tape()
            >>> x, y, z = tape.leaf([1.0, 2.0]), tape.leaf(3.0), tape.leaf(4.0)
            >>> found = tape.explain(bh.sum(x * y.detach()))
            >>> [each.node for each in found.reached], [each.why for each in found.unreached]
            ([1], ['detached', 'unused'])
        """
        node = find_node(self, loss, "The loss")[0]
        return explain(self._looked(), node, self._leaves())

    def blame(self, tensor: Node) -> Blame:
        """Where the NaN and Inf of a tensor came from: the first steps that made them of finite operands.

        Takes one round trip. The server reads all values that the tape holds for it.

        Args:
            tensor: the tensor.

        Raises:
            MissingNode, VersionMismatch: as `explain`.

        Example:
            >>> import backhaul as bh
            >>> tape = bh.Tape()
            >>> x = tape.leaf([1.0, 0.0])
            >>> loss = bh.sum(bh.log(x) * x)
            >>> tape.blame(loss).first.op
            'log'
        """
        node = find_node(self, tensor, "The tensor")[0]
        return blame(self._looked(), node)

    def profile(self) -> BlockingProfile:
        """What steps and their derivatives take on the server: measured while it is entered, else never.

        Steps that were recorded before and not sent yet count too. At its end what was recorded is sent.

        Returns:
            A context manager: afterwards it prints as tables, and has `Profile.rows`.

        Example:
            >>> import numpy as np, backhaul as bh
            >>> tape = bh.Tape()
            >>> with tape.profile() as profile:
            ...     x = tape.leaf(np.ones((100, 100)))
            ...     grads = tape.pullback(bh.sum(bh.exp(x @ x)))
            >>> sorted(row.op for row in profile.by_op), profile.seconds > 0
            (['exp', 'matmul', 'sum'], True)
        """
        self._core.check_usable()
        return BlockingProfile(self._core)

    def show(self, loss: Node | None = None, *, max_nodes: int = BOXES) -> Picture:
        """The tape's graph: in a notebook a drawing, in a terminal a table (in a program: print it).

        Takes one round trip. Colours, and ms, are of what was measured within `profile`.

        Args:
            loss: show what it was computed from alone; left out: all that the server holds.
            max_nodes: so many at most, those recorded last.

        Raises:
            MissingNode, VersionMismatch: as `explain`.
            InvalidArgument: INVALID_VALUE for what is no number of nodes.

        Example:
            >>> import backhaul as bh
            >>> tape = bh.Tape()
            >>> x = tape.leaf([1.0, 2.0])
            >>> loss = bh.sum(bh.exp(x))
            >>> print(tape.show())  # doctest: +ELLIPSIS
            node  op    from  type           bytes  ms  value  where
               1  leaf        float64[2]  16 bytes ...
               2  exp   1     float64[2]  16 bytes ...
               3  sum   2     float64[]    8 bytes ...
        """
        node = None if loss is None else find_node(self, loss, "The loss")[0]
        return picture(self._looked(), node, node_count(max_nodes))

    def _looked(self) -> Graph:
        return graph_of(self._core, self._core.ask(sight=True))

    # Its end

    def close(self) -> None:
        """Close the session and free all that it holds. Closing again does nothing."""
        self._core.close()

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # For tensors

    def _ask(self, loss: Node, asked: Asked, kept: Kept | None = None) -> Answer:
        return self._noted(loss, self._core.ask((), asked.question, kept))

    def _fetch(self, *tensors: TrackedTensor) -> list[Array]:
        """The values of tensors: one round trip for all that are not known here."""
        wanted = self._wanted(tensors)
        nodes = unknown(wanted)
        answered = self._core.ask(nodes).values if nodes else ()
        return self._values(wanted, dict(zip(nodes, answered, strict=True)))

    def _fetched(self, *tensors: TrackedTensor) -> list[Array]:
        return self._fetch(*tensors)
