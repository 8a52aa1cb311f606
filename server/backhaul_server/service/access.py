"""Who is calling: known by a bearer token, by a certificate, or not asked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.tokens import digest_of, read_tokens
from backhaul_server.service.entry import ANYONE, Access, Open
from backhaul_server.service.watched import Watched

BY_CERTIFICATE: Final = "cert:"
"""Begins the principals of certificates. No token's name has a colon."""

_SCHEME: Final = "bearer "

Metadata = Iterable[tuple[str, str]]


class Tokens:
    """Knows the callers by their tokens.

    The file is looked at once a second at most, and read again when it has changed. A new one that cannot be
    used leaves the old one in force, with an error in the log.

    Args:
        path: of the file; see `backhaul_proto.tokens`.
        clock: seconds, monotonic.

    Raises:
        InvalidArgument: INVALID_VALUE, the file cannot be used.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        def read() -> dict[bytes, str]:
            try:
                return read_tokens(path.read_text("utf-8"))
            except UnicodeDecodeError:
                raise make_error("INVALID_VALUE", "It is no text in UTF-8.") from None

        self._names = Watched(f"The token file {path}", [path], read, clock=clock)

    def principal(self, context: Any) -> str:
        """The name beside the token's digest.

        Raises:
            Unauthenticated: there is no token, or nobody's.
        """
        name = self._name(context.invocation_metadata())
        if name is None:
            raise unauthenticated()
        return name

    def know(self, metadata: Metadata) -> bool:
        """Whether a call with this metadata is of somebody who is known."""
        return self._name(metadata) is not None

    def name_of(self, token: str) -> str:
        """Whose token it is.

        Raises:
            Unauthenticated: nobody's.
        """
        name = self._found(token)
        if name is None:
            raise unauthenticated()
        return name

    def _name(self, metadata: Metadata) -> str | None:
        for key, value in metadata:
            if key == "authorization":
                return self._found(value[7:]) if value[:7].lower() == _SCHEME else None
        return None

    def _found(self, token: str) -> str | None:
        # The time that a lookup takes tells at most how a digest begins, and nobody can choose what
        # token has a digest that begins so: of the token it tells nothing.
        return self._names.value().get(digest_of(token))


class ClientCertificates:
    """Knows the callers by their certificates, which the handshake has verified.

    The principal is ``cert:`` and the certificate's first subject alternative name; where it has none, its
    common name. Callers of a unix socket have none: whoever may open it is nobody in particular.
    """

    def principal(self, context: Any) -> str:
        """The name in the certificate.

        Raises:
            Unauthenticated: there is none.
        """
        names = context.peer_identities()
        if names:
            first: bytes = names[0]
            return BY_CERTIFICATE + first.decode("utf-8", "backslashreplace")
        if context.peer().startswith("unix:"):
            return ANYONE
        raise unauthenticated()


def access_of(tokens: Tokens | None, *, mutual: bool) -> Access:
    """Who tells who is calling. With tokens it is they, also where certificates are verified besides.

    Args:
        tokens: None: there is no file of them.
        mutual: whether TCP clients have certificates that were verified.
    """
    if tokens is not None:
        return tokens
    return ClientCertificates() if mutual else Open()


def unauthenticated() -> BackhaulError:
    """The same for all who are not known, whatever they sent."""
    return make_error(
        "UNAUTHENTICATED",
        "The server does not know who is calling. Give it a token that is in its token file: "
        "connect(token=...) or $BACKHAUL_TOKEN; other clients send metadata `authorization: Bearer ...`.",
    )
