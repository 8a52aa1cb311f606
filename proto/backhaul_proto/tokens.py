"""Bearer tokens: how they are made, and the file in which a server has their digests.

A line is ``name:digest``, the digest being the SHA-256 of the token in hexadecimal. The name is the
principal. Several lines of one name are several tokens of one principal, as while one takes another's place.
Tokens are random and long, so a plain digest gives nobody a way back to them.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path
from typing import Final

from backhaul_proto.errors import BackhaulError, make_error

TOKEN_BYTES: Final = 32

_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")


def new_token() -> str:
    """A random token."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def digest_of(token: str) -> bytes:
    """What the file has of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def line_of(name: str, token: str) -> str:
    """The line of a token in the file, without its end.

    Raises:
        InvalidArgument: INVALID_VALUE, the name cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise make_error(
            "INVALID_VALUE",
            f"{name!r:.100} cannot name a principal: use 1 to 64 letters, digits, or any of . _ @ -",
            actual=name,
        )
    return f"{name}:{digest_of(token).hex()}"


def read_tokens(text: str) -> dict[bytes, str]:
    """The names by digest. Errors name the line and nothing of what is on it.

    >>> read_tokens("# who may call" + chr(10) + "alice:" + "0" * 64)[bytes(32)]
    'alice'

    Raises:
        InvalidArgument: INVALID_VALUE, a line is wrong, or there is none.
    """
    names: dict[bytes, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        name, _, digest = content.partition(":")
        if not _NAME.fullmatch(name) or not _DIGEST.fullmatch(digest):
            raise _wrong(
                number, "is not name:digest, the digest being 64 hexadecimal digits of SHA-256"
            )
        if names.setdefault(bytes.fromhex(digest), name) != name:
            raise _wrong(number, "has a digest that another name has already")
    if not names:
        # Also what a file looks like while an editor writes it anew.
        raise make_error(
            "INVALID_VALUE", "There is no token in the file; `backhaul token new NAME` makes one."
        )
    return names


def add_line(path: Path, line: str) -> None:
    """Add a line to the file, which is made when there is none, for its owner alone to read and write.

    Whoever reads it meanwhile sees the old file or the new one, which has the old one's owner and mode.

    Raises:
        OSError: it cannot be read or written.
    """
    path = path.resolve()  # a link stays one
    old = path.stat() if path.exists() else None
    before = "" if old is None else path.read_text("utf-8")
    if before and not before.endswith("\n"):
        before += "\n"
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{before}{line}\n")
            file.flush()
            if old is not None:  # else the server might not be able to read it any more
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode))
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def _wrong(number: int, what: str) -> BackhaulError:
    return make_error("INVALID_VALUE", f"Line {number} {what}.", line=number)
