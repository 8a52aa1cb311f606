"""The C++ client: built as its README says, run against real servers, and through the conformance kit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.access.authority import Authority, serving
from tests.chaos.faulty_proxy import Fault, FaultyProxy

from backhaul_proto.tokens import line_of, new_token
from backhaul_proto.v1 import service_pb2, service_pb2_grpc
from backhaul_server.engine.engine import Engine
from backhaul_server.service.certificates import Certificates
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "client" / "cpp"
KIT = ROOT / "conformance" / "run.py"
SECONDS = 120


def missing() -> str | None:
    """What this machine lacks to build the client, in words."""
    programs = ("g++", "cmake", "pkg-config", "protoc", "grpc_cpp_plugin")
    lacking = [each for each in programs if shutil.which(each) is None]
    if "pkg-config" not in lacking:
        found = subprocess.run(
            ["pkg-config", "--exists", "grpc++", "protobuf", "libcrypto", "nlohmann_json"],
            check=False,
        )
        lacking += ["grpc++ or nlohmann-json"] if found.returncode else []
    return (
        f"the C++ client needs {', '.join(lacking)}: see client/cpp/README.md" if lacking else None
    )


WHY_NOT = missing()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    # One worker builds it, once.
    pytest.mark.xdist_group("cpp"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built programs: a temporary one, without optimization, if none is named."""
    named = os.environ.get("BACKHAUL_CPP_BUILD")
    folder = Path(named) if named else tmp_path_factory.mktemp("cpp") / "build"
    kind = [] if named else ["-D", "CMAKE_BUILD_TYPE=Debug"]
    for command in (
        ["-S", str(SOURCE), "-B", str(folder), *kind],
        ["--build", str(folder), "--parallel", "2"],
    ):
        done = subprocess.run(["cmake", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-8000:]
    return folder


class Program:
    """A scenario of scenarios.cpp, running."""

    def __init__(self, built: Path, target: str, name: str, *options: str) -> None:
        self._name = name
        self.process = subprocess.Popen(
            [built / "scenarios", target, name, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def until_now(self) -> list[str]:
        """What it prints until it waits."""
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            if line == "now\n":
                return lines
            lines.append(line.strip())
        raise AssertionError(f"{self._name} ended with {lines}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def rest(self) -> list[str]:
        """What it prints until it ends well, which it is told to do."""
        printed, _ = self.process.communicate("\n", timeout=SECONDS)
        assert self.process.returncode == 0, printed
        return printed.split("\n")[:-1]


@pytest.fixture
def run(built: Path, target: str) -> Iterator[Callable[..., Program]]:
    """Starts a scenario, on the tests' own server if no other is named."""
    started: list[Program] = []

    def start(name: str, *options: str, at: str = target) -> Program:
        started.append(Program(built, at, name, *options))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that has the sessions of one test alone."""
    with serving() as running:
        yield running


@contextmanager
def faulty(server: Server) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(server.targets[0])
    try:
        yield proxy
    finally:
        proxy.close()


def sessions(server: Server) -> list[Any]:
    """Those that are open."""
    with grpc.insecure_channel(server.targets[0].removeprefix("grpc://")) as channel:
        stub = service_pb2_grpc.BackhaulServiceStub(channel)
        return list(stub.ListSessions(service_pb2.ListSessionsRequest(), timeout=SECONDS).sessions)


def the_session(server: Server) -> Any:
    (only,) = sessions(server)
    return only


# Without a server, and as the README says


def test_checks_that_need_no_server_hold(built: Path) -> None:
    done = subprocess.run([built / "unit"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "all hold\n", "")


def test_example_prints_what_the_readme_says(built: Path, target: str) -> None:
    place = target.removeprefix("grpc://")
    done = subprocess.run(
        [built / "example", place], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    told = re.search(
        r"prints\n\n```\n(.*?)```", (SOURCE / "README.md").read_text("utf-8"), re.DOTALL
    )
    assert told is not None
    assert (done.returncode, done.stdout) == (0, told[1]), done.stderr


def test_readme_shows_a_part_of_the_example() -> None:
    readme = (SOURCE / "README.md").read_text("utf-8")
    shown = re.search(r"```cpp\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    example = [
        each.strip() for each in (SOURCE / "example/example.cpp").read_text("utf-8").split("\n")
    ]
    lines = [each.strip() for each in shown[1].splitlines()]
    assert [each for each in lines if each not in example] == []


def test_installed_client_is_found_as_the_readme_says(
    built: Path, target: str, tmp_path: Path
) -> None:
    readme = (SOURCE / "README.md").read_text("utf-8")
    shown = re.search(r"```cmake\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    find, link = shown[1].splitlines()
    prefix, folder = tmp_path / "prefix", tmp_path / "build"
    lines = [
        "cmake_minimum_required(VERSION 3.16)",
        "project(yours LANGUAGES CXX)",
        find,
        f'add_executable(yours "{SOURCE / "example" / "example.cpp"}")',
        link,
    ]
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines) + "\n", "utf-8")
    commands: list[list[str | Path]] = [
        ["cmake", "--install", built, "--prefix", prefix],
        ["cmake", "-S", tmp_path, "-B", folder, "-D", f"CMAKE_PREFIX_PATH={prefix}"],
        ["cmake", "--build", folder],
        [folder / "yours", target.removeprefix("grpc://")],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("loss 72\n")


def test_nobody_there_is_unavailable(run: Callable[..., Program]) -> None:
    with serving() as gone:
        target = gone.targets[0]
    program = run("access", at=target)
    printed, _ = program.process.communicate(timeout=SECONDS)
    assert (program.process.returncode, printed) == (1, "UNAVAILABLE UNAVAILABLE\n")


# Refusals and failures


def test_refused_node_hinders_until_it_goes(run: Callable[..., Program]) -> None:
    assert run("refusal").rest() == [
        "UNKNOWN_OP UNIMPLEMENTED",
        "UNKNOWN_OP UNIMPLEMENTED",
        "9",
        "MISSING_NODE NOT_FOUND",
        "MISSING_NODE NOT_FOUND",
    ]


def test_failed_step_fails_alone(run: Callable[..., Program]) -> None:
    singular = "SINGULAR_MATRIX INVALID_ARGUMENT"
    assert run("failure").rest() == ["9", singular, singular, singular, "81"]


# Sizes and memory


def test_large_arrays_go_by_stream(run: Callable[..., Program], own_server: Server) -> None:
    """12 MB there and back; then 6 MB back for a few bytes, which Execute refuses and the stream answers."""
    assert run("large", at=own_server.targets[0]).rest() == ["1", "6e+06", "1"]


def test_nodes_without_a_name_are_freed(run: Callable[..., Program], own_server: Server) -> None:
    program = run("released", at=own_server.targets[0])
    assert program.until_now() == ["4"]
    assert the_session(own_server).nodes == 3
    program.go_on()
    program.until_now()
    assert the_session(own_server).nodes == 1
    assert program.rest() == []


def test_steps_that_nothing_needs_are_not_sent(
    run: Callable[..., Program], own_server: Server
) -> None:
    program = run("unneeded", at=own_server.targets[0])
    assert program.until_now() == ["2"]
    assert the_session(own_server).steps == 1
    assert program.rest() == []


def test_tapes_close_their_sessions(run: Callable[..., Program], own_server: Server) -> None:
    program = run("closed", at=own_server.targets[0])
    program.until_now()
    assert the_session(own_server).steps == 1
    program.go_on()
    closed = "SESSION_CLOSED FAILED_PRECONDITION"
    assert program.until_now() == ["2", closed, closed]
    assert sessions(own_server) == []
    program.rest()


# What breaks


@pytest.mark.parametrize("fault", ["cut on the way up", "cut on the way down", "answer lost"])
def test_broken_question_is_asked_again(
    run: Callable[..., Program], own_server: Server, fault: str
) -> None:
    with faulty(own_server) as proxy:
        program = run("broken", at=proxy.target)
        assert program.until_now() == ["2"]
        proxy.arm(Fault(fault, at=1))
        program.go_on()
        assert program.until_now() == ["4"]
        assert proxy.happened
        assert the_session(own_server).steps == 2
        program.rest()


@pytest.mark.parametrize(("fault", "run_before"), [("half-open down", 2), ("half-open up", 1)])
def test_question_in_doubt_runs_once(
    run: Callable[..., Program], own_server: Server, fault: str, run_before: int
) -> None:
    """The request or its answer is lost, and the timeout passes. Later the tape goes on."""
    with faulty(own_server) as proxy:
        program = run("doubt", "1500", at=proxy.target)
        program.until_now()
        proxy.arm(Fault(fault))
        program.go_on()
        assert program.until_now() == ["DEADLINE_EXCEEDED DEADLINE_EXCEEDED"]
        assert the_session(own_server).steps == run_before
        proxy.heal()
        program.go_on()
        assert program.until_now() == ["16", "32"]
        assert the_session(own_server).steps == 3
        program.rest()


def test_question_in_doubt_that_is_refused_in_the_end(
    run: Callable[..., Program], own_server: Server
) -> None:
    with faulty(own_server) as proxy:
        program = run("doubt_refused", "1500", at=proxy.target)
        program.until_now()
        proxy.arm(Fault("half-open up"))
        program.go_on()
        assert program.until_now() == ["DEADLINE_EXCEEDED DEADLINE_EXCEEDED"]
        proxy.heal()
        assert program.rest() == ["UNKNOWN_OP UNIMPLEMENTED", "4"]


def test_tape_of_a_restarted_server_is_lost(run: Callable[..., Program]) -> None:
    with serving() as first:
        place = first.targets[0].removeprefix("grpc://")
        program = run("lost", at=place)
        program.until_now()
    again = Server(Dispatcher(Engine()), [place])
    again.start()
    try:
        assert program.rest() == [
            "SESSION_LOST ABORTED",
            "SESSION_LOST ABORTED",
            "no error",
            "5",
        ]
    finally:
        again.stop(None)


# Who calls


def test_token_and_tls(run: Callable[..., Program], tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    pair = authority.issue("localhost", "127.0.0.1")
    token, tokens = new_token(), tmp_path / "tokens"
    tokens.write_text(line_of("alice", token) + "\n", "utf-8")
    certificates = Certificates(pair.certificate, pair.key)
    with serving(tokens=tokens, certificates=certificates) as server:
        place = server.targets[0].removeprefix("grpcs://")
        assert run("access", "30000", token, str(authority.roots), at=place).rest() == [
            "backhaul.v1",
            "6",
        ]
        for wrong, told in (
            (["wrong", str(authority.roots)], "UNAUTHENTICATED UNAUTHENTICATED\n"),
            ([token, str(other.roots)], "UNAVAILABLE UNAVAILABLE\n"),
        ):
            program = run("access", "30000", *wrong, at=place)
            printed, _ = program.process.communicate(timeout=SECONDS)
            assert (program.process.returncode, printed) == (1, told)


# The kit


def test_conformance(built: Path, target: str) -> None:
    command = [sys.executable, str(KIT), "--runner", str(built / "runner"), "--target", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
