"""Errors as a client in any language meets them: in the trailing metadata of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status


def refusal(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """Status, reason and facts of the error that a call ends with."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error: Any = caught.value
    metadata = dict(error.trailing_metadata())
    status = Status.FromString(metadata["grpc-status-details-bin"])
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "backhaul"
    assert status.code == error.code().value[0]
    return error.code(), info.reason, dict(info.metadata)
