"""``backhaul ops``, ``check``, ``bench`` and ``einsum`` against servers on real sockets."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.access.authority import Authority, serving
from tests.client.answering import INFO, answering
from typer.testing import CliRunner, Result

import backhaul as bh
from backhaul.cli import app
from backhaul.commands.bench import measurements
from backhaul_proto.catalog.ops import CATALOG
from backhaul_proto.tokens import line_of, new_token
from backhaul_server.service.certificates import Certificates

COMMANDS = ("serve", "demo", "ping", "ops", "sessions", "top", "token", "check", "bench", "einsum")


def run(*words: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(app, [str(each) for each in words], env=environment)


def found_in(shown: Result) -> dict[str, Any]:
    assert shown.exit_code == 0, shown.output
    made: dict[str, Any] = json.loads(shown.stdout)
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    words = [command, "new"] if command == "token" else [command]
    shown = run(*words, "--help")
    assert shown.exit_code == 0
    assert f"Example: backhaul {command}" in shown.stdout
    assert command in run("--help").stdout


@pytest.mark.parametrize("command", COMMANDS[1:])
def test_words_that_make_no_command_are_status_two(command: str) -> None:
    assert run(command, "--nonsense").exit_code == 2


def test_ops_are_those_of_the_server(target: str) -> None:
    found = found_in(run("ops", target, "--json"))
    assert found["target"] == target
    names = [each["name"] for each in found["ops"]]
    assert {"einsum", "exp", "linalg.solve"} <= set(names)
    assert set(names) <= set(CATALOG)
    table = run("ops", target, "--like", "linalg.solve").stdout.splitlines()
    assert [line.split()[0] for line in table] == ["op", "linalg.solve", "linalg.solve_triangular"]


def test_an_op_is_described(target: str) -> None:
    found = found_in(run("ops", target, "--describe", "einsum", "--json"))
    assert found["gradient"]
    assert "subscripts" in [each["name"] for each in found["attributes"]]
    told = run("ops", target, "--describe", "sum").stdout
    assert told.startswith("sum(")
    assert "complex128" in told
    missing = run("ops", target, "--describe", "solve")
    assert missing.exit_code == 1
    assert "linalg.solve" in missing.stderr


def test_a_usable_server_is_found_usable(target: str) -> None:
    found = found_in(run("check", target.removeprefix("grpc://"), "--json"))
    assert found["usable"]
    told = {each["what"]: each for each in found["findings"]}
    assert list(told) == ["answer", "health", "versions", "latency", "gradient", "limits"]
    assert all(each["ok"] for each in told.values())
    assert bh.__version__ in told["versions"]["told"]
    assert run("check", "embedded").exit_code == 0


def test_nobody_there_is_told_and_nothing_else_is_tried() -> None:
    shown = run("check", "127.0.0.1:1", "--timeout", "2", "--json")
    assert shown.exit_code == 1
    found = json.loads(shown.stdout)
    assert not found["usable"]
    assert [each["ok"] for each in found["findings"]] == [False, *[None] * 5]
    assert "[UNAVAILABLE]" in found["findings"][0]["told"]
    assert "backhaul serve" in found["findings"][0]["hint"]


def test_a_token_or_certificate_that_is_missing_is_explained(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    token = new_token()
    file = tmp_path / "tokens"
    file.write_text(f"{line_of('alice', token)}\n")
    with serving(tokens=file, certificates=Certificates(pair.certificate, pair.key)) as server:
        where = [server.targets[0], "--timeout", "5"]
        roots = ["--tls-ca", str(authority.roots)]
        assert run("check", *where, *roots, BACKHAUL_TOKEN=token).exit_code == 0
        no_token = run("check", *where, *roots)
        assert no_token.exit_code == 1
        assert "[UNAUTHENTICATED]" in no_token.stdout
        assert "BACKHAUL_TOKEN" in no_token.stdout
        no_roots = run("check", *where, "--json", BACKHAUL_TOKEN=token)
        assert no_roots.exit_code == 1
        assert "--tls-ca" in json.loads(no_roots.stdout)["findings"][0]["hint"]


def test_another_service_is_no_usable_server() -> None:
    with answering(lambda request, context: INFO) as target:
        shown = run("check", target, "--timeout", "5", "--json")
    assert shown.exit_code == 1
    found = {each["what"]: each for each in json.loads(shown.stdout)["findings"]}
    assert found["answer"]["ok"]
    assert found["versions"]["ok"] is False
    assert found["gradient"]["ok"] is None


def test_what_is_measured_has_units_and_is_above_zero(target: str) -> None:
    found = found_in(run("bench", target, "--seconds", "0.01", "--megabytes", "0.5", "--json"))
    names = [each["name"] for each in found["measured"]]
    assert names[:3] == ["round trip", "small gradient", "small H·v"]
    assert [each["unit"] for each in found["measured"]] == [*["ms"] * 3, *["MB/s"] * 2, "GFLOP/s"]
    assert all(0 < each["least"] <= each["median"] <= each["most"] for each in found["measured"])
    shown = run("bench", target, "--seconds", "0.01", "--megabytes", "0.5")
    assert "GFLOP/s" in shown.stdout
    assert run("bench", target, "--seconds", "-1").exit_code == 2


def test_a_measurement_is_by_its_clock() -> None:
    now = iter(range(10_000))
    with bh.connect("embedded") as connection:
        first = next(measurements(connection, 20.0, 0.01, clock=lambda: float(next(now))))
    assert (first.median, first.repeats) == (1000.0, 8)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(a, np.arange(6.0).reshape(2, 3))
    np.save(b, np.arange(12.0).reshape(3, 4) - 5)
    return a, b


def test_an_einsum_of_files_with_its_derivatives(
    target: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    a, b = (np.load(each) for each in files)
    out = tmp_path / "made"
    words: list[str | Path] = ["einsum", "ij,jk->ik", *files, "--target", target]
    found = found_in(run(*words, "--grad", "--hvp", "-o", out, "--json"))
    assert found["out"] == str(out)
    assert list(found["arrays"]) == ["value", "grad_0", "grad_1", "hvp_0", "hvp_1"]
    ones = np.ones((2, 4))
    with np.load(out) as made:
        np.testing.assert_allclose(made["value"], a @ b)
        np.testing.assert_allclose(made["grad_0"], ones @ b.T)
        np.testing.assert_allclose(made["grad_1"], a.T @ ones)
        np.testing.assert_allclose(made["hvp_0"], ones @ np.ones_like(b).T)
        np.testing.assert_allclose(made["hvp_1"], np.ones_like(a).T @ ones)
    shown = run(*words)
    assert shown.exit_code == 0
    assert "grad_0" not in shown.stdout
    assert f"on {target}" in shown.stdout


def test_cotangents_directions_and_named_arrays(files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = (np.load(each) for each in files)
    rng = np.random.default_rng(7)
    w, v = rng.standard_normal((2, 4)), rng.standard_normal((3, 4))
    np.save(tmp_path / "w.npy", w)
    np.savez(tmp_path / "v.npz", zero=np.zeros_like(a), v=v)
    np.savez(tmp_path / "both.npz", a=a, b=b)
    out = tmp_path / "out.npz"
    how: list[str | Path] = [
        "--cotangent",
        tmp_path / "w.npy",
        "--direction",
        tmp_path / "v.npz",
        "-o",
        out,
    ]
    both = tmp_path / "both.npz"
    ways: list[list[str | Path]] = [[both], [f"{both}:a", f"{both}:b"]]
    for operands in ways:
        assert run("einsum", "ij,jk->ik", *operands, "--hvp", *how).exit_code == 0
        with np.load(out) as made:
            assert sorted(made.files) == ["hvp_0", "hvp_1", "value"]
            np.testing.assert_allclose(made["hvp_0"], w @ v.T)
            np.testing.assert_allclose(made["hvp_1"], np.zeros((3, 4)))


def test_complex_and_integer_operands(tmp_path: Path) -> None:
    z, n = np.array([1 + 2j, 3 - 1j]), np.array([2, 3])
    np.save(tmp_path / "z.npy", z)
    np.save(tmp_path / "n.npy", n)
    out = tmp_path / "out.npz"
    shown = run(
        "einsum", "i,i,i->", tmp_path / "z.npy", tmp_path / "z.npy", tmp_path / "n.npy",
        "--grad", "-o", out,
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    with np.load(out) as made:
        assert sorted(made.files) == ["grad_0", "grad_1", "value"]
        np.testing.assert_allclose(made["value"], np.sum(z * z * n))
        np.testing.assert_allclose(made["grad_0"], np.conj(z * n))  # dL/dRe + i dL/dIm


def test_what_is_wrong_is_one_line_and_status_one(files: tuple[Path, Path], tmp_path: Path) -> None:
    a, b = files
    pickled = tmp_path / "pickled.npy"
    np.save(pickled, np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "some.npz", x=np.ones(2))
    text = tmp_path / "text.npy"
    text.write_text("1 2 3")
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    wrong: list[list[str | Path]] = [
        ["ij,kj->ik", a, b],
        ["ij->", tmp_path / "nowhere.npy"],
        ["i->", pickled],
        ["i->", text],
        ["i->", f"{tmp_path / 'some.npz'}:y"],
        ["i->", tmp_path / "empty.npz"],
        ["ij,jk->ik", a, b, "--hvp", "--direction", a],
        ["ij->", a, "--out", tmp_path / "no" / "out.npz"],
        ["ij->", a, "--target", "nonsense"],
    ]
    for words in wrong:
        shown = run("einsum", *words)
        assert (shown.exit_code, shown.stdout) == (1, ""), shown.output
        assert shown.stderr.startswith("backhaul: ")
        assert shown.stderr.count("\n") == 1
