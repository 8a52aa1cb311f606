"""A connection on which calls can be lost, for tests of what a tape does then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import backhaul as bh
from backhaul.targets import Target
from backhaul.transport import Array, Reply
from backhaul.transport.embedded import EmbeddedTransport
from backhaul_proto import codec
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Execute
from backhaul_proto.v1 import service_pb2


class FlakyTransport(EmbeddedTransport):
    """The embedded transport, remembering requests, and losing or failing them when told to.

    Attributes:
        requests: every Execute that reached the server.
        lose: what happens to the next calls, one entry a call: "request" and "answer" are lost on the
            way; "late": the request stays on the way, and "first late" lets the first of those arrive
            before this call; an exception is raised before anything is sent; None: all goes well.
    """

    def __init__(self) -> None:
        super().__init__(Target("embedded", "embedded"))
        self.requests: list[Execute] = []
        self.lose: list[str | BaseException | None] = []
        self.late: list[Any] = []

    def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        fate = self.lose.pop(0) if self.lose else None
        if isinstance(fate, BaseException):
            try:
                raise fate
            finally:
                del fate  # else it would refer to itself through this frame, and keep tensors alive
        if fate == "late":
            self.late.append((method, header, tensors, reply, timeout, session))
            raise make_error("UNAVAILABLE", "The request was lost.")
        if fate == "first late":
            super()._call(*self.late.pop(0))
        if fate == "request":
            raise make_error("UNAVAILABLE", "The request was lost.")
        if method == "Execute":
            message = codec.parse(service_pb2.ExecuteRequest, header)
            self.requests.append(codec.read_execute(message, tensors))
        answer = super()._call(method, header, tensors, reply, timeout, session)
        if fate == "answer":
            raise make_error("UNAVAILABLE", "The answer was lost.")
        return answer


@contextmanager
def flaky() -> Iterator[tuple[bh.Tape, FlakyTransport]]:
    """A tape on such a connection, and its transport."""
    transport = FlakyTransport()
    with bh.connect("embedded") as connection:
        connection._transport = transport
        yield bh.Tape(connection), transport


def blocks(transport: FlakyTransport) -> list[Any]:
    """The blocks that reached the server, decoded; None for a request without, or with a hash alone."""
    return [
        None
        if each.block is None or each.block.block is None
        else codec.read_block(each.block.block)
        for each in transport.requests
    ]
