"""The kit's verdicts: what a runner may answer, and what is a failure."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conformance import python_runner, run
from conformance.cases.building import CaseBuilder
from conformance.vector import Vector
from rich.console import Console

STUB = Path(__file__).parent / "stub_runner.py"


def value() -> Vector:
    case = CaseBuilder("one")
    case.values(case.leaf(1.0))
    return case.vector(exact=True)


def refusal() -> Vector:
    return CaseBuilder("one").refusal("UNKNOWN_OP", "UNIMPLEMENTED")


def verdict(way: str, *vectors: Vector, seconds: float = 60.0) -> tuple[int, list[str]]:
    """The exit status of the kit, and the differences, for a runner that answers this way."""
    outcomes = run.run([sys.executable, str(STUB), way], {"group": list(vectors)}, seconds)
    status = run.report(outcomes, Console(quiet=True))
    return status, [wrong for _, wrong in outcomes["group"].failed]


@pytest.mark.parametrize(("way", "vector"), [("right", value()), ("error", refusal())])
def test_right_answers_pass(way: str, vector: Vector) -> None:
    assert verdict(way, vector, vector) == (0, [])


@pytest.mark.parametrize(
    ("way", "vector", "words"),
    [
        ("wrong-value", value(), "2.0"),
        ("wrong-dtype", value(), "int64"),
        ("wrong-shape", value(), r"shape \(1,\), not"),
        ("too-few", value(), "1 expected, 0 answered"),
        ("wrong-name", value(), "named 'another'"),
        ("no-base64", value(), "no tensor"),
        ("no-json", value(), "no JSON"),
        ("error", value(), "in place of an answer"),
        ("right", refusal(), "an answer in place of the error"),
        ("wrong-reason", refusal(), "SHAPE_MISMATCH"),
        ("wrong-code", refusal(), "NOT_FOUND"),
        ("end", value(), "ended with status 3"),
        ("twice", value(), "a line more"),
        ("bad-status", value(), "exit status is 4"),
    ],
)
def test_what_is_wrong_or_missing_fails(way: str, vector: Vector, words: str) -> None:
    status, differences = verdict(way, vector)
    assert status == 1
    assert len(differences) == 1
    assert re.search(words, differences[0])


def test_a_runner_that_hangs_is_killed_and_what_follows_is_missing() -> None:
    status, differences = verdict("hang", *[value()] * (run.STARTS + 1), seconds=0.05)
    assert status == 1
    assert differences[: run.STARTS] == ["no answer in 0.05 s: the runner was killed"] * run.STARTS
    assert "not asked" in differences[-1]


def test_no_case_at_all_is_no_success() -> None:
    assert verdict("right") == (1, [])


def test_numbers_are_compared_within_the_vectors_tolerance() -> None:
    near = value()
    assert verdict("wrong-value", Vector(near.case, near.expect, {"values": [0.0, 1.0]})) == (0, [])
    assert verdict("wrong-value", Vector(near.case, near.expect, {"values": [0.0, 0.5]}))[0] == 1


def command_line(runner: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, run.__file__, "--only", "sessions", "--runner", runner]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_the_command_starts_a_server_of_its_own() -> None:
    done = command_line(f"{sys.executable} {python_runner.__file__}")
    assert done.returncode == 0, done.stderr
    assert re.search(r"sessions\W+9\W+0\W", done.stdout)


def test_the_command_fails_and_says_why() -> None:
    done = command_line(f"{sys.executable} -c pass")
    assert done.returncode == 1
    assert "sessions / a-chain-a-block-each: " in done.stdout
    assert "does not start" in command_line("no-such-program").stderr
