"""The gRPC transport against a small server of the test's own, that answers as told."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from tests.client.answering import INFO, Answer, Handlers, answering, refusing

import backhaul as bh
from backhaul.targets import parse_target
from backhaul.transport.grpc import GrpcTransport
from backhaul_proto.errors import REASONS
from backhaul_proto.messages import Limits
from backhaul_proto.v1 import service_pb2


@contextmanager
def served(answer: Answer, address: str = "127.0.0.1:0", **options: Any) -> Iterator[GrpcTransport]:
    """A transport to a server that gives this answer to every call."""
    with answering(answer, address) as target:
        transport = GrpcTransport(parse_target(target), **options)
        try:
            yield transport
        finally:
            transport.close()


def info(transport: GrpcTransport, timeout: float | None = 30) -> str:
    return transport.server_info(timeout=timeout).version


def test_the_session_and_the_token_travel_as_metadata() -> None:
    seen: list[dict[str, Any]] = []

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        seen.append(dict(context.invocation_metadata()))
        return b""

    with served(answer, token="secret") as transport:
        info(transport)
        transport.close_session(b"\x0f" * 16, b"", timeout=30)
    assert [each.get("authorization") for each in seen] == ["Bearer secret"] * 2
    assert [each.get("backhaul-session") for each in seen] == [None, "0f" * 16]


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_an_error_of_the_server_is_raised_as_it_was_there(reason: str) -> None:
    kind = REASONS[reason]
    error_info = error_details_pb2.ErrorInfo(
        reason=reason, domain="backhaul", metadata={"node": "7"}
    )
    other = error_details_pb2.RequestInfo(request_id="1")
    code = grpc.StatusCode[kind.status]
    with served(refusing(code, other, error_info, message="What, why, what to do.")) as transport:
        with pytest.raises(kind.error) as error:
            info(transport)
        assert type(error.value) is kind.error
        assert error.value.reason == reason
        assert error.value.message == "What, why, what to do."
        assert error.value.details == {"node": "7"}


def test_a_reason_of_a_later_release_takes_the_class_of_its_status() -> None:
    error_info = error_details_pb2.ErrorInfo(reason="SOMETHING_NEW", domain="backhaul")
    with served(refusing(grpc.StatusCode.UNAVAILABLE, error_info)) as transport:
        with pytest.raises(bh.Unavailable) as error:
            info(transport)
        assert error.value.reason == "SOMETHING_NEW"


BARE = [
    ("UNAVAILABLE", bh.Unavailable, "UNAVAILABLE"),
    ("DEADLINE_EXCEEDED", bh.DeadlineExceeded, "DEADLINE_EXCEEDED"),
    ("CANCELLED", bh.Cancelled, "CANCELLED"),
    ("RESOURCE_EXHAUSTED", bh.ServerBusy, "SERVER_BUSY"),
    ("UNAUTHENTICATED", bh.Unauthenticated, "UNAUTHENTICATED"),
    ("PERMISSION_DENIED", bh.PermissionDenied, "PERMISSION_DENIED"),
    ("UNIMPLEMENTED", bh.VersionMismatch, "VERSION_MISMATCH"),
    ("INVALID_ARGUMENT", bh.InvalidArgument, "MALFORMED_REQUEST"),
    ("INTERNAL", bh.InternalError, "INTERNAL"),
    ("UNKNOWN", bh.InternalError, "INTERNAL"),
    ("DATA_LOSS", bh.InternalError, "INTERNAL"),
]


@pytest.mark.parametrize(("status", "kind", "reason"), BARE)
@pytest.mark.parametrize("foreign", [False, True])
def test_a_status_without_our_reason_names_the_target_and_what_was_said(
    status: str, kind: type[bh.BackhaulError], reason: str, foreign: bool
) -> None:
    details = (
        [error_details_pb2.ErrorInfo(reason="QUOTA", domain="proxy.example")] if foreign else []
    )
    with served(refusing(grpc.StatusCode[status], *details, words="the words")) as transport:
        with pytest.raises(kind) as error:
            info(transport)
        assert type(error.value) is kind
        assert error.value.reason == reason
        assert str(transport.target) in error.value.message
        assert "the words" in error.value.message or status == "DEADLINE_EXCEEDED"


def test_nothing_listens() -> None:
    transport = GrpcTransport(parse_target("127.0.0.1:1"))
    with pytest.raises(bh.Unavailable, match=r"127.0.0.1:1.*backhaul serve"):
        info(transport)
    transport.close()


def test_a_timeout_is_kept_and_the_server_hears_of_it() -> None:
    cancelled = threading.Event()

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(cancelled.set)
        cancelled.wait(30)
        return INFO

    with served(answer) as transport:
        with pytest.raises(bh.DeadlineExceeded, match=r"within 2.0 s.*timeout="):
            info(transport, timeout=2.0)
        assert cancelled.wait(30)


def test_an_interrupt_cancels_the_call_on_the_server_too() -> None:
    cancelled = threading.Event()

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(cancelled.set)
        os.kill(os.getpid(), signal.SIGINT)
        cancelled.wait(30)
        return INFO

    with served(answer) as transport:
        with pytest.raises(KeyboardInterrupt):
            info(transport)
        assert cancelled.wait(30)


@pytest.mark.parametrize("limit_is_known", [False, True])
def test_a_request_that_is_too_large_names_size_and_limit(limit_is_known: bool) -> None:
    with served(lambda _, __: INFO) as transport:
        if limit_is_known:
            transport.limits = Limits(10_000)
        with pytest.raises(bh.MessageTooLarge, match=r"1[0-9],\d\d\d bytes.* 10,000\. ") as error:
            transport.call(
                "Execute",
                b"",
                [np.zeros(2000)],
                service_pb2.ExecuteResponse,
                timeout=30,
            )
        assert error.value.reason == "MESSAGE_TOO_LARGE"
        assert error.value.details["limit"] == "10000"
        assert info(transport) == "9"


def test_an_answer_that_is_too_large_says_that_it_is_the_answer() -> None:
    with (
        served(lambda _, __: bytes(20_000)) as transport,
        pytest.raises(bh.MessageTooLarge, match=r"The answer has 20,000 bytes"),
    ):
        info(transport)


def test_bytes_that_are_no_answer() -> None:
    with (
        served(lambda _, __: b"\xff\xff") as transport,
        pytest.raises(bh.InvalidArgument, match=r"same \.proto") as error,
    ):
        info(transport)
    assert error.value.reason == "MALFORMED_REQUEST"


def test_closing_ends_waiting_calls_and_later_ones() -> None:
    waiting, released = threading.Event(), threading.Event()
    errors: list[bh.BackhaulError] = []

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(released.set)
        waiting.set()
        released.wait(30)
        return INFO

    def ask(transport: GrpcTransport) -> None:
        try:
            info(transport)
        except bh.BackhaulError as error:
            errors.append(error)

    with served(answer) as transport:
        thread = threading.Thread(target=ask, args=(transport,))
        thread.start()
        assert waiting.wait(30)
        transport.close()
        thread.join(30)
        ask(transport)
    assert [each.reason for each in errors] == ["CONNECTION_CLOSED"] * 2


def test_proxies_of_the_environment_are_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with served(lambda _, __: INFO) as transport:
        assert info(transport) == "9"


def test_a_socket_whose_path_needs_quoting(tmp_path: Path) -> None:
    path = tmp_path / "a b%20.sock"
    quoted = str(path).replace("%", "%25").replace(" ", "%20")
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, handlers=[Handlers(lambda _, __: INFO)])
        server.add_insecure_port(f"unix:{quoted}")
        server.start()
        transport = GrpcTransport(parse_target(f"unix://{path}"))
        try:
            assert info(transport) == "9"
        finally:
            transport.close()
            server.stop(None).wait()


def test_calls_are_counted_by_name_from_all_threads() -> None:
    with served(lambda _, __: INFO) as transport, ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: info(transport), range(40)))
        assert transport.calls == {"GetServerInfo": 40}
