"""The server's certificate and its key, and the authorities of its clients' certificates."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from backhaul_proto.errors import make_error
from backhaul_server.service.watched import Watched


class Certificates:
    """PEM files for TLS. They are looked at when a client connects, and read again when they have changed.

    New ones that cannot be used leave the old ones in force, with an error in the log.

    Attributes:
        mutual: whether clients must have a certificate too.

    Args:
        certificate: the server's, with those between it and its authority.
        key: its private key, without a passphrase.
        client_ca: authorities whose certificates clients must have; None: clients need none.
        clock: seconds, monotonic.

    Raises:
        InvalidArgument: INVALID_VALUE, a file that cannot be used.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        client_ca: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self.mutual = client_ca is not None
        self._paths = [certificate, key, *([] if client_ca is None else [client_ca])]
        self._files = Watched(
            "The certificates for TLS", self._paths, self._read, every=0, clock=clock
        )
        self._in_force = self._files.value()

    def credentials(self) -> grpc.ServerCredentials:
        """What gRPC listens with."""
        return grpc.dynamic_ssl_server_credentials(
            self._in_force, self._changed, require_client_authentication=self.mutual
        )

    def _changed(self) -> Any:  # gRPC's types know of no None here
        """New certificates; None: those of the last handshake. gRPC asks before each."""
        found = self._files.value()
        if found is self._in_force:
            return None
        self._in_force = found
        return found

    def _read(self) -> grpc.ServerCertificateConfiguration:
        # gRPC says of what it cannot use no more than that, and only when it is used.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self._certificate, self._key, lambda: "")
            if self._client_ca is not None:
                context.load_verify_locations(self._client_ca)
        except ssl.SSLError as error:
            raise make_error(
                "INVALID_VALUE",
                f"{error.reason or error} in {', '.join(map(str, self._paths))}. They are PEM files: a "
                "certificate, the private key that belongs to it, without a passphrase, and the authorities "
                "of clients.",
            ) from None
        pair = (self._key.read_bytes(), self._certificate.read_bytes())
        roots = None if self._client_ca is None else self._client_ca.read_bytes()
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=roots)
