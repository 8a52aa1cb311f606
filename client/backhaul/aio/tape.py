"""The tape whose questions are awaited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, overload

from backhaul import any_tape, tensor
from backhaul.aio.connection import Connection, default_connection
from backhaul.aio.core import AwaitingCore
from backhaul.aio.tensor import TrackedTensor
from backhaul.any_tape import AnyTape, Array, Node, unknown
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
from backhaul.sight.profile import AwaitingProfile
from backhaul.sight.show import BOXES, Picture, picture
from backhaul.unusable import must_be_awaited
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Answer

Direction = Mapping[TrackedTensor, Any] | any_tape.Direction


class Tape(AnyTape[TrackedTensor]):
    """A reverse-mode tape on a server, as `backhaul.Tape`, whose questions are awaited.

    Recording is as ever: at once, and with nothing sent. A tape's questions are answered one after the other;
    tasks may record while one is, and what they record travels with the next. Nothing is sent without a
    question, however much was recorded: see `flush`. A cancelled question is cancelled on the server too, and
    the tape lives on. Made outside of an event loop or within, the tape belongs to the loop of its
    connection. It is an async context manager: at its end it is closed.

    Args:
        connection: from `backhaul.aio.connect`; left out: to ``$BACKHAUL_TARGET``, else to a server inside
            this process.
        memory_limit: as for `backhaul.Tape`.
        lease: as for `backhaul.Tape`. Leases are renewed in the event loop, while it runs.
        device: as for `backhaul.Tape`.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no such connection, no number of bytes or seconds, or no
            name.

    Example:
        >>> import asyncio
        >>> import backhaul.aio as bh
        >>> async def main():
        ...     async with bh.Tape() as tape:
        ...         x = tape.leaf([1.0, 2.0])
        ...         grads = await tape.pullback(bh.sum(x * x))
        ...         return grads[x]
        >>> asyncio.run(main())
        array([2., 4.])
    """

    _core: AwaitingCore

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
                f"A tape of backhaul.aio is made on a connection of backhaul.aio, and {connection!r:.100} "
                "is none. Write bh.Tape(bh.connect('host:port')), or bh.Tape() for the default one, with "
                "bh the module backhaul.aio.",
            )
        limit = 0 if memory_limit is None else byte_limit(memory_limit)
        seconds = 0.0 if lease is None else lease_seconds(lease)
        name = "" if device is None else device_name(device)
        core = AwaitingCore(connection or default_connection(), limit, seconds, name)
        super().__init__(core, TrackedTensor)

    # Asking

    @overload
    async def pullback(
        self,
        loss: Node,
        *,
        cotangent: tensor.TrackedTensor | Array | complex | None = None,
        wrt: Iterable[Node] | None = None,
        fetch: Literal[True] = True,
    ) -> Gradients[Array]: ...
    @overload
    async def pullback(
        self,
        loss: Node,
        *,
        cotangent: tensor.TrackedTensor | Array | complex | None = None,
        wrt: Iterable[Node] | None = None,
        fetch: Literal[False],
    ) -> Gradients[TrackedTensor]: ...
    @overload
    async def pullback(
        self,
        loss: Node,
        *,
        cotangent: Any = None,
        wrt: Iterable[Node] | None = None,
        fetch: bool = True,
    ) -> Any: ...
    async def pullback(
        self,
        loss: Node,
        *,
        cotangent: Any = None,
        wrt: Iterable[Node] | None = None,
        fetch: bool = True,
    ) -> Any:
        """The gradients of a loss; as `backhaul.Tape.pullback`, with the same arguments and errors.

        Arguments are checked, and arrays taken, when it begins to be awaited. With ``fetch=False`` the
        value of a loss of many elements is to be asked of the loss: ``await loss.numpy()``.
        """
        self._core.take_dropped()
        asked = pullback_question(self, loss, cotangent, wrt)
        if asked.is_empty:
            return []
        if fetch:
            return self._gradients(asked, await self._ask(loss, asked))
        value = self._value_later(asked)
        with Kept(self._dropped) as kept:
            return self._gradients(asked, await self._ask(loss, asked, kept), kept, value)

    @overload
    async def hvp(
        self,
        loss: Node,
        *,
        tangents: Direction | None = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[True] = True,
    ) -> HvpResult[Array]: ...
    @overload
    async def hvp(
        self,
        loss: Node,
        *,
        tangents: Direction | None = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[False],
    ) -> HvpResult[TrackedTensor]: ...
    @overload
    async def hvp(
        self,
        loss: Node,
        *,
        tangents: Sequence[Direction],
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[True] = True,
    ) -> list[HvpResult[Array]]: ...
    @overload
    async def hvp(
        self,
        loss: Node,
        *,
        tangents: Sequence[Direction],
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: Literal[False],
    ) -> list[HvpResult[TrackedTensor]]: ...
    @overload
    async def hvp(
        self,
        loss: Node,
        *,
        tangents: Any = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: bool,
    ) -> Any: ...
    async def hvp(
        self,
        loss: Node,
        *,
        tangents: Any = None,
        wrt: Iterable[Node] | None = None,
        linear: Iterable[Node] = (),
        fetch: bool = True,
    ) -> Any:
        """The gradients of a loss and H·v; as `backhaul.Tape.hvp`, with the same arguments and errors.

        Example:
            >>> import asyncio
            >>> import backhaul.aio as bh
            >>> async def main():
            ...     tape = bh.Tape()
            ...     x = tape.leaf([1.0, 2.0])
            ...     return (await tape.hvp(bh.sum(x * x * x), tangents={x: [1.0, 1.0]})).hvp[x]
            >>> asyncio.run(main())
            array([ 6., 12.])
        """
        self._core.take_dropped()
        asked = hvp_question(self, loss, tangents, wrt, linear)
        if fetch:
            return self._hvps(asked, await self._ask(loss, asked))
        with Kept(self._dropped) as kept:
            return self._hvps(asked, await self._ask(loss, asked, kept), kept)

    @overload
    async def pushforward(
        self, output: Node, *, tangents: Direction | None = None
    ) -> PushforwardResult: ...
    @overload
    async def pushforward(
        self, output: Node, *, tangents: Sequence[Direction]
    ) -> list[PushforwardResult]: ...
    async def pushforward(
        self, output: Node, *, tangents: Any = None
    ) -> PushforwardResult | list[PushforwardResult]:
        """J·v; as `backhaul.Tape.pushforward`, with the same arguments and errors.

        Example:
            >>> import asyncio
            >>> import backhaul.aio as bh
            >>> async def main():
            ...     tape = bh.Tape()
            ...     x = tape.leaf([1.0, 2.0])
            ...     return (await tape.pushforward(x * x, tangents={x: [1.0, 0.5]})).tangent
            >>> asyncio.run(main())
            array([2., 2.])
        """
        self._core.take_dropped()
        asked = pushforward_question(self, output, tangents)
        found: PushforwardResult | list[PushforwardResult] = self._pushed(
            asked, await self._ask(output, asked)
        )
        return found

    async def flush(self) -> None:
        """Send what was recorded, without a question.

        The next question sends it in any case. Between leaves of many megabytes, or some ten thousands of
        steps, it keeps messages small.

        Raises:
            BackhaulError: the server refused it, or cannot be reached.
        """
        await self._core.ask()

    # Sight

    async def explain(self, loss: Node) -> Explanation:
        """Which leaves a loss reaches, and why not the others; as `backhaul.Tape.explain`."""
        node = find_node(self, loss, "The loss")[0]
        return explain(await self._looked(), node, self._leaves())

    async def blame(self, tensor: Node) -> Blame:
        """Where the NaN and Inf of a tensor came from; as `backhaul.Tape.blame`."""
        node = find_node(self, tensor, "The tensor")[0]
        return blame(await self._looked(), node)

    def profile(self) -> AwaitingProfile:
        """What steps take on the server, measured while it is entered, with ``async with``.

        Example:
            >>> import asyncio
            >>> import backhaul.aio as bh
            >>> async def main():
            ...     tape = bh.Tape()
            ...     async with tape.profile() as profile:
            ...         x = tape.leaf([1.0, 2.0])
            ...         await tape.pullback(bh.sum(x * x))
            ...     return sorted(row.op for row in profile.by_op)
            >>> asyncio.run(main())
            ['multiply', 'sum']
        """
        self._core.check_usable()
        return AwaitingProfile(self._core)

    async def show(self, loss: Node | None = None, *, max_nodes: int = BOXES) -> Picture:
        """The tape's graph, as a drawing or a table; as `backhaul.Tape.show`."""
        node = None if loss is None else find_node(self, loss, "The loss")[0]
        count = node_count(max_nodes)
        return picture(await self._looked(), node, count)

    async def _looked(self) -> Graph:
        return graph_of(self._core, await self._core.ask(sight=True))

    # Its end

    async def close(self) -> None:
        """Close the session and free all that it holds. Closing again does nothing."""
        await self._core.close()

    async def __aenter__(self) -> Tape:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # For tensors

    async def _ask(self, loss: Node, asked: Asked, kept: Kept | None = None) -> Answer:
        return self._noted(loss, await self._core.ask((), asked.question, kept))

    def _fetch(self, *tensors: tensor.TrackedTensor) -> list[Array]:
        wanted = self._wanted(tensors)
        if unknown(wanted):
            raise must_be_awaited(
                "A value that is needed here at once",
                "Await it, and give what it is needed for: an array in place of a tensor that is a mask, "
                "rank= in place of cutoff=. Functions that ask have a form to be awaited in backhaul.aio.",
            )
        return self._values(wanted, {})

    async def _fetched(self, *tensors: tensor.TrackedTensor) -> list[Array]:
        wanted = self._wanted(tensors)
        nodes = unknown(wanted)
        answered = (await self._core.ask(nodes)).values if nodes else ()
        return self._values(wanted, dict(zip(nodes, answered, strict=True)))
