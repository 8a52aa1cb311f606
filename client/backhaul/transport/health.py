"""The standard health check of gRPC, for probes. It needs no library beside gRPC's own."""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.unknown_fields import UnknownFieldSet

from backhaul.endpoint import Endpoint
from backhaul.transport.channel import ChannelUser
from backhaul_proto import codec
from backhaul_proto.errors import make_error

CHECK: Final = "/grpc.health.v1.Health/Check"
SERVING: Final = "SERVING"
_STATUSES: Final = ("UNKNOWN", SERVING, "NOT_SERVING", "SERVICE_UNKNOWN")
"""By their numbers in HealthCheckResponse."""
_STATUS_FIELD: Final = 1


class Probe(ChannelUser):
    """Asks a server whether it serves.

    Args:
        endpoint: the server.

    Raises:
        InvalidArgument: INVALID_TARGET, an embedded one.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        if endpoint.target.kind == "embedded":
            raise make_error(
                "INVALID_TARGET",
                "An embedded server has no health service. Name the server that is to be checked, as "
                "host:port or unix:///path, or set BACKHAUL_TARGET.",
                target=endpoint.target,
            )
        super().__init__(endpoint.target, token=endpoint.token, tls=endpoint.tls)

    def check(self, timeout: float | None) -> str:
        """What the server says of itself: SERVING or another status.

        Raises:
            TransportError: it does not answer, or has no health service.
        """
        with self._channel(grpc) as channel:
            check = channel.unary_unary(CHECK, None, None)
            try:
                return status_of(check(b"", timeout=timeout, metadata=self._metadata))
            except grpc.RpcError as failed:
                raise self._error(failed, timeout, 0) from None


def status_of(answer: bytes) -> str:
    """The status in a serialized HealthCheckResponse.

    >>> status_of(bytes([1 << 3, 2]))
    'NOT_SERVING'
    >>> status_of(bytes([1 << 3 | 2, 1, 120]))  # of a service that is none of health
    'UNKNOWN'
    """
    number = 0
    fields = UnknownFieldSet(codec.parse(Empty, answer))
    for i in range(len(fields)):
        if fields[i].field_number == _STATUS_FIELD and isinstance(fields[i].data, int):
            number = fields[i].data
    return _STATUSES[number] if number < len(_STATUSES) else str(number)
