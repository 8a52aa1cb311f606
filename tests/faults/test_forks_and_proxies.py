"""Processes that are forked or spawned with a connection open, and proxies of the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.faults.programs import run
from tests.faults.ways import WAYS, Way

_FORKING = """
def child(work):
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__} {getattr(error, 'reason', error)}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    answered = select.select([reading], [], [], 15)[0]
    said = os.read(reading, 1000).decode() if answered else "hangs"
    if not answered:
        os.kill(process, 9)
    os.close(reading)
    os.waitpid(process, 0)
    return said

def tell(name, value):
    import json
    print(json.dumps([name, value]), flush=True)

connection = connect()
tape = bh.Tape(connection)
x = tape.leaf(np.ones(30_000))
y = x * 2.0
tell("before", square(connection) + y.numpy()[0])
"""

_USES = """
tell("value", child(lambda: (x * 3.0).numpy()))
tell("pullback", child(lambda: tape.pullback(bh.sum(y))))
tell("ping", child(connection.ping))
tell("close", child(connection.close))
tell("close tape", child(tape.close))
def forget():
    global x, y, tape, connection
    del x, y, tape, connection
    gc.collect()
tell("finalizers", child(forget))
tell("fresh", child(lambda: square(connect())))
tell("parent", square(connection) + y.numpy()[0])
"""

_WHILE_OTHERS_CALL = """
stop = threading.Event()
def work():
    with bh.Tape(connection) as mine:
        z = mine.leaf(np.eye(100))
        while not stop.is_set():
            bh.sum(z @ z).numpy()
threads = [threading.Thread(target=work) for _ in range(3)]
for each in threads:
    each.start()
try:
    for _ in range(3):
        tell("ping", child(connection.ping))
        tell("value", child(lambda: (x * 3.0).numpy()))
        tell("fresh", child(lambda: square(connect())))
finally:
    stop.set()
for each in threads:
    each.join()
tell("parent", square(connection) + y.numpy()[0])
"""


def told(way: Way, targets: Mapping[str, str], program: str) -> list[tuple[str, object]]:
    done = run(way, targets, _FORKING + program)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def test_a_forked_process_is_told_at_once_and_a_connection_of_its_own_works(
    way: Way, targets: Mapping[str, str]
) -> None:
    assert told(way, targets, _USES) == [
        ("before", 8.0),
        ("value", "Unavailable FORKED"),
        ("pullback", "Unavailable FORKED"),
        ("ping", "Unavailable FORKED"),
        ("close", "None"),
        ("close tape", "None"),
        ("finalizers", "None"),
        ("fresh", "6.0"),
        ("parent", 8.0),
    ]


def test_a_process_forked_while_other_threads_call_is_told_too(
    way: Way, targets: Mapping[str, str]
) -> None:
    answers = told(way, targets, _WHILE_OTHERS_CALL)
    expected = {"ping": "Unavailable FORKED", "value": "Unavailable FORKED", "fresh": "6.0"}
    assert answers[0] == ("before", 8.0)
    assert answers[-1] == ("parent", 8.0)
    assert answers[1:-1] == list(expected.items()) * 3


_POOL = """
import multiprocessing

def job(number):
    return square(connect()) * number

if __name__ == "__main__":
    connection = connect()
    assert square(connection) == 6.0
    context = multiprocessing.get_context({method!r})
    with context.Pool(2) as pool:
        print(pool.map(job, [1, 2, 3]))
    print(square(connection))
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_processes(
    way: Way, targets: Mapping[str, str], method: str, tmp_path: Path
) -> None:
    # What is spawned imports the program, which needs a file for it.
    done = run(way, targets, _POOL.format(method=method), file=tmp_path / "program.py")
    assert done.stdout == "[6.0, 12.0, 18.0]\n6.0\n", done.stderr


_PROXIES = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")


@pytest.mark.parametrize(
    "no_proxy",
    [None, *(pytest.param(each, marks=pytest.mark.slow) for each in ("", "example.org"))],
)
@pytest.mark.parametrize(
    "dialled", [way for way in WAYS if way.by != "embedded"], ids=lambda way: way.name
)
def test_proxies_of_the_environment_are_not_asked_for_this_machine(
    dialled: Way, targets: Mapping[str, str], no_proxy: str | None
) -> None:
    environment: dict[str, str] = {}
    for name in _PROXIES:
        environment |= dict.fromkeys((name, name.upper()), "http://127.0.0.1:1")
    clear = (
        "" if no_proxy is not None else "for n in ('no_proxy', 'NO_PROXY'): os.environ.pop(n, 0)\n"
    )
    if no_proxy is not None:
        environment |= {"no_proxy": no_proxy, "NO_PROXY": no_proxy}
    done = run(dialled, targets, clear + "print(square(connect()))", environment=environment)
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr


def test_a_proxy_is_not_asked_when_loopback_goes_by_its_name(targets: Mapping[str, str]) -> None:
    named = {"tcp": targets["tcp"].replace("127.0.0.1", "localhost")}
    environment = dict.fromkeys(_PROXIES, "http://127.0.0.1:1") | {"no_proxy": ""}
    done = run(Way("tcp", "tcp"), named, "print(square(connect()))", environment=environment)
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr


def test_a_proxy_is_asked_for_other_machines() -> None:
    elsewhere = {"tcp": "192.0.2.1:50051"}  # an address that no machine has
    environment = dict.fromkeys(_PROXIES, "http://127.0.0.1:1") | {"no_proxy": ""}
    program = "try: connect().ping()\nexcept bh.Unavailable as error: print(error.message)"
    done = run(Way("tcp", "tcp"), elsewhere, program, environment=environment)
    assert "127.0.0.1:1" in done.stdout, done.stdout + done.stderr
