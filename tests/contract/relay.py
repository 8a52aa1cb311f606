"""A server of another version: today's, behind one that knows only what that version does."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from tests.contract.versions import Protocol

from backhaul_proto.messages import SERVICE


class Relay(grpc.GenericRpcHandler):
    """Reads each message, drops what it does not know, and hands the rest on, both ways.

    Attributes:
        called: the methods that were called, also those that it does not have.
    """

    def __init__(self, channel: grpc.Channel, protocol: Protocol) -> None:
        self._channel = channel
        self._protocol = protocol
        self.called: list[str] = []

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]
        self.called.append(name)
        method = self._protocol.methods.get(name)
        if method is None:
            return None  # gRPC answers UNIMPLEMENTED, as a server without the method does
        path = f"/{SERVICE}/{name}"
        if method.client_streaming:
            onward: Any = self._channel.stream_stream(path)
            return grpc.stream_stream_rpc_method_handler(
                lambda messages, context: self._stream(method, onward, messages, context)
            )
        onward = self._channel.unary_unary(path)
        return grpc.unary_unary_rpc_method_handler(
            lambda message, context: self._call(method, onward, message, context)
        )

    def _call(self, method: Any, onward: Any, message: bytes, context: Any) -> bytes:
        request = self._protocol.carry(method.input_type.name, message)
        try:
            answer = onward(request, metadata=_metadata(context), timeout=context.time_remaining())
        except grpc.RpcError as error:
            _pass_on(error, context)
        return self._protocol.carry(method.output_type.name, answer)

    def _stream(
        self, method: Any, onward: Any, messages: Iterator[bytes], context: Any
    ) -> Iterator[bytes]:
        carried = (self._protocol.carry(method.input_type.name, each) for each in messages)
        try:
            for each in onward(
                carried, metadata=_metadata(context), timeout=context.time_remaining()
            ):
                yield self._protocol.carry(method.output_type.name, each)
        except grpc.RpcError as error:
            _pass_on(error, context)


def _metadata(context: Any) -> list[tuple[str, str]]:
    return [
        (key, value) for key, value in context.invocation_metadata() if key == "backhaul-session"
    ]


def _pass_on(error: Any, context: Any) -> None:
    context.set_trailing_metadata(error.trailing_metadata())
    context.abort(error.code(), error.details())


@contextmanager
def relaying(target: str, protocol: Protocol) -> Iterator[tuple[str, Relay]]:
    """A server of this version: where it is, and what it notes."""
    unlimited = [("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(target.removeprefix("grpc://"), unlimited) as channel:
        relay = Relay(channel, protocol)
        server = grpc.server(ThreadPoolExecutor(8, "relay"), [relay], options=unlimited)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"grpc://127.0.0.1:{port}", relay
        finally:
            server.stop(None).wait()
