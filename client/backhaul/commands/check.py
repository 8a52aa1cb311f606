"""``backhaul check``: is a server usable from here, and if not, why?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import typer
from rich.text import Text

import backhaul as bh
from backhaul.commands.common import (
    FAILED,
    Json,
    Target,
    Timeout,
    TlsCa,
    TlsCert,
    TlsKey,
    TlsName,
    Token,
    console,
    fail,
    print_json,
    table,
    tls_of,
)
from backhaul.endpoint import Endpoint, endpoint
from backhaul_proto.errors import BackhaulError
from backhaul_proto.messages import PROTOCOL
from backhaul_proto.units import size

_PINGS: Final = 10

HINTS: Final = {
    "UNAUTHENTICATED": "Ask who runs the server for a token (backhaul token new), and set BACKHAUL_TOKEN.",
    "PERMISSION_DENIED": "A token goes by TLS alone: write grpcs://host:port.",
    "UNAVAILABLE": "Is it running there (backhaul serve), and is the port open? A server with TLS needs "
    "grpcs://, and --tls-ca where its certificate is of one's own authority.",
    "TLS_HANDSHAKE_FAILED": "Give --tls-ca FILE for a certificate of one's own authority, --tls-name NAME "
    "where it has another name than the target, --tls-cert and --tls-key where the server asks for yours.",
    "DEADLINE_EXCEEDED": "It may be busy, or a firewall swallows what is sent. Try a longer --timeout.",
    "VERSION_MISMATCH": "Install the same version on both sides; is it backhaul that listens there at all?",
    "SERVER_BUSY": "It works at its limits at the moment: backhaul top tells by what of yours.",
    "QUOTA_EXCEEDED": "Close tapes that are not needed: backhaul sessions lists them.",
}
"""What to do about a reason, where its message does not know that somebody is looking for the cause."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked.

    Attributes:
        what: its name.
        ok: whether it is as it should be; None: it could not be looked at, for what failed before.
        told: what was found.
        hint: what to do about it.
    """

    what: str
    ok: bool | None
    told: str
    hint: str = ""


def check(
    target: Target = None,
    timeout: Timeout = 5.0,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Json = False,
) -> None:
    """Check whether a server is usable from here: way there, token, versions, health, a gradient and H·v.

    Status 0: it is; 1: it is not, and it is told why.

    Example: backhaul check localhost:50051

    Example: backhaul check grpcs://tapes.example.org:50051 --tls-ca ca.pem --json
    """
    try:
        tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
        given = endpoint(target, token, tls, timeout)
        with bh.connect(target, token=token, tls=tls, timeout=timeout) as connection:
            found = list(findings(given, connection))
    except BackhaulError as error:  # the words themselves: nothing was asked
        fail(str(error))
    usable = all(each.ok is not False for each in found)
    if as_json:
        print_json(
            {
                "target": str(given.target),
                "usable": usable,
                "findings": [asdict(each) for each in found],
            }
        )
    else:
        made = table("", "", str(given.target))
        for each in found:
            mark = {True: "ok", False: "FAILED", None: "-"}[each.ok]
            made.add_row(mark, each.what, Text(each.told + (f"\n{each.hint}" if each.hint else "")))
        console().print(made)
    if not usable:
        raise typer.Exit(FAILED)


def findings(given: Endpoint, connection: bh.Connection) -> Iterator[Finding]:
    """What is checked, in order. What needs what failed before is not looked at."""
    checks: dict[str, Callable[[], str]] = {
        "answer": lambda: _answer(connection),
        "health": lambda: _health(given),
        "versions": lambda: _versions(connection),
        "latency": lambda: _latency(connection),
        "gradient": lambda: _gradient(connection),
        "limits": lambda: _limits(connection),
    }
    speaks = True
    for what, look in checks.items():
        if not speaks:
            yield Finding(what, None, "not looked at")
            continue
        try:
            yield Finding(what, True, look())
        except BackhaulError as error:
            yield Finding(what, False, str(error), HINTS.get(error.reason, ""))
            speaks = what != "answer"
        except _Wrong as wrong:
            yield Finding(what, False, str(wrong), wrong.hint)
            speaks = what != "versions"  # another protocol's answers mean nothing


class _Wrong(Exception):
    """Something is not as it should be, though nothing raised."""

    def __init__(self, told: str, hint: str) -> None:
        super().__init__(told)
        self.hint = hint


def _answer(connection: bh.Connection) -> str:
    connection.ping()
    return f"it answers at {connection.target}"


def _health(given: Endpoint) -> str:
    from backhaul.transport.health import SERVING, Probe

    if given.target.kind == "embedded":
        return "embedded in this process"
    status = Probe(given).check(given.timeout)
    if status != SERVING:
        raise _Wrong(status, "It is being stopped, or started: ask again in some seconds.")
    return status


def _versions(connection: bh.Connection) -> str:
    info = connection.info()
    if info.protocol != PROTOCOL:
        raise _Wrong(
            f"it speaks {info.protocol}, this client {PROTOCOL}", HINTS["VERSION_MISMATCH"]
        )
    here = bh.__version__
    beside = "" if info.version == here else f", this client {here}"
    return f"backhaul {info.version} ({info.protocol}, {info.backend}){beside}"


def _latency(connection: bh.Connection) -> str:
    ms = [connection.ping() * 1e3 for _ in range(_PINGS)]
    return f"{statistics.median(ms):.2f} ms a round trip (median of {_PINGS})"


def _gradient(connection: bh.Connection) -> str:
    """The gradient and H·v of sum((A x)²), against 2 Aᵀ A x and 2 Aᵀ A v."""
    A = np.arange(6.0).reshape(3, 2)
    x, v = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    with bh.Tape(connection) as tape:
        leaf = tape.leaf(x)
        y = bh.einsum("ij,j->i", A, leaf)
        result = tape.hvp(bh.einsum("i,i->", y, y), tangents={leaf: v})
        gradient, product = result.gradients[leaf], result.hvp[leaf]
    expected = 2 * A.T @ A
    if not (np.allclose(gradient, expected @ x) and np.allclose(product, expected @ v)):
        raise _Wrong(
            f"gradient {gradient} and H·v {product} are wrong; {expected @ x} and {expected @ v} are right",
            "Restart the server. If it stays so, report it: this must not be.",
        )
    return "a small gradient and H·v are right"


def _limits(connection: bh.Connection) -> str:
    limits = connection.info().limits
    parts = [f"messages {size(limits.max_message_bytes)}"]
    if limits.session_memory:
        parts.append(f"a session {size(limits.session_memory)}")
    lease = f"{limits.lease_seconds:g} s" if limits.lease_seconds else "none"
    return ", ".join([*parts, f"lease {lease}"])
