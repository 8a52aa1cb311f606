"""Targets: how a user says where the server is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import quote

from backhaul_proto.errors import BackhaulError, make_error

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

VARIABLE: Final = "BACKHAUL_TARGET"
EMBEDDED: Final = "embedded"

_MAX_SOCKET_PATH: Final = 107  # Linux: sun_path has 108 bytes, the last of them 0
_FORMS: Final = (
    "Write host:port, grpc://host:port, grpcs://host:port (with TLS), unix:///path/to/socket, "
    "or embedded."
)


@dataclass(frozen=True, slots=True)
class Target:
    """A server's place.

    Attributes:
        text: as the user wrote it.
        kind: how it is reached.
        address: what gRPC dials; empty when embedded.
        local: whether only this machine can be at the other end.
    """

    text: str
    kind: Literal["embedded", "plain", "tls", "unix"]
    address: str = ""
    local: bool = True

    def __str__(self) -> str:
        return self.text

    @property
    def path(self) -> str:
        """The socket of a unix target."""
        return self.text.removeprefix("unix://")


def default_target(environ: Mapping[str, str]) -> str:
    """The target of the default connection: of the environment, else embedded."""
    return environ.get(VARIABLE, "") or EMBEDDED


def parse_target(text: str) -> Target:
    """Read a target.

    >>> parse_target("grpcs://example.org:443").address
    'example.org:443'

    Raises:
        InvalidArgument: INVALID_TARGET.
    """
    if not isinstance(text, str):
        raise _invalid(text, "it is no string")
    if text == EMBEDDED:
        return Target(text, "embedded")
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _network(text, "plain", text)
    if scheme == "unix":
        return _unix(text, rest)
    if scheme == "grpc":
        return _network(text, "plain", rest)
    if scheme == "grpcs":
        return _network(text, "tls", rest)
    raise _invalid(text, f"there is no scheme {scheme!r}")


def _network(text: str, kind: Literal["plain", "tls"], place: str) -> Target:
    host, separator, port = place.rpartition(":")
    if not separator and place:
        raise _invalid(text, f"the port is missing, as in {place}:50051")
    if host.startswith("[") and host.endswith("]"):
        if not _is_ip(host[1:-1]):
            raise _invalid(text, f"{host!r} is no IPv6 address")
    elif ":" in host:
        raise _invalid(text, "an IPv6 address stands in brackets, as in [::1]:50051")
    elif not host or not all(each.isalnum() or each in ".-_" for each in host):
        raise _invalid(text, f"{host!r} is no host name" if host else "the host is missing")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _invalid(text, f"{port!r} is no port" if port else "the port is missing")
    return Target(text, kind, f"{host}:{int(port)}", _is_loopback(host.strip("[]")))


def _unix(text: str, path: str) -> Target:
    if not path.startswith("/") or "\0" in path:
        raise _invalid(text, f"the path of the socket, {path!r}, does not begin at /")
    length = len(path.encode("utf-8", "surrogateescape"))
    if length > _MAX_SOCKET_PATH:
        raise make_error(
            "INVALID_TARGET",
            f"The target {text!r} cannot be used: the path has {length} bytes, and the system takes "
            f"at most {_MAX_SOCKET_PATH} for a socket. Put the socket into a directory with a shorter "
            "path.",
            target=text,
            expected=_MAX_SOCKET_PATH,
            actual=length,
        )
    return Target(text, "unix", f"unix:{quote(path)}")


def _is_ip(host: str) -> bool:
    return _ip(host) is not None


def _is_loopback(host: str) -> bool:
    address = _ip(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _ip(host: str) -> IPv4Address | IPv6Address | None:
    from ipaddress import ip_address  # slow to import, and embedded has no use for it

    try:
        return ip_address(host)
    except ValueError:
        return None


def _invalid(text: object, why: str) -> BackhaulError:
    return make_error(
        "INVALID_TARGET",
        f"The target {text!r} cannot be used: {why}. {_FORMS}",
        target=text,
    )
