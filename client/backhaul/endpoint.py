"""Where a server is, and how it is spoken to: what `connect` is given, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backhaul.limits import byte_limit
from backhaul.progress import Reporting, reporting
from backhaul.record import RECOVER_BYTES
from backhaul.targets import Target, default_target, parse_target
from backhaul.tls import TLS, checked_tls
from backhaul_proto.errors import make_error

MAX_TIMEOUT: Final = 1e9

TOKEN_VARIABLE: Final = "BACKHAUL_TOKEN"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server, and what calls to it have in common.

    Attributes:
        target: where it is.
        token: sent with each call as a bearer token.
        tls: what is shown and checked by TLS; None: the server's certificate, by the system's roots.
        timeout: seconds that each call may take; None: as long as it takes.
        shared_memory: whether large tensors travel by shared memory; None: where it can be had.
        reporting: is told how far large transfers are.
        recover_bytes: bytes that a tape's record may take, by which it is made again on a server that lost
            it; None: there is none.
    """

    target: Target
    token: str | None = field(default=None, repr=False)
    tls: TLS | None = None
    timeout: float | None = None
    shared_memory: bool | None = None
    reporting: Reporting | None = None
    recover_bytes: int | None = None


def endpoint(
    target: str | None,
    token: str | None,
    tls: TLS | str | os.PathLike[str] | None,
    timeout: float | None,
    shared_memory: bool | None = None,
    progress: Any = None,
    recover: Any = False,
    recover_bytes: Any = None,
) -> Endpoint:
    """What `connect` was given.

    Raises:
        InvalidArgument: INVALID_TARGET; INVALID_VALUE for a token, timeout, progress or combination that
            cannot be.
        PermissionDenied: the token would travel in the clear.
    """
    parsed = parse_target(default_target(os.environ) if target is None else target)
    secured = checked_tls(tls)
    if secured is not None:
        parsed = _with_tls(parsed)
    shown, source = _token(token, os.environ)
    if shown is not None and parsed.kind == "plain" and not parsed.local:
        raise make_error(
            "PERMISSION_DENIED",
            f"The token ({source}) would travel to {parsed} in the clear, for anyone on the way to read. Use "
            "grpcs://host:port, or no token: token=''.",
            target=parsed,
        )
    _check_shared_memory(shared_memory, parsed)
    seconds = _seconds(timeout)
    record = _record_bytes(recover, recover_bytes)
    return Endpoint(parsed, shown, secured, seconds, shared_memory, reporting(progress), record)


def _token(given: Any, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """The token, and where it is from; an empty one is none. Errors do not show it."""
    token, source = given, "token="
    if given is None:
        token, source = environ.get(TOKEN_VARIABLE, ""), f"${TOKEN_VARIABLE}"
    if not isinstance(token, str) or not all("!" <= each <= "~" for each in token):
        raise make_error(
            "INVALID_VALUE",
            f"The token ({source}) is no string of visible ASCII characters without spaces, as tokens are. "
            "Is there the end of a line in it?",
        )
    return token or None, source


def _record_bytes(recover: Any, given: Any) -> int | None:
    if not isinstance(recover, bool):
        raise make_error(
            "INVALID_VALUE",
            f"recover is {recover!r:.100}; it is True or False: whether tapes are made again on a server "
            "that lost them.",
            actual=f"{recover!r:.100}",
        )
    if given is None:
        return RECOVER_BYTES if recover else None
    limit = byte_limit(given, "recover_bytes", f"{RECOVER_BYTES >> 20} MiB")
    if not recover:
        raise make_error(
            "INVALID_VALUE",
            "recover_bytes bounds what is kept for recover=True, which was not given; write both.",
            actual=limit,
        )
    return limit


def _check_shared_memory(asked: Any, target: Target) -> None:
    if not isinstance(asked, bool | None):
        raise make_error(
            "INVALID_VALUE",
            f"shared_memory is {asked!r:.100}; it is True, False, or None: where it can be had.",
            actual=asked,
        )
    if asked and target.kind != "unix":
        raise make_error(
            "INVALID_VALUE",
            f"shared_memory=True does not go with the target {target}. Let the server listen on a unix "
            "socket too (backhaul serve --unix PATH), and connect to unix://PATH.",
            target=target,
        )


def _seconds(timeout: Any) -> float | None:
    """The timeout; None for one that nobody will see the end of, which gRPC cannot count."""
    if timeout is None:
        return None
    try:
        seconds = float(timeout) if not isinstance(timeout, str) else 0.0
    except (TypeError, ValueError, OverflowError):
        seconds = 0.0
    if not seconds > 0:
        raise make_error(
            "INVALID_VALUE",
            f"timeout is {timeout!r:.100}; it is a number of seconds above 0, or None for no limit.",
            actual=timeout,
        )
    return None if seconds > MAX_TIMEOUT else seconds


def _with_tls(target: Target) -> Target:
    if target.kind not in ("plain", "tls") or target.text.startswith("grpc://"):
        raise make_error(
            "INVALID_VALUE",
            f"tls= does not go with the target {target}; write grpcs://host:port or host:port.",
            target=target,
        )
    return Target(target.text, "tls", target.address, target.local)
