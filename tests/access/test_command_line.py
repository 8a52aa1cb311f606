"""``backhaul token new``, and ``serve`` and ``ping`` with certificates and tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.access.authority import Authority
from tests.e2e.server_process import serving
from typer.testing import CliRunner

import backhaul as bh
from backhaul.cli import app
from backhaul_proto.tokens import digest_of, read_tokens


def test_a_new_token_is_printed_once_and_its_line_told() -> None:
    shown = CliRunner().invoke(app, ["token", "new", "alice"])
    assert shown.exit_code == 0
    token = shown.stdout.strip()
    assert len(token) == 43
    assert shown.stderr == f"for the server's token file: alice:{digest_of(token).hex()}\n"


def test_a_new_token_is_added_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = [
        CliRunner().invoke(app, ["token", "new", name, "--file", str(file)]).stdout.strip()
        for name in ("alice", "bob", "alice")
    ]
    names = read_tokens(file.read_text())
    assert [names[digest_of(each)] for each in made] == ["alice", "bob", "alice"]


@pytest.mark.parametrize("arguments", [["a b"], ["alice", "--file", "/nowhere/tokens"]])
def test_what_cannot_be_done_prints_no_token(arguments: list[str]) -> None:
    shown = CliRunner().invoke(app, ["token", "new", *arguments])
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("backhaul: ")


def test_a_token_is_made_without_the_servers_libraries() -> None:
    program = (
        "import sys\n"
        "for name in ('pydantic_settings', 'grpc_health', 'grpc_reflection', 'grpc'):\n"
        "    sys.modules[name] = None\n"
        "from backhaul.cli import app\n"
        "app(['token', 'new', 'alice'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, len(done.stdout.strip())) == (0, 43), done.stderr


def test_ping_with_certificates_and_a_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, client = authority.issue("tapes.example.org"), authority.issue("client")
    file = tmp_path / "tokens"
    made = CliRunner().invoke(app, ["token", "new", "alice", "--file", str(file)])
    token = made.stdout.strip()
    options = {
        "--tls-cert": pair.certificate,
        "--tls-key": pair.key,
        "--client-ca": authority.roots,
        "--token-file": file,
        "--max-connection-age": 60,
    }
    given = [str(part) for option in options.items() for part in option]
    with serving("--host", "0.0.0.0", *given) as server:
        assert server.target.startswith("grpcs://0.0.0.0:")
        target = server.target.replace("0.0.0.0", "127.0.0.1")
        how = ["--tls-ca", str(authority.roots), "--tls-name", "tapes.example.org"]
        how += ["--tls-cert", str(client.certificate), "--tls-key", str(client.key)]
        for env in ({"BACKHAUL_TOKEN": token}, {"BACKHAUL_TOKEN": "wrong"}):
            shown = CliRunner().invoke(app, ["ping", target, "--json", *how], env=env)
            if env["BACKHAUL_TOKEN"] == token:
                assert json.loads(shown.stdout)["target"] == target
            else:
                assert shown.exit_code == 1
                assert "[UNAUTHENTICATED]" in shown.stderr
        # An option wins over the environment.
        shown = CliRunner().invoke(
            app, ["ping", target, "--token", token, *how], env={"BACKHAUL_TOKEN": "wrong"}
        )
        assert shown.exit_code == 0
        status, log = server.stop()
    assert status == 0
    for secret in (token, digest_of(token).hex(), "wrong"):
        assert secret not in json.dumps(log)
    assert [each["reason"] for each in log if each["message"] == "refused"] == ["UNAUTHENTICATED"]


def test_a_server_that_anybody_could_reach_does_not_start() -> None:
    command = [sys.executable, "-m", "backhaul", "serve", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "--insecure" in done.stderr
    assert "[INSECURE_ADDRESS]" in done.stderr
    with serving("--host", "0.0.0.0", "--insecure") as server:
        target = server.target.replace("0.0.0.0", "127.0.0.1")
        with bh.connect(target, timeout=120) as connection:
            assert connection.ping() > 0
        _, log = server.stop()
    assert [each["address"] for each in log if each["message"] == "insecure"] == ["0.0.0.0:0"]


def test_the_environment_gives_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    from backhaul.endpoint import endpoint

    def token_of(given: str | None) -> str | None:
        return endpoint("localhost:1", given, None, None).token

    assert token_of(None) is None
    monkeypatch.setitem(os.environ, "BACKHAUL_TOKEN", "ambient")
    assert token_of(None) == "ambient"
    assert token_of("explicit") == "explicit"
    assert token_of("") is None
    assert "ambient" not in repr(endpoint("localhost:1", None, None, None))
    with pytest.raises(bh.PermissionDenied, match=r"\$BACKHAUL_TOKEN.*token=''") as error:
        bh.connect("example.org:1")
    assert "ambient" not in str(error.value)
    bh.connect("example.org:1", token="").close()


@pytest.mark.parametrize("token", ["a\n", "a b", "é", 7, b"a"])
def test_what_cannot_be_a_token_is_refused_and_not_shown(token: object) -> None:
    with pytest.raises(bh.InvalidArgument, match="token=") as error:
        bh.connect("localhost:1", token=token)  # type: ignore[arg-type]  # what is refused
    assert error.value.reason == "INVALID_VALUE"
    assert str(token) not in str(error.value)
