"""The committed vectors and the Python runner, on a real server."""

from __future__ import annotations

import sys
from typing import Any

import grpc
import pytest
from conformance import generate, goldens, python_runner, run
from conformance.vector import GROUPS, array_of, read, tensor_json
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from rich.console import Console

from backhaul_proto.catalog.ops import CATALOG
from backhaul_proto.v1 import service_pb2

METHOD = "/backhaul.v1.BackhaulService/Execute"


def test_the_python_runner_answers_every_vector(target: str) -> None:
    command = [sys.executable, python_runner.__file__, "--target", target.removeprefix("grpc://")]
    groups = {group: read(group) for group in GROUPS}
    outcomes = run.run(command, groups)
    assert {group: each.failed for group, each in outcomes.items() if each.failed} == {}
    assert {group: len(each.passed) for group, each in outcomes.items()} == {
        group: len(vectors) for group, vectors in groups.items()
    }
    assert run.report(outcomes, Console(quiet=True)) == 0


def test_every_op_has_a_vector() -> None:
    called = {call["op"] for vector in read("ops") for call in vector.case["calls"]}
    assert {entry.name for entry in CATALOG.values() if not entry.private} <= called


@pytest.mark.parametrize("group", GROUPS)
def test_names_are_given_once(group: str) -> None:
    names = [each.name for each in read(group)]
    assert names
    assert len(names) == len(set(names))


@pytest.mark.corpus
@pytest.mark.parametrize("group", GROUPS)
def test_the_committed_vectors_are_current(group: str) -> None:
    if not (generate.CORPUS / "cases.jsonl").is_file():
        pytest.skip(f"no corpus at {generate.CORPUS}: set BACKHAUL_CORPUS to its folder")
    assert generate.stale(group, generate.MAKERS[group](generate.CORPUS)) is None


def test_the_committed_goldens_are_current() -> None:
    assert goldens.make() == goldens.read()


@pytest.mark.parametrize("golden", goldens.read(), ids=lambda each: each.name)
def test_a_golden_is_answered_byte_by_byte(target: str, golden: goldens.Golden) -> None:
    session = service_pb2.ExecuteRequest.FromString(golden.request).session
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        execute: Any = channel.unary_unary(METHOD)  # no serializers: bytes as they are
        if golden.error is None:
            answer = service_pb2.ExecuteResponse.FromString(execute(golden.request, timeout=120))
            assert goldens.stripped(answer) == golden.answer
            close: Any = channel.unary_unary("/backhaul.v1.BackhaulService/CloseSession")
            close(service_pb2.CloseSessionRequest(session=session).SerializeToString())
            return
        with pytest.raises(grpc.RpcError) as caught:
            execute(golden.request, timeout=120)
    error: Any = caught.value
    status = Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert {"reason": info.reason, "code": error.code().name} == golden.error


def test_rounding_of_operands_is_no_change_and_all_else_is() -> None:
    made = read("ops")[0].case
    assert generate.alike(made, made)
    value = array_of(made["sources"][0]["value"])
    for factor, same in ((1 + 2.0**-23, True), (1.01, False)):
        source = {**made["sources"][0], "value": tensor_json(value * value.dtype.type(factor))}
        assert generate.alike(made, {**made, "sources": [source]}) is same
    assert not generate.alike(made, {**made, "split": True})
