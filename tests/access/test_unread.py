"""What somebody sends who is not known is not read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.contract.refusals import refusal
from tests.e2e.server_process import serving

from backhaul_proto.tokens import line_of

MESSAGE = bytes(200_000_000)


def peak_memory(process: int) -> int:
    """Most bytes that it ever had."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("there is no VmHWM")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="as Linux tells it")
def test_a_large_message_of_nobody_takes_no_memory(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(line_of("alice", "secret"))
    with serving("--token-file", str(tokens)) as server:
        address = server.target.removeprefix("grpc://")
        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(address, options=options) as channel:
            for method in ("Execute", "Leaf", "GetServerInfo"):
                call: Any = channel.unary_unary(f"/backhaul.v1.BackhaulService/{method}")
                before = peak_memory(server.process.pid)
                for token in ("", "Bearer wrong"):
                    metadata = [("authorization", token)]
                    found = refusal(partial(call, MESSAGE, metadata=metadata, timeout=60))
                    assert found[0] is grpc.StatusCode.UNAUTHENTICATED
                assert peak_memory(server.process.pid) - before < len(MESSAGE) / 4
