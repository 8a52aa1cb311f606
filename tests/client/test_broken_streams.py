"""Streams that break, stall or are cut anywhere: nothing is half done or kept, and the tape goes on."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import grpc
import numpy as np
import pytest
from tests.client.proxy import Proxy
from tests.client.waiting import wait_until

import backhaul as bh
from backhaul.retries import Retries
from backhaul_proto.chunks import CHUNK_BYTES
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

Array = np.ndarray[Any, Any]
STEP = 64 << 10
ARRAY = np.random.default_rng(0).normal(size=(2 * CHUNK_BYTES + CHUNK_BYTES // 4) // 8)


class Broken(NamedTuple):
    """A tape behind a proxy."""

    server: Server
    proxy: Proxy
    tape: bh.Tape

    @property
    def held(self) -> int:
        """Bytes that the server has set aside and holds."""
        host = self.server.host
        assert isinstance(host, Dispatcher)
        pool = host.pool
        for each in list(pool._shares):
            each.recount()
        return pool.used

    def settle(self) -> None:
        """Until the server has noticed what happened to its streams."""
        wait_until(lambda: self.server._stream._free._value == 16)

    def retries(self, **of: Any) -> None:
        transport: Any = self.tape._core.connection._ready()
        transport._retries = Retries(**of)

    @property
    def streams(self) -> int:
        return self.tape._core.connection.calls["ExecuteStream"]

    def nodes(self) -> tuple[int, int]:
        """Nodes and bytes of the session, asked for past the proxy."""
        session = self.tape._core._session
        with bh.connect(self.server.targets[0], timeout=60) as straight:
            info = straight._ready().get_session(session.id, session.epoch, timeout=120)
        return info.nodes, info.bytes


@pytest.fixture
def broken() -> Iterator[Broken]:
    server = Server(Dispatcher(Engine(), max_message_bytes=STEP), ["127.0.0.1:0"])
    server.start()
    proxy = Proxy(server.targets[0])
    try:
        with bh.connect(proxy.target, timeout=60) as connection, bh.Tape(connection) as tape:
            assert float(tape.leaf(1.0) + 1.0) == 2.0
            found = Broken(server, proxy, tape)
            found.retries(tries=1)
            yield found
    finally:
        proxy.close()
        server.stop(None)


def test_an_upload_cut_anywhere_leaves_nothing_behind(broken: Broken) -> None:
    broken.tape._core.flush()
    broken.tape._core.flush()  # what is released goes with the next request
    before, held = broken.nodes(), broken.held
    for cut in range(STEP, ARRAY.nbytes, STEP):
        y = bh.negative(broken.tape.leaf(ARRAY))
        broken.proxy.reset()
        broken.proxy.cut_up = cut
        broken.retries(tries=1)
        with pytest.raises(bh.Unavailable):
            y.numpy()
        broken.settle()
        assert broken.nodes() == before
        assert broken.held == held
        broken.retries()
        assert y.numpy().tobytes() == (-ARRAY).tobytes()
        del y
        broken.tape._core.flush()
        broken.tape._core.flush()
        assert broken.nodes() == before


def test_an_answer_cut_anywhere_is_asked_for_again_and_the_steps_run_once(broken: Broken) -> None:
    x = broken.tape.leaf(ARRAY)
    bh.sum(x).numpy()
    broken.retries()
    for cut in range(STEP, ARRAY.nbytes, 4 * STEP):
        before, seq = broken.streams, broken.tape._core._session.last_seq
        y = x * 2.0
        broken.proxy.reset()
        broken.proxy.cut_down = cut
        assert y.numpy().tobytes() == (2 * ARRAY).tobytes()
        assert before + 2 <= broken.streams <= before + 4  # the first retry may meet the cut too
        assert broken.tape._core._session.last_seq == seq + 1


def test_an_upload_that_breaks_is_sent_again(broken: Broken) -> None:
    pauses: list[float] = []
    broken.retries()
    transport: Any = broken.tape._core.connection._ready()
    transport._sleep = pauses.append
    y = bh.negative(broken.tape.leaf(ARRAY))
    broken.proxy.reset()
    broken.proxy.cut_up = CHUNK_BYTES
    before = broken.streams
    assert y.numpy().tobytes() == (-ARRAY).tobytes()
    assert broken.streams == before + 1 + len(pauses)
    assert 1 <= len(pauses) <= 3  # the first retry may meet the cut too


def test_a_deadline_in_the_middle_ends_the_call_and_the_tape_goes_on(broken: Broken) -> None:
    y = bh.negative(broken.tape.leaf(ARRAY))
    before, held = broken.nodes(), broken.held
    connection = broken.tape._core.connection
    for connection.timeout in (0.5, 5, 50):  # on a busy machine it may pass before the middle
        broken.proxy.reset()
        broken.proxy.stall_up = CHUNK_BYTES
        with pytest.raises(bh.DeadlineExceeded):
            y.numpy()
        if not broken.proxy.flowing.is_set():
            break
    connection.timeout = 60
    assert not broken.proxy.flowing.is_set()
    broken.settle()
    assert broken.held == held
    broken.proxy.flowing.set()
    assert broken.nodes() == before
    assert y.numpy().tobytes() == (-ARRAY).tobytes()


def test_no_try_begins_after_the_timeout(broken: Broken) -> None:
    broken.retries(first_pause=300.0, longest_pause=300.0)
    y = bh.negative(broken.tape.leaf(ARRAY))
    broken.tape._core.connection.timeout = 60
    broken.proxy.reset()
    broken.proxy.cut_up = CHUNK_BYTES
    before = broken.streams
    with pytest.raises(bh.Unavailable):
        y.numpy()
    assert broken.streams == before + 1


def test_what_was_cut_off_is_freed_without_the_garbage_collector(broken: Broken) -> None:
    array = np.ones(16 * CHUNK_BYTES // 8)
    y = bh.sum(broken.tape.leaf(array))
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(3):
            broken.proxy.reset()
            broken.proxy.cut_up = 12 * CHUNK_BYTES
            with pytest.raises(bh.Unavailable):
                y.numpy()
            broken.settle()
        wait_until(lambda: tracemalloc.get_traced_memory()[0] < 3 * CHUNK_BYTES)
    finally:
        tracemalloc.stop()
        gc.enable()
    assert float(y) == array.size


def test_a_server_that_is_gone_is_named_after_a_few_tries() -> None:
    pauses: list[float] = []
    with bh.connect("127.0.0.1:1", timeout=60) as connection:
        transport: Any = connection._ready()
        transport._sleep = pauses.append
        tape = bh.Tape(connection)
        with pytest.raises(bh.Unavailable, match="backhaul serve"):
            bh.sum(tape.leaf(np.ones(1_000_000))).numpy()
        assert len(pauses) == 3


def test_a_server_that_does_not_read_makes_the_client_wait() -> None:
    stops = threading.Event()

    def unread(_messages: Iterator[bytes], _context: Any) -> Iterator[bytes]:
        stops.wait(60)
        yield from ()

    class Handlers(grpc.GenericRpcHandler):
        def service(self, _: Any) -> Any:
            return grpc.stream_stream_rpc_method_handler(unread)

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool, handlers=[Handlers()])
        proxy = Proxy(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
        server.start()
        told: list[int] = []
        with bh.connect(
            proxy.target, timeout=2, progress=lambda now: told.append(now.sent)
        ) as connection:
            tape = bh.Tape(connection)
            with pytest.raises(bh.DeadlineExceeded):
                bh.sum(tape.leaf(np.ones(64 * CHUNK_BYTES // 8))).numpy()
        assert proxy.up < 16 * CHUNK_BYTES
        assert max(told, default=0) < 16 * CHUNK_BYTES
        stops.set()
        proxy.close()
        server.stop(None).wait()
