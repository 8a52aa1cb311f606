"""What a client shows and checks when it connects by TLS."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backhaul_proto.errors import BackhaulError, make_error


@dataclass(frozen=True, slots=True)
class TLS:
    """How to speak TLS with a server, for ``connect(tls=...)``. The files are read at the first call.

    Args:
        roots: file of root certificates (PEM) that the server's certificate is checked against. Left out: the
            system's.
        certificate: file of this client's certificate (PEM), for servers that want one (mutual TLS).
        key: file of its private key (PEM), without a passphrase.
        server_name: the name that the server's certificate must have. Left out: the target's host.

    Example:
        >>> import backhaul as bh
        >>> bh.TLS(roots="ca.pem", server_name="tapes.example.org").server_name
        'tapes.example.org'
    """

    roots: str | os.PathLike[str] | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = field(default=None, repr=False)
    server_name: str | None = None


def checked_tls(given: Any) -> TLS | None:
    """What `connect` was given as ``tls``: a file of root certificates is short for a `TLS` with it.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    if given is None or isinstance(given, TLS):
        tls = given
    elif isinstance(given, str | os.PathLike):
        tls = TLS(roots=given)
    else:
        raise _wrong(
            f"tls={given!r:.100} is neither a file of root certificates (PEM) nor a backhaul.TLS"
        )
    if tls is None:
        return None
    for name in ("roots", "certificate", "key"):
        path = getattr(tls, name)
        if path is not None and not Path(path).is_file():
            raise _wrong(f"tls: {name}={str(path)!r} is no file (PEM)")
    if (tls.certificate is None) != (tls.key is None):
        raise _wrong("tls: a certificate goes with its key, and neither without the other")
    if tls.server_name is not None and not (tls.server_name):
        raise _wrong(f"tls: server_name={tls.server_name!r} is no name")
    return tls


def _wrong(why: str) -> BackhaulError:
    return make_error("INVALID_VALUE", f"{why}.")
