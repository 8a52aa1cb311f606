"""Runs a client library's runner through all vectors, and says where its answers are not right.

python conformance/run.py --runner 'node client/node/dist/runner.js' [--target HOST:PORT]
"""

from __future__ import annotations

import argparse
import json
import queue
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance.comparison import difference
from conformance.vector import GROUPS, Vector, read
from rich.console import Console
from rich.table import Table

CASE_SECONDS: Final = 60.0
STARTS: Final = 5
"""How often a runner that ended too early is started: cases after that count as not answered."""
SHOWN: Final = 10
"""How many differences are printed."""


@dataclass(slots=True)
class Outcome:
    """What became of a group.

    Attributes:
        passed: names of the cases that were answered right.
        failed: (name, difference) of the others.
    """

    passed: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)


class Runner:
    """The process of a runner, fed and read a line at a time."""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
            )
        except OSError as error:
            sys.exit(f"the runner does not start: {error}. Build it first, or correct --runner.")
        # A thread reads, since a pipe cannot be waited for with a timeout everywhere.
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, vector: Vector, seconds: float) -> str | None:
        """Sends a case: its difference in words, None when it was answered right.

        Raises:
            RunnerEnded: it hung and was killed, or has ended.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(vector.case) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise RunnerEnded(f"the runner ended with status {self._process.wait()}") from None
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self._process.kill()
            raise RunnerEnded(f"no answer in {seconds:g} s: the runner was killed") from None
        if not line:
            raise RunnerEnded(f"no answer: the runner ended with status {self._process.wait()}")
        try:
            answer = json.loads(line)
        except ValueError:
            return f"no JSON on standard output: {line.strip()[:100]!r}"
        return difference(vector, answer) if isinstance(answer, dict) else "no JSON object"

    def end(self, seconds: float) -> str | None:
        """Ends its input. In words what is wrong with its end, if anything."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended already: its status tells
            self._process.stdin.close()
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return f"the runner was still there {seconds:g} s after the end of its input"
        finally:
            self._reader.join()
            self._process.stdout.close()
        surplus = "" if self._lines.empty() else self._lines.get()
        if surplus:
            return f"a line more than there were cases: {surplus.strip()[:100]!r}"
        return None if status == 0 else f"the runner's exit status is {status}, not 0"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")


class RunnerEnded(Exception):
    """There is no runner any more to ask."""


def run(
    command: Sequence[str], groups: dict[str, list[Vector]], seconds: float = CASE_SECONDS
) -> dict[str, Outcome]:
    """Feeds all cases to a runner. One that ended is started again for the next case.

    Args:
        command: the runner with all its arguments.
        groups: vectors by group.
        seconds: for each case.
    """
    outcomes = {group: Outcome() for group in groups}
    runner: Runner | None = None
    last: tuple[str, str] | None = None
    starts = 0
    for group, vectors in groups.items():
        for vector in vectors:
            if runner is None:
                if starts == STARTS:
                    given_up = f"not asked: the runner ended too early {STARTS} times"
                    outcomes[group].failed.append((vector.name, given_up))
                    continue
                runner = Runner(command)
                starts += 1
            last = group, vector.name
            try:
                wrong = runner.ask(vector, seconds)
            except RunnerEnded as ended:
                wrong = str(ended)
                runner.end(seconds)
                runner = None
            if wrong is None:
                outcomes[group].passed.append(vector.name)
            else:
                outcomes[group].failed.append((vector.name, wrong))
    if runner is not None and last is not None and (wrong := runner.end(seconds)):
        group, name = last
        outcomes[group].failed.append((f"after {name}", wrong))
    return outcomes


@contextmanager
def serving(target: str | None) -> Iterator[str]:
    """HOST:PORT of the target, or of a server of its own for the time."""
    if target is not None:
        yield target.removeprefix("grpc://").removeprefix("grpcs://")
        return
    with subprocess.Popen(
        [sys.executable, "-m", "backhaul", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            if not line.startswith("listening on grpc://"):
                raise SystemExit("no server came up: see `backhaul serve --port 0`")
            yield line.split()[-1].removeprefix("grpc://")
        finally:
            server.terminate()


def report(outcomes: dict[str, Outcome], console: Console) -> int:
    """Prints a table of the groups and the first differences: the exit status."""
    table = Table(title="Conformance")
    table.add_column("group")
    table.add_column("passed", justify="right")
    table.add_column("failed", justify="right")
    for group, outcome in outcomes.items():
        table.add_row(group, str(len(outcome.passed)), str(len(outcome.failed)))
    console.print(table)
    failed = [(group, *each) for group, outcome in outcomes.items() for each in outcome.failed]
    for group, name, wrong in failed[:SHOWN]:
        console.print(f"{group} / {name}: {wrong}", markup=False, highlight=False, soft_wrap=True)
    if len(failed) > SHOWN:
        console.print(f"... and {len(failed) - SHOWN} more")
    passed = sum(len(outcome.passed) for outcome in outcomes.values())
    return 0 if passed and not failed else 1


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runner", required=True, help="command that starts the runner")
    parser.add_argument("--target", help="HOST:PORT of a server; left out: one is started")
    parser.add_argument("--token", help="passed on to the runner")
    parser.add_argument("--ca", help="passed on to the runner")
    parser.add_argument("--only", action="append", choices=GROUPS, help="these groups alone")
    parser.add_argument("--case", help="the cases alone whose names hold this")
    parser.add_argument("--timeout", type=float, default=CASE_SECONDS, help="seconds for each case")
    arguments = parser.parse_args()
    groups = {
        group: [each for each in read(group) if (arguments.case or "") in each.name]
        for group in arguments.only or GROUPS
    }
    with serving(arguments.target) as target:
        command = [*shlex.split(arguments.runner), "--target", target]
        for name in ("token", "ca"):
            if getattr(arguments, name):
                command += [f"--{name}", getattr(arguments, name)]
        outcomes = run(command, groups, arguments.timeout)
    sys.exit(report(outcomes, Console()))


if __name__ == "__main__":
    main()
