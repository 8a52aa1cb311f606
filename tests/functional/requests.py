"""What a connection sends."""

from __future__ import annotations

from typing import Any

import pytest

import backhaul as bh
from backhaul_proto.messages import Execute


def watched(connection: bh.Connection, monkeypatch: pytest.MonkeyPatch) -> list[Execute]:
    """The requests of a connection from now on."""
    requests: list[Execute] = []
    execute = connection.execute

    def noting(request: Execute) -> Any:
        requests.append(request)
        return execute(request)

    monkeypatch.setattr(connection, "execute", noting)
    return requests
