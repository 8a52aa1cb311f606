"""Who can reach an address that a server listens on, and whether it may without more ado."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Final

from backhaul_proto.errors import make_error

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.?")


def check_exposure(addresses: Sequence[str], *, encrypted: bool, authenticated: bool) -> None:
    """Refuse to listen beyond this machine in the clear, or for anybody.

    Args:
        addresses: ``host:port``, or ``unix:/path``, which only this machine can reach.
        encrypted: whether calls by TCP are encrypted.
        authenticated: whether callers by TCP must say, and prove, who they are.

    Raises:
        InvalidArgument: INSECURE_ADDRESS; INVALID_TARGET for a name that stands for nothing.
    """
    if encrypted and authenticated:
        return
    for address in addresses:
        if address.startswith("unix:") or is_loopback(address.rpartition(":")[0]):
            continue
        if not encrypted:
            why = "calls would travel in the clear, for anyone on the way to read and to change"
            do = "Give it a certificate (--tls-cert, --tls-key) and a token file or --client-ca"
        else:
            why = "anybody could call"
            do = "Give it a token file (--token-file), or the authority of clients (--client-ca)"
        raise make_error(
            "INSECURE_ADDRESS",
            f"The server does not listen on {address}: other machines can reach it, and {why}. {do}; listen "
            "on 127.0.0.1 or a unix socket; or say --insecure where the network is trusted.",
            actual=address,
        )


def is_loopback(host: str) -> bool:
    """Whether nothing but this machine can reach the host, for certain. A name: all that it stands for.

    Raises:
        InvalidArgument: INVALID_TARGET, a name that stands for nothing.
    """
    text = host.removeprefix("[").removesuffix("]")
    found = _is_loopback_ip(text)
    if found is not None:
        return found
    if not _HOST_NAME.fullmatch(text):
        return False
    try:
        answers = socket.getaddrinfo(text, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise make_error(
            "INVALID_TARGET",
            f"The server cannot listen on {text}: the name stands for no address ({error}). Give the name or "
            "an address of this machine.",
            actual=text,
        ) from None
    return all(_is_loopback_ip(str(each[4][0])) is True for each in answers)


def _is_loopback_ip(text: str) -> bool | None:
    """None: it is no number."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
