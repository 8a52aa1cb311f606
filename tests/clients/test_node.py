"""The client for Node, built as a user builds it, against servers in processes of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from tests.access.authority import Authority
from tests.e2e.server_process import serving

from backhaul_proto.tokens import line_of, new_token

ROOT: Final = Path(__file__).parents[2]
KIT: Final = ROOT / "conformance" / "run.py"
SECONDS: Final = 300

MISSING: Final = [each for each in ("node", "npm") if shutil.which(each) is None]

pytestmark = [
    pytest.mark.slow,  # it installs packages
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

ONE: Final = {"dtype": "float64", "shape": [], "data": "AAAAAAAA8D8="}
TWO: Final = {"dtype": "float64", "shape": [], "data": "AAAAAAAAAEA="}


def run(
    *command: str | Path, cwd: Path, environment: Mapping[str, str] | None = None, given: str = ""
) -> str:
    """Standard output of a command that must succeed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, (
        f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed and built in a folder of its own beside the .proto files."""
    folder = tmp_path_factory.mktemp("node")
    built = folder / "client" / "node"
    shutil.copytree(
        ROOT / "client" / "node", built, ignore=shutil.ignore_patterns("node_modules", "dist")
    )
    protos = Path("proto", "backhaul_proto", "v1")
    shutil.copytree(ROOT / protos, folder / protos)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=built)
    run("npm", "run", "build", cwd=built)
    return built


def answers(
    package: Path, cases: Sequence[Mapping[str, Any]], *arguments: str
) -> list[dict[str, Any]]:
    """What the runner says to cases."""
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    said = run("node", package / "dist" / "runner.js", *arguments, cwd=package, given=lines)
    return [json.loads(line) for line in said.splitlines()]


def case(name: str, **more: Any) -> dict[str, Any]:
    """x * x at 1, along 1."""
    return {
        "name": name,
        "sources": [{"kind": "leaf", "value": ONE, "tangent": ONE}],
        "calls": [{"op": "multiply", "operands": [0, 0], "attributes": {}, "results": 1}],
        "ask": {
            "values": [1],
            "pullback": {"loss": 1, "wrt": [0]},
            "hvp": {"loss": 1, "wrt": [0], "tangents": []},
        },
        "chunked": False,
        "split": False,
        **more,
    }


def answer(name: str) -> dict[str, Any]:
    """What must come."""
    return {
        "name": name,
        "values": [ONE],
        "pullback": {"value": ONE, "gradients": [TWO]},
        "hvp": {"value": ONE, "gradients": [TWO], "products": [TWO]},
    }


def test_its_own_tests_pass(package: Path) -> None:
    said = run("npm", "test", cwd=package)
    assert "# fail 0" in said
    assert "# pass 0" not in said


def test_the_example_of_its_readme_prints_what_it_says(package: Path, tmp_path: Path) -> None:
    readme = (package / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```js\n(.*?)```.*?It prints\n\n```\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    (tmp_path / "example.mjs").write_text(found[1], encoding="utf-8")
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "backhaul").symlink_to(package)
    with serving() as server:
        said = run(
            "node", "example.mjs", cwd=tmp_path, environment={"BACKHAUL_TARGET": server.target}
        )
    assert said == found[2]


def test_the_runner_answers_in_blocks_one_by_one_and_in_chunks(package: Path) -> None:
    cases = [case("block"), case("split", split=True), case("chunked", chunked=True)]
    with serving() as server:
        said = answers(package, cases, "--target", server.target)
    assert said == [answer("block"), answer("split"), answer("chunked")]


def test_the_runner_tells_the_servers_reasons(package: Path) -> None:
    call = {"op": "multiply", "operands": [0], "attributes": {}, "results": 1}
    unknown = {"op": "no_such_op", "operands": [0], "attributes": {}, "results": 1}
    cases = [case("count", calls=[call]), case("unknown", calls=[unknown]), case("sound")]
    with serving() as server:
        count, wrong, sound = answers(package, cases, "--target", server.target)
    assert (count["error"]["reason"], count["error"]["code"]) == (
        "OPERAND_COUNT",
        "INVALID_ARGUMENT",
    )
    assert count["error"]["details"]["op"] == "multiply"
    assert (wrong["error"]["reason"], wrong["error"]["code"]) == ("UNKNOWN_OP", "UNIMPLEMENTED")
    assert sound == answer("sound")


def test_tls_and_token(package: Path, tmp_path: Path) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other")
    shown = authority.issue("localhost")
    token = new_token()
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{line_of('alice', token)}\n", encoding="utf-8")
    options = [
        f"--tls-cert={shown.certificate}",
        f"--tls-key={shown.key}",
        f"--token-file={tokens}",
    ]
    with serving(*options) as server:
        place = f"localhost:{server.target.rpartition(':')[2]}"

        def reason(token: str, roots: Path) -> str | None:
            given = ["--target", place, "--token", token, "--ca", str(roots)]
            (said,) = answers(package, [case("x")], *given)
            found: str | None = said.get("error", {}).get("reason")
            assert found is not None or said == answer("x")
            return found

        assert reason(token, authority.roots) is None
        assert reason("another", authority.roots) == "UNAUTHENTICATED"
        assert reason(token, other.roots) == "UNAVAILABLE"


def test_conformance(package: Path) -> None:
    runner = f"node {package / 'dist' / 'runner.js'}"
    run(sys.executable, KIT, "--runner", runner, cwd=ROOT)
