"""Servers that idle, end, start again and stand where they may not; addresses of every kind; many threads."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.chaos.restarted import held_port
from tests.faults.programs import square
from tests.faults.ways import Way

import backhaul as bh
from backhaul.targets import parse_target
from backhaul.transport import channel
from backhaul.transport.grpc import GrpcTransport
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server


@contextmanager
def serving(*addresses: str, **limits: Any) -> Iterator[list[str]]:
    """A server of the test's own; its targets."""
    dispatcher = Dispatcher(Engine(), **limits)
    try:
        # Whether an address may be listened on at all is another question.
        running = Server(dispatcher, addresses, insecure=True)
    except BaseException:
        dispatcher.close()
        raise
    running.start()
    try:
        yield running.targets
    finally:
        running.stop(0)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


# Idle connections


def pinging(monkeypatch: pytest.MonkeyPatch, milliseconds: int) -> None:
    """Let clients made from now on ping this often."""
    options = dict(channel._OPTIONS) | {"grpc.keepalive_time_ms": milliseconds}
    monkeypatch.setattr(channel, "_OPTIONS", tuple(options.items()))


def states_while_idle(target: str, seconds: float) -> list[grpc.ChannelConnectivity]:
    """The states that a connection goes through while nothing is asked, after a first call."""
    transport = GrpcTransport(parse_target(target))
    seen: list[grpc.ChannelConnectivity] = []
    left = threading.Event()

    def note(state: grpc.ChannelConnectivity) -> None:
        seen.append(state)
        if grpc.ChannelConnectivity.READY in seen[:-1]:
            left.set()

    try:
        with pytest.raises(bh.BackhaulError):  # whatever answers: it is connected
            transport.call("NoSuchCall", b"", (), Any, timeout=60)  # type: ignore[type-var]
        transport._wire.channel.subscribe(note, try_to_connect=True)
        left.wait(seconds)
        transport._wire.channel.unsubscribe(note)
    finally:
        transport.close()
    return seen[seen.index(grpc.ChannelConnectivity.READY) :]


@pytest.mark.slow
def test_pings_of_an_idle_connection_are_tolerated(monkeypatch: pytest.MonkeyPatch) -> None:
    pinging(monkeypatch, 50)  # gRPC sends one a second at most
    with serving("127.0.0.1:0") as (target,):
        assert states_while_idle(target, 10) == [grpc.ChannelConnectivity.READY]


@pytest.mark.slow
def test_a_server_without_our_settings_would_have_hung_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """That the test before can fail: it takes some three seconds."""
    pinging(monkeypatch, 50)
    with ThreadPoolExecutor(1) as pool:
        other = grpc.server(pool)
        port = other.add_insecure_port("127.0.0.1:0")
        other.start()
        try:
            assert len(states_while_idle(f"127.0.0.1:{port}", 10)) > 1
        finally:
            other.stop(None).wait()


# Limits


@pytest.fixture(scope="module")
def narrow() -> Iterator[str]:
    """A server that takes and sends 64 kB at most."""
    with serving("127.0.0.1:0", max_message_bytes=1 << 16) as (target,):
        yield target


def large(n: int = 10_000) -> np.ndarray[Any, Any]:
    return np.arange(float(n))


OVER_THE_LIMIT: dict[str, Callable[[bh.Tape, bh.TrackedTensor], tuple[Any, Any]]] = {
    "leaf": lambda tape, x: ((tape.leaf(large()) * 2.0).numpy(), 2 * large()),
    "constant": lambda tape, x: ((tape.constant(large()) * 2.0).numpy(), 2 * large()),
    "operand": lambda tape, x: ((x + large()).numpy(), 2 + large()),
    "cotangent": lambda tape, x: (
        tape.pullback(bh.broadcast_to(x, (10_000,)), cotangent=large())[x],
        large().sum(),
    ),
    "value": lambda tape, x: (bh.broadcast_to(x, (10_000,)).numpy(), np.full(10_000, 2.0)),
    "gradient": lambda tape, x: (
        tape.pullback(bh.sum(y := bh.broadcast_to(x, (10_000,))), wrt=[y])[y],
        np.ones(10_000),
    ),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("kind", OVER_THE_LIMIT)
def test_what_is_over_the_limit_of_a_message_passes(narrow: str, kind: str, known: bool) -> None:
    with bh.connect(narrow, timeout=60) as connection, bh.Tape(connection) as tape:
        if known:
            connection.ping()
        found, expected = OVER_THE_LIMIT[kind](tape, tape.leaf(2.0))
        np.testing.assert_array_equal(found, expected)
        assert connection.calls["ExecuteStream"] == 1


@pytest.mark.parametrize("ask", ["value", "leaf", "cotangent"])
def test_at_the_limit_one_below_and_one_above(narrow: str, ask: str) -> None:
    """The way changes from one message to a stream somewhere in here; every answer is whole."""
    with bh.connect(narrow, timeout=60) as connection, bh.Tape(connection) as tape:
        x = tape.leaf(np.arange(2.0))
        for n in range(65_536 - 400, 65_536 + 9, 8):
            wide = bh.broadcast_to(x[1], (n // 8,))
            match ask:
                case "value":
                    assert wide.numpy().sum() == n // 8
                case "leaf":
                    assert float(bh.sum(tape.leaf(np.ones(n // 8)))) == n // 8
                case _:
                    found = tape.pullback(wide, cotangent=np.ones(n // 8), wrt=[x])
                    assert found[x].tolist() == [0.0, n // 8]
        assert square(connection) == 6.0
        assert connection.calls["Execute"] > 2
        assert connection.calls["ExecuteStream"] > 1


# Servers that end and start again


def port_of(target: str) -> str:
    return target.rpartition(":")[2]


@pytest.mark.parametrize("by", ["tcp", "unix"])
def test_a_server_that_is_started_again_has_lost_the_session(tmp_path: Path, by: str) -> None:
    held = held_port()
    address = f"127.0.0.1:{held.getsockname()[1]}" if by == "tcp" else f"unix:{tmp_path / 's'}"
    with serving(address) as (target,):
        connection = bh.connect(target, timeout=60)
        tape = bh.Tape(connection)
        x = tape.leaf(np.ones(3))
        y = bh.sum(x * x)
        np.testing.assert_array_equal(tape.pullback(y)[x], np.full(3, 2.0))
    with pytest.raises(bh.Unavailable):
        (x * 2.0).numpy()
    with serving(address) as (again,):
        assert again == target
        for use in (lambda: (x * 3.0).numpy(), lambda: tape.pullback(y), lambda: tape.pullback(y)):
            with pytest.raises(bh.SessionLost) as lost:
                _once_reconnected(use)
            assert lost.value.reason == "SESSION_LOST"
        assert square(connection) == 6.0
        tape.close()
        connection.close()
    held.close()


def _once_reconnected(use: Callable[[], Any]) -> Any:
    """gRPC dials again within 2 s; until then nothing answers."""
    end = time.monotonic() + 60
    while True:
        try:
            return use()
        except bh.Unavailable:
            if time.monotonic() > end:
                raise


def test_a_second_server_on_a_port_is_refused(tmp_path: Path) -> None:
    with serving("127.0.0.1:0", f"unix:{tmp_path / 's'}") as targets:
        for address in (f"127.0.0.1:{port_of(targets[0])}", f"0.0.0.0:{port_of(targets[0])}"):
            with pytest.raises(bh.InvalidArgument) as refused, serving(address):
                pass
            assert refused.value.reason == "INVALID_TARGET"
            assert port_of(targets[0]) in refused.value.message
        for target in targets:
            with bh.connect(target, timeout=60) as connection:
                assert square(connection) == 6.0


# Addresses


def test_a_server_on_ipv4_alone() -> None:
    with serving("127.0.0.1:0") as (target,):
        port = port_of(target)
        for host in ("127.0.0.1", "localhost"):
            with bh.connect(f"{host}:{port}", timeout=60) as connection:
                assert square(connection) == 6.0
        if has_ipv6():
            with (
                bh.connect(f"[::1]:{port}", timeout=60) as connection,
                pytest.raises(bh.Unavailable, match=r"\[::1\]"),
            ):
                connection.ping()


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_a_server_on_ipv6_alone() -> None:
    with serving("[::1]:0") as (target,):
        assert target.startswith("grpc://[::1]:")
        port = port_of(target)
        for written in (target, f"[::1]:{port}", f"grpc://[0:0::1]:{port}"):
            with bh.connect(written, timeout=60) as connection:
                assert square(connection) == 6.0
        with (
            bh.connect(f"127.0.0.1:{port}", timeout=60) as connection,
            pytest.raises(bh.Unavailable),
        ):
            connection.ping()


def test_a_socket_whose_path_is_as_long_as_it_may_be(tmp_path: Path) -> None:
    folder = Path("/tmp") if len(str(tmp_path)) > 90 else tmp_path
    longest = str(folder / "s").ljust(107, "s")
    assert len(longest) == 107
    with serving(f"unix:{longest}") as (target,), bh.connect(target, timeout=60) as connection:
        assert square(connection) == 6.0
    with pytest.raises(bh.InvalidArgument, match="107") as refused, serving(f"unix:{longest}s"):
        pass
    assert "108" in refused.value.message
    with pytest.raises(bh.InvalidArgument, match=r"108.*107"):
        bh.connect(f"unix://{longest}s")


# Threads


def together(work: Callable[[int], Any], count: int) -> Sequence[Any]:
    """The results of this many threads, all begun before any goes on."""
    gate = threading.Barrier(count)

    def begun(number: int) -> Any:
        gate.wait(60)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begun, range(count)))


def test_a_hundred_threads_on_one_connection(connection: bh.Connection) -> None:
    def work(number: int) -> float:
        with bh.Tape(connection) as tape:
            x = tape.leaf(np.full(10_000, float(number)))
            return float(tape.pullback(bh.sum(x * x))[x][-1])

    assert together(work, 100) == [2.0 * number for number in range(100)]


def test_a_hundred_threads_on_one_tape(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(100))
    before = bh.sum(x * x)

    def work(number: int) -> tuple[float, float]:
        y = bh.sum(x * float(number))
        return float(y), float(tape.pullback(y + before)[x][0])

    assert together(work, 100) == [(100.0 * k, k + 2.0) for k in range(100)]


def test_a_connection_closed_during_calls_of_other_threads(
    way: Way, targets: Mapping[str, str]
) -> None:
    """Each call is answered or ends with a typed error, and soon; none hangs."""
    connection = bh.connect(targets[way.by], timeout=60, **way.options)
    asked = threading.Semaphore(0)

    def work(_: int) -> str:
        tape = bh.Tape(connection)
        x = tape.leaf(np.eye(60))
        try:
            while True:
                y = bh.sum(x @ x)
                asked.release()
                assert float(y) == 60.0
        except bh.BackhaulError as error:
            return error.reason

    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(work, k) for k in range(8)]
        for _ in range(16):
            assert asked.acquire(timeout=120)
        connection.close()
        reasons = {each.result(120) for each in found}
    assert reasons == {"CONNECTION_CLOSED"}
