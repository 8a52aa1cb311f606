"""Tensors by shared memory, over real sockets and between real processes."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.e2e.server_process import ServerProcess, serving

import backhaul as bh
from backhaul.transport import shared_memory, side_socket
from backhaul.transport.grpc import GrpcTransport
from backhaul.transport.regions import Segment
from backhaul.transport.shared_memory import SharedMemory
from backhaul_proto.errors import make_error
from backhaul_proto.shared import MIN_BYTES
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds are Linux's")

MB = 1 << 20
LIMIT = 300_000  # of a message: what is larger and arrives has come by shared memory
WAYS = ("shared", "socket")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="bh") as made:
        yield Path(made)


@contextmanager
def listening(
    path: Path, shared_memory: int = 64 * MB, max_message_bytes: int = LIMIT
) -> Iterator[str]:
    """A server of this process at a unix socket."""
    dispatcher = Dispatcher(Engine(), max_message_bytes=max_message_bytes)
    server = Server(dispatcher, [f"unix:{path}"], shared_memory=shared_memory)
    server.start()
    try:
        yield server.targets[0]
    finally:
        server.stop(None)


@pytest.fixture
def target(folder: Path) -> Iterator[str]:
    with listening(folder / "s") as made:
        yield made


def memory_of(connection: bh.Connection) -> SharedMemory:
    transport = connection._ready()
    assert isinstance(transport, GrpcTransport)
    assert transport._shared is not None
    return transport._shared


def in_shared_memory(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array is a file's memory: /proc tells of memfds by their name."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, end = (int(x, 16) for x in line.split()[0].split("-"))
        if first <= address < end:
            return "memfd:backhaul" in line
    return False


def mappings(process: int) -> int:
    return Path(f"/proc/{process}/maps").read_text().count("memfd:backhaul")


def descriptors(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does in its own time."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# Both ways the same

LARGE = 160_000
ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "0-d": np.array(-0.0),
    "empty": np.zeros((3, 0, 2)),
    "small": np.arange(6.0).reshape(2, 3),
    "float32": np.random.default_rng(1).standard_normal(LARGE // 4).astype("float32"),
    "float64 in Fortran order": np.random.default_rng(2).standard_normal((200, 100)).T,
    "reversed": np.random.default_rng(3).standard_normal((200, 100))[::-1, ::2],
    "broadcast": np.broadcast_to(np.arange(100.0), (200, 100)),
    "complex64": np.random.default_rng(4).standard_normal(LARGE // 4).view("complex64"),
    "complex128": np.random.default_rng(5).standard_normal(LARGE // 8).view("complex128"),
    "NaN with a payload, infinities": np.frombuffer(
        np.random.default_rng(6).integers(0, 256, LARGE, np.uint8).tobytes(), "float64"
    ),
}
CONSTANTS = {
    "bool": np.random.default_rng(7).integers(0, 2, LARGE).astype(bool),
    "int16": np.random.default_rng(8).integers(-9, 9, LARGE // 2).astype("int16"),
    "uint64": np.random.default_rng(9).integers(0, 1 << 60, LARGE // 8, np.uint64),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", [*ARRAYS, *CONSTANTS])
def test_arrays_travel_bit_for_bit(folder: Path, way: str, name: str) -> None:
    limit = LIMIT if way == "shared" else 8 * MB
    with (
        listening(folder / "s", max_message_bytes=limit) as target,
        bh.connect(target, timeout=60, shared_memory=None if way == "shared" else False) as c,
    ):
        tape = bh.Tape(c)
        array = ARRAYS[name] if name in ARRAYS else CONSTANTS[name]
        sent = tape.leaf(array) if name in ARRAYS else tape.constant(array)
        twice = bh.stack([sent, sent])
        got = twice.numpy()
        assert (got.dtype, got.shape) == (array.dtype, (2, *array.shape))
        for each in got:
            assert each.tobytes() == np.ascontiguousarray(array).tobytes()
        large = got.nbytes >= MIN_BYTES
        assert in_shared_memory(got) == (large and way == "shared")
        assert got.flags.writeable


def test_several_large_tensors_of_a_question_are_right_and_apart(target: str) -> None:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((100, n)) for n in (130, 170, 90)]
    tangents = [rng.standard_normal(each.shape) for each in values]
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        tape = bh.Tape(connection)
        leaves = [tape.leaf_with_tangent(v, t) for v, t in zip(values, tangents, strict=True)]
        loss = bh.sum(leaves[0]) * 0.0
        for each in leaves:
            loss = loss + bh.sum(each * each * each)
        found = tape.hvp(loss)
        handed = []
        for leaf, value, tangent in zip(leaves, values, tangents, strict=True):
            np.testing.assert_allclose(found.gradients[leaf], 3 * value**2, rtol=1e-14)
            np.testing.assert_allclose(found.hvp[leaf], 6 * value * tangent, rtol=1e-14)
            handed += [found.gradients[leaf], found.hvp[leaf]]
        assert all(in_shared_memory(each) for each in handed)
        for i, array in enumerate(handed):
            array[:] = float(i)  # the caller's own
        assert [float(each.min()) for each in handed] == [float(i) for i in range(6)]
        assert [float(each.max()) for each in handed] == [float(i) for i in range(6)]
        np.testing.assert_array_equal(leaves[1].numpy(), values[1])
        cotangents = [rng.standard_normal(values[0].shape) for _ in range(2)]
        several = tape.pullback(leaves[0] * 2.0, cotangent=cotangents)
        for cotangent, grads in zip(cotangents, several, strict=True):
            np.testing.assert_array_equal(grads[leaves[0]], 2.0 * cotangent)
        moved = tape.pushforward(leaves[0] * 3.0, tangents={leaves[0]: cotangents[0]})
        np.testing.assert_array_equal(moved.tangent, 3.0 * cotangents[0])


@pytest.mark.parametrize("way", WAYS)
def test_a_leaf_is_frozen_whatever_the_caller_does_to_his_array(folder: Path, way: str) -> None:
    with (
        listening(folder / "s", max_message_bytes=8 * MB) as target,
        bh.connect(target, timeout=60, shared_memory=None if way == "shared" else False) as c,
    ):
        tape = bh.Tape(c)
        array = np.ones(MB // 8)
        x, t = tape.leaf(array), tape.leaf_with_tangent(array, array)
        array[:] = 7.0
        y = tape.leaf(array)
        array[:] = 8.0
        assert [float(bh.sum(each)) for each in (x, t, y)] == [MB / 8, MB / 8, 7 * MB / 8]
        value = x.numpy()
        value[:] = 9.0
        assert float(bh.sum(x)) == MB / 8
        z = tape.leaf(value)  # an array that is in shared memory itself
        value[:] = 10.0
        assert float(bh.sum(z)) == 9 * MB / 8


def test_memory_is_used_again(target: str) -> None:
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        for i in range(50):
            with bh.Tape(connection) as tape:
                x = tape.leaf(np.full(MB // 8, float(i)))
                grad = tape.pullback(bh.sum(x * x))[x]
                assert grad[0] == grad[-1] == 2.0 * i
        assert len(memory_of(connection)._pool.segments) == 1


def test_threads_share_it(target: str) -> None:
    failures: list[BaseException] = []
    with bh.connect(target, timeout=60, shared_memory=True) as connection:

        def work(seed: int) -> None:
            try:
                rng = np.random.default_rng(seed)
                kept = []
                for _ in range(15):
                    value = rng.standard_normal(rng.integers(20_000, 100_000))
                    with bh.Tape(connection) as tape:
                        x = tape.leaf(value)
                        kept.append((value, tape.pullback(bh.sum(x * x))[x]))
                for value, grad in kept:
                    np.testing.assert_array_equal(grad, 2.0 * value)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=[seed]) for seed in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert failures == []


# What stays, and what goes


def test_arrays_outlive_the_connection_and_the_server(folder: Path) -> None:
    with listening(folder / "s") as target, bh.connect(target, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.arange(MB / 8))
        grads = tape.pullback(bh.sum(x * x))
        view = grads[x][1::2]
        assert in_shared_memory(view)
    np.testing.assert_array_equal(view, 2 * np.arange(MB / 8)[1::2])
    before = mappings(os.getpid())
    del grads, view, x, tape, connection
    gc.collect()
    assert mappings(os.getpid()) < before


def test_beyond_half_of_the_memory_answers_are_copied_out(folder: Path) -> None:
    with (
        listening(folder / "s", shared_memory=32 * MB) as target,
        bh.connect(target, timeout=60, shared_memory=True) as connection,
    ):
        tape = bh.Tape(connection)
        x = tape.leaf(np.arange(MB / 8))
        kept = [x.numpy() for _ in range(12)]
        shared = [in_shared_memory(each) for each in kept]
        assert shared == [True] * 8 + [False] * 4
        for each in kept:
            np.testing.assert_array_equal(each, np.arange(MB / 8))
        del kept
        assert in_shared_memory(x.numpy())


def test_memory_that_nobody_uses_goes_back_to_the_server(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        memory = memory_of(connection)
        monkeypatch.setattr(memory, "_clock", lambda: now[0])
        tape = bh.Tape(connection)
        x = tape.leaf(np.ones(MB))
        x.numpy()
        before = memory._pool.nbytes
        now[0] = 31.0
        y = tape.leaf(np.ones(MB // 64))
        assert float(bh.sum(y)) == MB // 64
        assert x.numpy().nbytes == 8 * MB
        now[0] = 62.0
        assert float(bh.sum(tape.leaf(np.ones(MB // 64)))) == MB // 64
        assert 0 < memory._pool.nbytes < before


_HOLDER = """
import sys, numpy as np, backhaul as bh
connection = bh.connect(sys.argv[1], shared_memory=True)
tape = bh.Tape(connection)
x = tape.leaf(np.ones((1000, 1000)))
grad = tape.pullback(bh.sum(x * x))[x]
waiting = tape.leaf(np.ones((2000, 1000)))
print("holding", flush=True)
if sys.argv[2] == "idle":
    sys.stdin.read()
while True:
    (x @ x).numpy()
"""


@pytest.mark.parametrize("when", ["idle", "busy"])
def test_a_client_that_is_killed_leaves_nothing_in_the_server(folder: Path, when: str) -> None:
    with serving("--unix", str(folder / "s")) as server:
        process = server.process.pid
        with bh.connect(f"unix://{folder / 's'}", timeout=60) as connection:
            assert square(connection) == 6.0
            fds = descriptors(process)
            for _ in range(3):
                with subprocess.Popen(
                    [sys.executable, "-c", _HOLDER, f"unix://{folder / 's'}", when],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                ) as client:
                    assert client.stdout is not None
                    assert client.stdout.readline() == "holding\n"
                    assert mappings(process) > 0
                    client.kill()
                until(lambda: mappings(process) == 0)
                assert square(connection) == 6.0
            until(lambda: descriptors(process) <= fds)
        status, log = server.stop()
    assert status == 0
    assert not any("exc_info" in line for line in log)
    assert not any("backhaul" in name for name in os.listdir("/dev/shm"))
    assert os.listdir(folder) in ([], ["s"])  # the side socket is gone


def square(connection: bh.Connection) -> float:
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])


def large_square(connection: bh.Connection, by: float) -> np.ndarray[Any, Any]:
    with bh.Tape(connection) as tape:
        x = tape.leaf(np.full(MB // 8, by))
        return tape.pullback(bh.sum(x * x))[x]


def test_a_server_that_is_killed_and_started_again_gives_new_memory(folder: Path) -> None:
    path = folder / "s"
    with (
        serving("--unix", str(path)) as first,
        bh.connect(f"unix://{path}", timeout=20, shared_memory=True) as connection,
    ):
        kept = large_square(connection, 1.0)
        tape = bh.Tape(connection)
        waiting = tape.leaf(np.full(MB // 8, 5.0))  # frozen in the memory of the first server
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(30)
        with serving("--unix", str(path)):
            until(lambda: answers(connection))
            again = large_square(connection, 3.0)
            assert in_shared_memory(again)
            np.testing.assert_array_equal(again, np.full(MB // 8, 6.0))
            np.testing.assert_array_equal(kept, np.full(MB // 8, 2.0))
            np.testing.assert_array_equal(waiting.numpy(), np.full(MB // 8, 5.0))


def answers(connection: bh.Connection) -> bool:
    try:
        connection.ping()
    except bh.TransportError:
        return False
    return True


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (make_error("DEADLINE_EXCEEDED", "late"), False),
        (make_error("UNAVAILABLE", "broken"), False),
        (KeyboardInterrupt(), False),
        (make_error("SEGMENT_UNKNOWN", "gone"), False),
        (make_error("SINGULAR_MATRIX", "refused by the server, which is done with it"), True),
    ],
    ids=lambda each: getattr(each, "reason", None) or type(each).__name__,
)
def test_memory_of_a_call_in_doubt_is_not_written_again(
    target: str, error: BaseException, again: bool
) -> None:
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        memory = memory_of(connection)
        array = np.ones(MB // 8)
        lent: list[Any] = []

        def call(error: BaseException | None = None) -> None:
            with memory.lend([array], MB) as loan:
                lent.append((loan.tensors, loan.buffers))
                if error is not None:
                    raise error

        with pytest.raises(type(error)):
            call(error)
        call()
        assert (lent[0] == lent[1]) == again
        assert large_square(connection, 2.0)[0] == 4.0


def test_a_call_that_was_not_answered_in_time_leaves_right_numbers(folder: Path) -> None:
    path = folder / "s"
    with (
        serving("--unix", str(path)) as server,
        bh.connect(f"unix://{path}", timeout=0.5) as connection,
    ):
        assert large_square(connection, 1.0)[0] == 2.0
        tape = bh.Tape(connection)
        x = tape.leaf(np.full(MB // 8, 3.0))
        y = x * 2.0
        server.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(bh.DeadlineExceeded):
                y.numpy()
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", RuntimeWarning
                )  # the stopped server does not say hello
                others = [tape.leaf(np.full(MB // 8, -1.0)) for _ in range(4)]
        finally:
            server.process.send_signal(signal.SIGCONT)
        until(lambda: answers(connection))
        connection.timeout = 20
        np.testing.assert_array_equal(y.numpy(), np.full(MB // 8, 6.0))
        assert [float(bh.sum(each)) for each in others] == [-MB / 8] * 4


# Where it cannot be had


def falls_back(target: str, match: str) -> None:
    """Large tensors come through, with one warning that points here."""
    with bh.connect(target, timeout=60) as connection:
        with pytest.warns(RuntimeWarning, match=match) as caught:
            found = [large_square(connection, by) for by in (1.0, 4.0)]
        assert [found[0][0], found[1][-1]] == [2.0, 8.0]
        assert not in_shared_memory(found[1])
        assert [each.filename for each in caught] == [__file__]


def silently_by_socket(target: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with bh.connect(target, timeout=60) as connection:
            found = large_square(connection, 4.0)
    assert found[0] == 8.0
    assert not in_shared_memory(found)


def test_memory_that_is_not_what_the_server_sees_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(Segment):
        @property
        def nonce(self) -> bytes:
            return b"of another file."

    monkeypatch.setattr(side_socket, "Segment", Elsewhere)
    with listening(folder / "s", max_message_bytes=64 * MB) as target:
        falls_back(target, "not what the server sees")


def test_another_user_is_refused_and_goes_by_the_socket(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(folder / "s", max_message_bytes=64 * MB) as target:
        monkeypatch.setattr(
            "backhaul_server.service.side_socket.credentials_of",
            lambda _: b"\1\0\0\0" + (os.geteuid() + 1).to_bytes(4, "little") + bytes(4),
        )
        falls_back(target, "PERMISSION_DENIED")


def test_a_server_of_another_version_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backhaul_server.service.side_socket.VERSION", 2)
    with listening(folder / "s", max_message_bytes=64 * MB) as target:
        falls_back(target, "VERSION_MISMATCH")


def test_beyond_the_limit_tensors_go_by_the_socket(folder: Path) -> None:
    with listening(folder / "s", shared_memory=MB, max_message_bytes=64 * MB) as target:
        falls_back(target, "QUOTA_EXCEEDED")


def test_a_server_that_offers_none_is_no_reason_for_a_warning(folder: Path) -> None:
    with listening(folder / "s", shared_memory=0, max_message_bytes=64 * MB) as target:
        assert os.listdir(folder) == ["s"]
        silently_by_socket(target)
        with (
            bh.connect(target, timeout=60, shared_memory=True) as connection,
            pytest.raises(bh.Unavailable) as error,
        ):
            large_square(connection, 1.0)
        assert error.value.reason == "SHARED_MEMORY_UNAVAILABLE"
        assert "offers none" in error.value.message


def test_a_path_that_is_too_long_for_the_side_socket_goes_by_the_socket(folder: Path) -> None:
    path = folder / ("p" * (105 - len(str(folder))))
    with listening(path, max_message_bytes=64 * MB) as target:
        assert os.listdir(folder) == [path.name]
        silently_by_socket(target)


def test_a_restart_without_shared_memory_removes_the_old_side_socket(folder: Path) -> None:
    server = ServerProcess("--unix", str(folder / "s"))
    server.process.kill()
    server.process.communicate()
    assert sorted(os.listdir(folder)) == ["s", "s.shm"]
    with serving("--unix", str(folder / "s"), "--shared-memory", "0"):
        silently_by_socket(f"unix://{folder / 's'}")
        assert os.listdir(folder) == ["s"]


def test_small_tensors_open_nothing(target: str) -> None:
    with bh.connect(target, timeout=60) as connection:
        assert square(connection) == 6.0
        assert memory_of(connection)._side is None


def test_a_target_of_tcp_never_uses_it() -> None:
    server = Server(
        Dispatcher(Engine(), max_message_bytes=64 * MB), ["127.0.0.1:0"], shared_memory=64 * MB
    )
    server.start()
    try:
        silently_by_socket(server.targets[0])
    finally:
        server.stop(None)


@pytest.mark.parametrize("target", ["127.0.0.1:1", "embedded", "grpcs://host:1"])
def test_it_cannot_be_demanded_of_a_target_that_is_no_unix_socket(target: str) -> None:
    with pytest.raises(bh.InvalidArgument) as error:
        bh.connect(target, shared_memory=True)
    assert error.value.reason == "INVALID_VALUE"
    assert "unix://" in error.value.message


def test_what_is_no_yes_or_no_is_refused() -> None:
    with pytest.raises(bh.InvalidArgument):
        bh.connect("unix:///tmp/s", shared_memory="yes")  # type: ignore[arg-type]


# Processes

_FORKS = """
import json, os, sys, numpy as np, backhaul as bh
connection = bh.connect(sys.argv[1], shared_memory=True, timeout=20)
tape = bh.Tape(connection)
x = tape.leaf(np.full(100_000, 2.0))
grad = tape.pullback(bh.sum(x * x))[x]
side = connection._transport._shared._side._socket
if os.fork() == 0:
    try:
        tape.leaf(np.ones(100_000))
        found = "no error"
    except bh.Unavailable as error:
        found = error.reason
    with bh.connect(sys.argv[1], shared_memory=True, timeout=20) as own, bh.Tape(own) as another:
        y = another.leaf(np.full(100_000, 5.0))
        value = float(another.pullback(bh.sum(y * y))[y][0])
    print(json.dumps([found, side.fileno(), float(grad[0]), value]), flush=True)
    del grad, x, tape
    sys.stdin.read()  # it outlives its parent
    os._exit(0)
again = tape.leaf(np.full(100_000, 3.0))
assert float(tape.pullback(bh.sum(again * again))[again][0]) == 6.0
assert float(grad[0]) == 4.0
os.read(0, 1)
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_has_no_part_in_it_and_keeps_none_of_it(folder: Path) -> None:
    path = folder / "s"
    with (
        serving("--unix", str(path)) as server,
        subprocess.Popen(
            [sys.executable, "-c", _FORKS, f"unix://{path}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "1"},
        ) as client,
    ):
        assert client.stdout is not None
        assert client.stdin is not None
        assert json.loads(client.stdout.readline()) == ["FORKED", -1, 4.0, 10.0]
        assert mappings(server.process.pid) > 0
        client.stdin.write(b"x")
        client.stdin.flush()
        client.wait(30)
        # The child lives, and the memory of the parent is gone.
        until(lambda: mappings(server.process.pid) == 0)
        client.stdin.close()


def test_an_interrupted_question_leaves_right_numbers(folder: Path) -> None:
    with (
        listening(folder / "s", max_message_bytes=64 * MB) as target,
        bh.connect(target, timeout=60, shared_memory=True) as connection,
    ):
        tape = bh.Tape(connection)
        x = tape.leaf(np.eye(300))
        y = x
        for _ in range(300):
            y = y @ x
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        timer.start()

        def ask_on() -> None:
            for _ in range(10_000):
                (y @ x).numpy()

        with pytest.raises(KeyboardInterrupt):
            ask_on()
        timer.join()
        others = [tape.leaf(np.full((300, 300), float(i))) for i in range(4)]
        np.testing.assert_array_equal(y.numpy(), np.eye(300))
        np.testing.assert_array_equal(x.numpy(), np.eye(300))
        assert [float(each.numpy()[0, 0]) for each in others] == [0.0, 1.0, 2.0, 3.0]


def test_a_segment_that_the_server_has_lost_is_made_anew(target: str) -> None:
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.full(MB // 8, 2.0))
        memory = memory_of(connection)
        assert memory._side is not None
        for each in memory._pool.segments:
            memory._side.free(each.id)  # behind the pool's back
        assert tape.pullback(bh.sum(x * x))[x][0] == 4.0
        assert connection.calls["Execute"] == 2
    assert shared_memory.OF_SEGMENTS[0] == "SEGMENT_UNKNOWN"
