"""Tokens, and the file that has their digests."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

import backhaul as bh
from backhaul_proto.tokens import add_line, digest_of, line_of, new_token, read_tokens

A, B = "a" * 64, "B" * 64


def test_a_token_has_32_random_bytes_and_its_digest_is_sha256() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(each) for each in tokens} == {43}
    assert digest_of("x") == hashlib.sha256(b"x").digest()
    assert line_of("alice", "x") == f"alice:{hashlib.sha256(b'x').hexdigest()}"


def test_a_file_has_names_by_digest_and_several_of_one_name() -> None:
    text = f"# callers\n\n alice:{A}  # since May\r\nalice:{B}\n"
    assert read_tokens(text) == {bytes.fromhex(A): "alice", bytes.fromhex(B): "alice"}
    assert read_tokens(f"a:{A}\na:{A}") == {bytes.fromhex(A): "a"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no token"),
        ("# nobody\n\n", "no token"),
        (f"alice:{A}\nbob", "Line 2 is not"),
        (f"alice:{A[:-1]}", "Line 1 is not"),
        (f"alice:{A}0", "Line 1 is not"),
        (f"alice:{'g' * 64}", "Line 1 is not"),
        (f"alice {A}", "Line 1 is not"),
        (f":{A}", "Line 1 is not"),
        (f"cert:x:{A}", "Line 1 is not"),
        (f"ali ce:{A}", "Line 1 is not"),
        (f"{'x' * 65}:{A}", "Line 1 is not"),
        (f"alice:{A}\nbob:{A}", "Line 2 has a digest"),
    ],
)
def test_a_file_that_is_wrong_is_refused_and_what_is_in_it_not_told(text: str, why: str) -> None:
    with pytest.raises(bh.InvalidArgument, match=why) as error:
        read_tokens(text)
    assert error.value.reason == "INVALID_VALUE"
    for part in ("alice", "bob", A[:10]):
        assert part not in str(error.value)


@pytest.mark.parametrize("name", ["", "cert:x", "a b", "é", "x" * 65, "a\n", "#"])
def test_a_name_that_cannot_be_one(name: str) -> None:
    with pytest.raises(bh.InvalidArgument, match="cannot name a principal"):
        line_of(name, "x")


def test_lines_are_added_for_the_owner_alone_and_the_rest_stays(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    add_line(file, "one")
    assert file.read_text() == "one\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("# comment\nlast without end")
    file.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(file)
    add_line(link, "two")
    assert file.read_text() == "# comment\nlast without end\ntwo\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "tokens"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_line_that_root_adds_leaves_the_file_to_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    add_line(file, "one")
    os.chown(file, 1234, 5678)
    add_line(file, "two")
    assert (file.stat().st_uid, file.stat().st_gid) == (1234, 5678)
    assert file.read_text() == "one\ntwo\n"


def test_a_file_that_cannot_be_written_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    folder.mkdir()
    with pytest.raises(OSError, match="tokens"):
        add_line(folder, "one")
    assert os.listdir(tmp_path) == ["tokens"]
