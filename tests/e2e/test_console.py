"""``backhaul serve --console`` in a process of its own."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.e2e.server_process import serving

import backhaul as bh
from backhaul_proto.tokens import line_of, new_token


def get(url: str, token: str) -> dict[str, object]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as response:
        found: dict[str, object] = json.loads(response.read())
    return found


def test_its_address_and_password_are_told_and_it_ends_with_the_server() -> None:
    with serving("--console", "0") as server:
        assert server.process.stdout is not None
        told = server.process.stdout.readline()
        found = re.fullmatch(r"console on (http://127\.0\.0\.1:\d+/), password (\S+)\n", told)
        assert found is not None, told
        url, password = found.groups()
        with bh.connect(server.target, timeout=30) as connection, bh.Tape(connection) as tape:
            held = tape.leaf(1.0)
            tape.flush()
            page = get(f"{url}sessions.json", password)
            assert isinstance(page["sessions"], list)
            assert len(page["sessions"]) == 1
            del held
        status, log = server.stop()
        assert status == 0
        assert password not in json.dumps(log)
        with pytest.raises(urllib.error.URLError):
            get(f"{url}sessions.json", password)


def test_with_a_token_file_its_tokens_are_asked(tmp_path: Path) -> None:
    token = new_token()
    file = tmp_path / "tokens"
    file.write_text(f"{line_of('alice', token)}\n")
    with serving("--console", "0", "--token-file", str(file)) as server:
        assert server.process.stdout is not None
        told = server.process.stdout.readline()
        assert told.endswith("with a token as password\n")
        url = told.split()[2].rstrip(",")
        assert get(f"{url}sessions.json", token)["principal"] == "alice"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(f"{url}sessions.json", "wrong")
