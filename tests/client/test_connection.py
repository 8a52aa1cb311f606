"""Connections: made lazily, one by default, closed once, and of one process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

import backhaul as bh
from backhaul import connection as module


def in_child(work: Callable[[], object]) -> str:
    """What ``work`` returns or raises in a forked process, in words."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__} {getattr(error, 'reason', error)}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def square(connection: bh.Connection | None = None) -> float:
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])


def test_connecting_sends_nothing_and_needs_no_server() -> None:
    with bh.connect("localhost:1") as connection:
        assert connection.calls.total() == 0
        assert connection.target == "localhost:1"
        assert "localhost:1" in repr(connection)
        bh.Tape(connection).leaf(1.0)
        assert connection.calls.total() == 0


def test_a_connection_tells_of_its_server() -> None:
    with bh.connect("embedded") as connection:
        assert connection.ping() > 0
        info = connection.info()
        assert (info.version, info.protocol, info.backend) == (
            bh.__version__,
            "backhaul.v1",
            "numpy",
        )
        ops = {op.name: op for op in connection.ops()}
        assert tuple(ops) == bh.ops()
        assert ops["sum"].operands == ("x",)
        axis = ops["sum"].attributes[0]
        assert (axis.name, axis.type, axis.required) == ("axis", "axes", False)
        assert ops["sum"].has_vjp
        assert not ops["stop_gradient"].has_vjp
        assert connection.calls == {"GetServerInfo": 2, "ListOps": 1}


def test_a_closed_connection_says_so() -> None:
    unused = bh.connect("embedded")
    unused.close()
    used = bh.connect("embedded")
    tape = bh.Tape(used)
    x = tape.leaf(1.0)
    float(x * 2.0)
    used.close()
    used.close()
    for use in (unused.ping, used.ping, lambda: float(x * 3.0), lambda: square(used)):
        with pytest.raises(bh.Unavailable) as error:
            use()
        assert error.value.reason == "CONNECTION_CLOSED"
    tape.close()


def test_closing_a_connection_closes_forgotten_tapes() -> None:
    connection = bh.connect("embedded")
    tape = bh.Tape(connection)
    float(tape.leaf(1.0) * 2.0)
    del tape
    connection.close()
    assert connection.calls == {"Execute": 1, "CloseSession": 1}


def test_the_default_connection_is_one_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKHAUL_TARGET", raising=False)
    monkeypatch.setattr(module, "_default", module._Default())
    first, second = bh.Tape(), bh.Tape()
    assert first._core.connection is second._core.connection
    assert first._core.connection.target == "embedded"
    monkeypatch.setenv("BACKHAUL_TARGET", "localhost:1")
    monkeypatch.setattr(module, "_default", module._Default())
    assert bh.Tape()._core.connection.target == "localhost:1"
    monkeypatch.setenv("BACKHAUL_TARGET", "nonsense")
    monkeypatch.setattr(module, "_default", module._Default())
    with pytest.raises(bh.InvalidArgument) as error:
        bh.Tape()
    assert error.value.reason == "INVALID_TARGET"


def test_a_forked_process_is_told_and_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKHAUL_TARGET", raising=False)
    tape = bh.Tape()
    x = tape.leaf(1.0)
    y = x * 2.0
    float(y)
    recorded_only = bh.Tape().leaf(2.0) * 2.0
    connection = tape._core.connection
    assert in_child(lambda: float(x * 3.0)) == "Unavailable FORKED"
    assert in_child(lambda: tape.pullback(y)) == "Unavailable FORKED"
    assert in_child(lambda: float(recorded_only)) == "Unavailable FORKED"
    assert in_child(connection.ping) == "Unavailable FORKED"
    assert in_child(tape.close) == "None"
    assert in_child(square) == "6.0"
    assert in_child(lambda: square(bh.connect("embedded"))) == "6.0"
    assert float(x * 3.0) == 3.0


def test_a_forked_process_does_not_wait_for_a_lock_of_its_parents() -> None:
    tape = bh.Tape()
    x = tape.leaf(1.0)
    held, done = threading.Event(), threading.Event()

    def ask() -> None:  # as a question in another thread would
        with tape._recorder.lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=ask)
    thread.start()
    held.wait()
    try:
        assert in_child(lambda: tape.pullback(x)) == ("Unavailable FORKED")
        assert in_child(tape.close) == "None"
    finally:
        done.set()
        thread.join()


def test_ops_inferred_by_the_server_are_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INFERRED_KEPT", 2)
    monkeypatch.setattr("backhaul.functions.CATALOG", {})
    with bh.connect("embedded") as connection:
        tape = bh.Tape(connection)
        for _ in range(2):
            for size in (1, 2, 3):
                x = tape.leaf(np.ones(size))
                assert bh.apply("negative", x).shape == (size,)
                assert bh.apply("negative", x).shape == (size,)
        assert len(connection._inferred) <= 2
        assert connection.calls["Infer"] == 6


def test_importing_the_client_loads_neither_server_nor_grpc() -> None:
    heavy = ("grpc", "google.protobuf", "backhaul_server", "opt_einsum", "scipy")
    code = f"import sys, backhaul; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
