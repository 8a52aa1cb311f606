"""A small server of the test's own, that answers every call as told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import status_pb2

from backhaul_proto.v1 import service_pb2

Answer = Callable[[bytes, grpc.ServicerContext], bytes]
INFO = service_pb2.GetServerInfoResponse(version="9").SerializeToString()


class Handlers(grpc.GenericRpcHandler):
    """Every call is answered so."""

    def __init__(self, answer: Answer) -> None:
        self._handler: Any = grpc.unary_unary_rpc_method_handler(answer)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._handler


@contextmanager
def answering(answer: Answer, address: str = "127.0.0.1:0") -> Iterator[str]:
    """Where a server is that gives this answer to every call."""
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(
            pool,
            handlers=[Handlers(answer)],
            options=[
                ("grpc.max_receive_message_length", 10_000),
                ("grpc.max_send_message_length", 10_000),
            ],
        )
        port = server.add_insecure_port(address)
        server.start()
        try:
            yield (
                "unix://" + address.removeprefix("unix:")
                if "unix" in address
                else f"127.0.0.1:{port}"
            )
        finally:
            server.stop(None).wait()


def refusing(
    code: grpc.StatusCode, *details: Any, message: str = "no", words: str = "no"
) -> Answer:
    """A server that refuses every call, with these packed details."""

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        packed = []
        for each in details:
            packed.append(any_pb2.Any())
            packed[-1].Pack(each)
        status = status_pb2.Status(code=code.value[0], message=message, details=packed)
        if details:
            context.set_trailing_metadata(
                (("other", "text"), ("grpc-status-details-bin", status.SerializeToString()))
            )
        context.abort(code, words)
        raise AssertionError

    return answer
