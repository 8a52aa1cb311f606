"""What a container makes at its first start: a token, and a certificate; and that it lets them be later."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.containers.building import CHECKOUT, debian_mirror
from tests.e2e.server_process import serving

import backhaul as bh

SCRIPT = CHECKOUT / "server/container/first-start"


@dataclass(frozen=True)
class Volumes:
    """The two folders, and the script run on them."""

    server: Path
    client: Path
    programs: Path

    def first_start(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SCRIPT), *words],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
                "BACKHAUL_SERVER_FILES": str(self.server),
                "BACKHAUL_CLIENT_FILES": str(self.client),
            },
        )

    def token(self) -> str:
        return (self.client / "token").read_text().strip()

    def lines(self) -> list[str]:
        return (self.server / "tokens").read_text().splitlines()


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    made = Volumes(*(tmp_path / name for name in ("server", "client", "programs")))
    for folder in (made.server, made.client, made.programs):
        folder.mkdir()
    command = made.programs / "backhaul"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m backhaul "$@"\n')
    command.chmod(0o755)
    return made


def line(name: str, token: str) -> str:
    return f"{name}:{hashlib.sha256(token.encode()).hexdigest()}"


def test_a_token_is_made_once(volumes: Volumes) -> None:
    done = volumes.first_start("token")
    assert done.returncode == 0, done.stderr
    token = volumes.token()
    assert volumes.lines() == [line("compose", token)]
    assert token not in done.stdout + done.stderr
    for path in (volumes.server / "tokens", volumes.client / "token"):
        assert path.stat().st_mode & 0o777 == 0o600
    assert volumes.first_start("token").returncode == 0
    assert volumes.token() == token
    assert volumes.lines() == [line("compose", token)]


def test_a_token_thrown_away_is_no_longer_let_in(volumes: Volumes) -> None:
    volumes.first_start("token")
    before = volumes.token()
    others = line("alice", "hers")
    with (volumes.server / "tokens").open("a") as file:
        file.write(f"{others}\n")
    (volumes.client / "token").unlink()
    assert volumes.first_start("token").returncode == 0
    assert volumes.token() != before
    assert volumes.lines() == [others, line("compose", volumes.token())]


def test_a_server_and_a_client_with_what_was_made(volumes: Volumes) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    assert volumes.first_start("token").returncode == 0
    done = volumes.first_start("certificate", "server-tls", "localhost")
    assert done.returncode == 0, done.stderr
    key, certificate = volumes.server / "tls.key", volumes.server / "tls.crt"
    assert key.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in volumes.client.iterdir()) == ["ca.pem", "token"]
    made = certificate.read_bytes()
    assert volumes.first_start("certificate", "server-tls", "localhost").returncode == 0
    assert certificate.read_bytes() == made
    options = ("--token-file", str(volumes.server / "tokens"), "--tls-cert", str(certificate))
    with serving(*options, "--tls-key", str(key)) as server:
        port = server.target.rpartition(":")[2]
        roots = volumes.client / "ca.pem"
        for host, name in (("localhost", None), ("127.0.0.1", None), ("127.0.0.1", "server-tls")):
            tls = bh.TLS(roots=roots, server_name=name)
            where = f"grpcs://{host}:{port}"
            with bh.connect(where, token=volumes.token(), tls=tls, timeout=60) as connection:
                assert connection.ping() > 0
        with (
            pytest.raises(bh.Unauthenticated),
            bh.connect(
                f"grpcs://localhost:{port}", token="x" * 43, tls=bh.TLS(roots=roots)
            ) as wrong,
        ):
            wrong.ping()


def test_other_words_are_told_what_there_is(volumes: Volumes) -> None:
    done = volumes.first_start("nonsense")
    assert done.returncode == 2
    assert "token" in done.stderr
    assert list(volumes.server.iterdir()) == []


def test_the_mirror_is_the_one_that_apt_uses() -> None:
    targets = (
        "Debian-Security http://security.example/debian-security/\n"
        "Node https://node.example/\n"
        "Debian http://mirror.example/debian/\n"
    )
    assert debian_mirror(targets) == "http://mirror.example/debian"
    assert debian_mirror("Ubuntu http://mirror.example/ubuntu/\n") == "http://deb.debian.org/debian"
