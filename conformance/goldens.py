"""Requests of Execute byte by byte, with the bytes that must come back: for who writes messages by hand.

A golden NAME is NAME.request.binpb, NAME.json (words, and the error where one must come) and, where none
must, NAME.answer.binpb: the answer without its epoch and limits, which are the server's own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from conformance.cases.building import CaseBuilder
from conformance.python_runner import BlockWriter
from conformance.vector import Json

from backhaul_proto import tensors
from backhaul_proto.errors import BackhaulError, status_of
from backhaul_proto.v1 import service_pb2
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.workers.call import Call

FOLDER: Final = Path(__file__).parent / "wire"


@dataclass(frozen=True, slots=True)
class Golden:
    """A request and what must come back.

    Attributes:
        name: of its files.
        words: what it shows.
        request: the bytes of an ExecuteRequest that opens a session of its own.
        answer: the bytes of the ExecuteResponse; None where an error must come.
        error: its reason and code.
    """

    name: str
    words: str
    request: bytes
    answer: bytes | None = None
    error: Json | None = None


def stripped(answer: service_pb2.ExecuteResponse) -> bytes:
    """The bytes of an answer without what is the server's own."""
    answer.ClearField("epoch")
    answer.ClearField("limits")
    return answer.SerializeToString(deterministic=True)


def read() -> list[Golden]:
    """The committed ones."""
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        answer = FOLDER / f"{path.stem}.answer.binpb"
        found.append(
            Golden(
                path.stem,
                told["words"],
                (FOLDER / f"{path.stem}.request.binpb").read_bytes(),
                answer.read_bytes() if answer.is_file() else None,
                told["error"],
            )
        )
    return found


def write(goldens: list[Golden]) -> None:
    """Writes all files, and removes those of goldens that are no more."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.iterdir():
        path.unlink()
    for each in goldens:
        told = {"words": each.words, "error": each.error}
        text = json.dumps(told, indent=2, ensure_ascii=False) + "\n"
        (FOLDER / f"{each.name}.json").write_text(text, encoding="utf-8")
        (FOLDER / f"{each.name}.request.binpb").write_bytes(each.request)
        if each.answer is not None:
            (FOLDER / f"{each.name}.answer.binpb").write_bytes(each.answer)


def make() -> list[Golden]:
    """All of them, answered by the service in this process. Their numbers are exact in any order of sums."""
    dispatcher = Dispatcher.local()
    try:
        return sorted(
            (_answered(dispatcher, *each) for each in _requests()), key=lambda each: each.name
        )
    finally:
        dispatcher.close()


def _requests() -> Iterator[tuple[str, str, service_pb2.ExecuteRequest]]:
    x, v = np.arange(6.0).reshape(2, 3), np.ones((2, 3))

    case = CaseBuilder("value")
    case.call("einsum", case.leaf(x), case.leaf(x.T), subscripts="ij,jk->ik")
    request = _request(case.case)
    request.values.append(3)
    yield "value", "A matrix product of two leaves, by einsum, and its value.", request

    case = CaseBuilder("pullback")
    case.call("sum", case.call("square", case.leaf(x)))
    request = _request(case.case)
    request.pullback.loss = 3
    yield "pullback", "The sum of squares of a leaf, and its gradient.", request

    case = CaseBuilder("hvp")
    case.call("sum", case.call("square", case.leaf(x, v)))
    request = _request(case.case)
    request.hvp.loss = 3
    request.hvp.wrt.nodes.append(1)
    yield "hvp", "The sum of squares of a leaf with a tangent, its gradient and H·v.", request

    case = CaseBuilder("constants")
    for value in (np.array([True, False]), np.arange(3, dtype="int32"), np.float32(1.5), 1 - 2j):
        case.constant(value)
    request = _request(case.case)
    request.values.extend([4, 3, 2, 1])
    yield "constants", "Constants of four element types, asked in the other order.", request

    case = CaseBuilder("attributes")
    case.call("sum", case.leaf(x), axis=(0,), keepdims=True)
    request = _request(case.case)
    request.values.append(2)
    yield "attributes", "A sum along an axis that stays: attributes of two types.", request

    case = CaseBuilder("failed-step")
    case.call("linalg.inv", case.leaf(np.zeros((2, 2))))
    request = _request(case.case)
    request.values.append(2)
    yield (
        "failed-step",
        "The inverse of zeros: the block is committed, the answer carries the failure.",
        request,
    )

    case = CaseBuilder("unknown-op")
    case.call_as_sent("sinn", [case.leaf(x)], {})
    yield "unknown-op", "An op that the catalog has not.", _request(case.case)

    request = _request(CaseBuilder("gap").case)
    request.ClearField("block")
    request.seq = 2
    yield "unopened-session", "A second request to a session that was never opened.", request


def _request(case: Json) -> service_pb2.ExecuteRequest:
    """All steps of a case in one block, as the first request of a session named by the case."""
    block = BlockWriter()
    for source in case["sources"]:
        block.source(source)
    for call in case["calls"]:
        block.call(call, [(True, number) for number in call["operands"]])
    request = service_pb2.ExecuteRequest(seq=1, block=block.write(), tensors=block.tensors)
    request.session.id = hashlib.sha256(case["name"].encode()).digest()[:16]
    request.digest = b"golden"
    return request


def _answered(
    dispatcher: Dispatcher, name: str, words: str, request: service_pb2.ExecuteRequest
) -> Golden:
    written = request.SerializeToString(deterministic=True)
    arrays = [tensors.read(each) for each in request.tensors]
    request.ClearField("tensors")
    try:
        header, results = dispatcher.call(
            "Execute", request.SerializeToString(), arrays, call=Call(None)
        )
    except BackhaulError as error:
        told = {"reason": error.reason, "code": status_of(error)}
        return Golden(name, words, written, error=told)
    answer = service_pb2.ExecuteResponse.FromString(header)
    for each in results:
        tensors.fill(answer.tensors.add(), each)
    return Golden(name, words, written, stripped(answer))
