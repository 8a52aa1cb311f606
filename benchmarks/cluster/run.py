"""Ray workers against one process and against bare Ray: overhead, throughput, transfers. ``make bench-ray``.

All on this machine and its loopback: a Ray cluster of this process, two workers of a core each in it, and
front ends as processes of their own. Figures are ratios within this run, each beside its goal.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.timing import Figure, report, rounds, timed, timed_often
from rich.console import Console
from tests.e2e.server_process import serving
from tests.ray.clusters import ENVIRONMENT

import backhaul as bh
from backhaul_proto import codec
from backhaul_proto.messages import Block, BlockCall, Call, Execute
from backhaul_proto.v1 import service_pb2
from backhaul_server.assembly import assemble_front
from backhaul_server.cluster.starting import start_front
from backhaul_server.effective import load
from backhaul_server.service.host import Host
from backhaul_server.workers.call import Call as Waiting

NBYTES: Final = 64 << 20
CALLS: Final = 50
STEPS: Final = 120
PULLBACKS: Final = 40
"""Most of the time is theirs, and they take the client none."""
SIZE: Final = 96


class Bare:
    """An actor that does nothing."""

    def call(self, data: bytes) -> bytes:
        """What came."""
        return data

    def work(self) -> None:
        """Compute for a while, as a session does."""
        x = np.random.default_rng(0).normal(size=(SIZE, SIZE)) / SIZE
        y = x
        for _ in range(STEPS * PULLBACKS):
            y = np.tanh(y @ x)

    def take(self, array: Any) -> int:
        """The size of an array."""
        return int(array.nbytes)


def overhead(ray: Any, here: bh.Connection, there: bh.Connection, count: int) -> list[Figure]:
    """A block on a worker, against the same in the server's own process and one bare call of an actor."""
    actor = ray.remote(Bare).options(num_cpus=0).remote()
    data = secrets.token_bytes(200)

    def bare() -> object:
        return ray.get(actor.call.remote(data))

    with bh.Tape(here) as one, bh.Tape(there) as other:
        x, y = one.leaf(np.arange(4.0)), other.leaf(np.arange(4.0))
        found = rounds(
            {
                "here": timed_often(lambda: float(bh.sum(x * x)), CALLS),
                "there": timed_often(lambda: float(bh.sum(y * y)), CALLS),
                "bare": timed_often(bare, CALLS),
            },
            count,
        )
    ms = {name: f"{seconds * 1e3:.2f} ms" for name, seconds in found.items()}
    return [
        Figure(
            "block on a worker, beyond one in the server's process, in bare calls of an actor",
            (found["there"] - found["here"]) / found["bare"],
            1.5,
            detail=f"worker {ms['there']}, in process {ms['here']}, bare {ms['bare']}",
        )
    ]


def throughput(ray: Any, connection: bh.Connection, count: int) -> list[Figure]:
    """Two sessions that compute all the time, on two workers against both on one."""
    tapes = [bh.Tape(connection) for _ in range(6)]
    for tape in tapes:
        float(tape.leaf(1.0) + 1.0)
    by_worker: dict[bytes, list[bh.Tape]] = {}
    for tape in tapes:
        by_worker.setdefault(tape._core.session.epoch, []).append(tape)
    (first, second, *_), (third, *_) = sorted(by_worker.values(), key=len, reverse=True)
    made = ray.remote(Bare).options(num_cpus=0)
    a, b = made.remote(), made.remote()
    found = rounds(
        {
            "one": _both(first, second),
            "two": _both(first, third),
            "bare one": lambda: timed(lambda: ray.get([a.work.remote(), a.work.remote()])),
            "bare two": lambda: timed(lambda: ray.get([a.work.remote(), b.work.remote()])),
        },
        count,
    )
    bare = found["bare one"] / found["bare two"]
    for tape in tapes:
        tape.close()
    return [
        Figure(
            "work done by two workers of a core each, against one",
            found["one"] / found["two"],
            1.6,
            detail=f"one {found['one']:.2f} s, two {found['two']:.2f} s; bare actors {bare:.2f}×",
            more_is_better=True,
        )
    ]


def _both(*tapes: bh.Tape) -> Callable[[], float]:
    matrix = np.random.default_rng(0).normal(size=(SIZE, SIZE)) / SIZE

    def work(tape: bh.Tape) -> None:
        y = x = tape.leaf(matrix)
        for _ in range(
            STEPS
        ):  # steps far below the time from which on a worker lets two compute at once
            y = bh.tanh(y @ x)
        for _ in range(PULLBACKS):
            tape.pullback(bh.sum(y))

    def job() -> float:
        threads = [threading.Thread(target=work, args=(tape,)) for tape in tapes]
        started = time.perf_counter()
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        return time.perf_counter() - started

    return job


def transfers(ray: Any, host: Host, count: int) -> list[Figure]:
    """A large leaf from a front end into a worker's tape, against `ray.put` and a bare call."""
    actor = ray.remote(Bare).options(num_cpus=0).remote()
    array = np.random.default_rng(0).normal(size=NBYTES // 8)
    array.setflags(write=False)

    def bare() -> object:
        return ray.get(actor.take.remote(ray.put(array)))

    found = rounds({"ours": lambda: _leaf(host, array), "bare": lambda: timed(bare)}, count)
    rate = {name: f"{NBYTES / seconds / 1e9:.2f} GB/s" for name, seconds in found.items()}
    return [
        Figure(
            f"{NBYTES >> 20} MiB from a front end into a tape, against ray.put and a bare call",
            found["bare"] / found["ours"],
            0.9,
            detail=f"ours {rate['ours']}, bare {rate['bare']}",
            more_is_better=True,
        )
    ]


def _leaf(host: Host, array: np.ndarray[Any, Any]) -> float:
    """Seconds that an Execute with one leaf takes, in a session of its own that is closed again."""
    session = service_pb2.SessionRef(id=secrets.token_bytes(16))
    data, _ = host.answer(
        "OpenSession", service_pb2.OpenSessionRequest(session=session), [], "", Waiting()
    )
    session.epoch = service_pb2.OpenSessionResponse.FromString(data).epoch
    block = codec.write_block(Block(0, [Call("leaf")], [0], []))
    request = Execute(
        session.id,
        session.epoch,
        1,
        b"d",
        BlockCall(codec.block_hash(block), block, 1, ()),
        [array],
    )
    header, arrays = codec.write_execute(request)
    message = service_pb2.ExecuteRequest.FromString(header)
    seconds = timed(lambda: host.answer("Execute", message, arrays, "", Waiting()))
    host.answer("CloseSession", service_pb2.CloseSessionRequest(session=session), [], "", Waiting())
    return seconds


PARTS: Final = ("overhead", "throughput", "transfers")


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument(
        "--only", action="append", choices=PARTS, metavar="NAME", help=f"of {', '.join(PARTS)}"
    )
    arguments = parser.parse_args(given)
    only = arguments.only or PARTS
    count = 5 if arguments.quick else 15
    os.environ.update(ENVIRONMENT)
    console = Console(width=140, markup=False, highlight=False)
    with tempfile.TemporaryDirectory(prefix="bh", dir="/tmp") as folder:
        os.environ["RAY_TMPDIR"] = folder
        settings = load({"workers": "ray:2", "memory_limit": "2GiB"}).settings
        cluster = start_front(settings)
        import ray

        host = assemble_front(settings, cluster, 4 << 30).host
        address = ray.get_runtime_context().gcs_address
        figures: list[Figure] = []
        if "transfers" in only:
            figures += transfers(ray, host, count)
        with (
            serving() as here,
            serving("--workers", "ray:2", "--ray-address", address) as there,
            bh.connect(here.target, timeout=120) as in_process,
            bh.connect(there.target, timeout=120) as on_workers,
        ):
            if "overhead" in only:
                figures += overhead(ray, in_process, on_workers, count)
            if "throughput" in only:
                figures += throughput(ray, on_workers, max(3, count // 3))
        report(console, "Ray workers", figures)
        cluster.close()


if __name__ == "__main__":
    main()
