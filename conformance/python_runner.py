"""A runner written against the generated messages and gRPC alone: a model for clients in other languages.

Every line from standard input is a case, and every line on standard output its answer; README.md has the
form of both. No array is ever looked into: the bytes of a case go to the server as they are.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
from google.rpc import error_details_pb2, status_pb2

from backhaul_proto.v1 import graph_pb2, service_pb2, service_pb2_grpc, tensor_pb2

Json = dict[str, Any]

CHUNK_BYTES: Final = 65536
"""Bytes of a chunk. Small, so that small vectors take several; about 1 MiB is fastest."""
ELEMENT_BYTES: Final = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}


class CaseFailed(Exception):
    """The server refused a request, or answered that a step failed."""

    def __init__(self, reason: str, code: str, details: dict[str, str]) -> None:
        self.told = {"reason": reason, "code": code, "details": details}
        super().__init__(reason)


# Tensors and attributes


def dtype_number(name: str) -> Any:
    """The number of an element type, from its name in lower case."""
    return tensor_pb2.DataType.Value(f"DATA_TYPE_{name.upper()}")


def dtype_name(number: int) -> str:
    """The name of an element type in lower case."""
    return tensor_pb2.DataType.Name(number).removeprefix("DATA_TYPE_").lower()


def tensor_message(tensor: Json) -> tensor_pb2.Tensor:
    """A tensor as it travels."""
    return tensor_pb2.Tensor(
        dtype=dtype_number(tensor["dtype"]),
        shape=tensor["shape"],
        data=base64.b64decode(tensor["data"]),
    )


def tensor_json(message: tensor_pb2.Tensor, data: bytes | None = None) -> Json:
    """A tensor of an answer; ``data`` where its elements came in chunks."""
    elements = message.data if data is None else data
    return {
        "dtype": dtype_name(message.dtype),
        "shape": list(message.shape),
        "data": base64.b64encode(elements).decode(),
    }


def byte_size(message: tensor_pb2.Tensor) -> int:
    """Bytes of a tensor's elements."""
    size = ELEMENT_BYTES[dtype_name(message.dtype)]
    for length in message.shape:
        size *= length
    return size


def attribute_message(name: str, value: Json) -> graph_pb2.Attribute:
    """An attribute as it travels; one without a value stays without."""
    message = graph_pb2.Attribute(name=name)
    for kind, given in value.items():
        if kind == "int":
            message.int_value = int(given)
        elif kind == "float":
            message.float_value = float(given)
        elif kind == "bool":
            message.bool_value = given
        elif kind == "string":
            message.string_value = given
        elif kind == "dtype":
            message.dtype_value = dtype_number(given)
        elif kind == "ints":
            message.ints_value.values.extend(int(each) for each in given)
            message.ints_value.SetInParent()
        elif kind == "int_lists":
            message.int_lists_value.SetInParent()
            for each in given:
                message.int_lists_value.lists.add(values=[int(number) for number in each])
        elif kind == "index":
            message.index_value.SetInParent()
            message.index_value.items.extend(index_item(each) for each in given)
        else:
            raise ValueError(f"a case has an attribute of the kind {kind!r}, which no .proto knows")
    return message


def index_item(item: Json) -> graph_pb2.IndexItem:
    """An entry of an index."""
    if "at" in item:
        return graph_pb2.IndexItem(at=int(item["at"]))
    if "slice" in item:
        parts = {k: int(v) for k, v in item["slice"].items() if v is not None}
        return graph_pb2.IndexItem(slice=graph_pb2.IndexSlice(**parts))
    return graph_pb2.IndexItem(mark=f"INDEX_MARK_{item['mark']}")


# Blocks


class BlockWriter:
    """Steps that are sent together, and the session's nodes that they use.

    Attributes:
        tensors: arrays of the steps, in order.
    """

    def __init__(self) -> None:
        self.tensors: list[tensor_pb2.Tensor] = []
        self._inputs: list[int] = []
        self._steps: list[tuple[graph_pb2.Call, list[tuple[bool, int]]]] = []
        self.results = 0

    def source(self, source: Json) -> None:
        """A leaf, a leaf with a tangent, or a constant."""
        op = source["kind"]
        self.tensors.append(tensor_message(source["value"]))
        if source.get("tangent") is not None:
            op = "leaf_with_tangent"
            self.tensors.append(tensor_message(source["tangent"]))
        self._add(graph_pb2.Call(op=op, result_count=1), [])

    def call(self, call: Json, operands: Sequence[tuple[bool, int]]) -> None:
        """A call of an op. An operand is (True, result of this block) or (False, node of the session)."""
        message = graph_pb2.Call(
            op=call["op"], operand_count=len(operands), result_count=call["results"]
        )
        for name, value in call.get("attributes", {}).items():
            message.attributes.append(attribute_message(name, value))
        self._add(message, operands)

    def write(self) -> graph_pb2.BlockCall:
        """The block with its hash and the nodes that its inputs stand for."""
        block = graph_pb2.Block(input_count=len(self._inputs))
        for at, (call, operands) in enumerate(self._steps):
            block.calls.append(call)
            block.steps.append(at)
            for here, number in operands:
                block.operands.append(len(self._inputs) + number if here else number)
        data = block.SerializeToString(deterministic=True)
        return graph_pb2.BlockCall(
            hash=hashlib.sha256(data).digest(), block=data, inputs=self._inputs
        )

    def _add(self, call: graph_pb2.Call, operands: Sequence[tuple[bool, int]]) -> None:
        numbered = [
            (True, number) if here else (False, self._input(number)) for here, number in operands
        ]
        self._steps.append((call, numbered))
        self.results += call.result_count

    def _input(self, node: int) -> int:
        if node not in self._inputs:
            self._inputs.append(node)
        return self._inputs.index(node)


# Sessions


class Session:
    """A session on the server for one case."""

    def __init__(self, stub: Any, metadata: list[tuple[str, str]], timeout: float) -> None:
        self._stub = stub
        self._ref = service_pb2.SessionRef(id=secrets.token_bytes(16))
        self._metadata = [*metadata, ("backhaul-session", self._ref.id.hex())]
        self._timeout = timeout
        self._seq = 0

    def open(self) -> None:
        """Opens it; later calls carry the epoch that comes back."""
        request = service_pb2.OpenSessionRequest(session=self._ref)
        self._ref.epoch = self._unary(self._stub.OpenSession, request).epoch

    def close(self) -> None:
        """Closes it."""
        self._unary(self._stub.CloseSession, service_pb2.CloseSessionRequest(session=self._ref))

    def execute(
        self, request: service_pb2.ExecuteRequest, chunked: bool
    ) -> service_pb2.ExecuteResponse:
        """Sends a request under the next sequence number. Tensors of the answer hold their elements."""
        self._seq += 1
        request.session.CopyFrom(self._ref)
        request.seq = self._seq
        request.digest = hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
        try:
            execute = self._stream if chunked else self._plain
            answer = execute(request)
        except CaseFailed:
            self._seq -= 1  # a refused request has changed nothing: its number is free
            raise
        if answer.HasField("question_failure"):
            failure = answer.question_failure
            raise CaseFailed(failure.reason, "", dict(failure.metadata))
        return answer

    def _plain(self, request: service_pb2.ExecuteRequest) -> service_pb2.ExecuteResponse:
        answer: service_pb2.ExecuteResponse = self._unary(self._stub.Execute, request)
        return answer

    def _unary(self, method: Any, request: Any) -> Any:
        try:
            return method(request, metadata=self._metadata, timeout=self._timeout)
        except grpc.RpcError as error:
            raise refused(error) from None

    def _stream(self, request: service_pb2.ExecuteRequest) -> service_pb2.ExecuteResponse:
        data = bytearray()
        for tensor in request.tensors:
            data += tensor.data
            tensor.chunked.SetInParent()
        try:
            header, *rest = self._stub.ExecuteStream(
                stream_of(request, bytes(data)), metadata=self._metadata, timeout=self._timeout
            )
        except grpc.RpcError as error:
            raise refused(error) from None
        for at, each in enumerate(rest):
            if crc32c(each.chunk.data) != each.chunk.crc32c:
                raise CaseFailed("CHUNK_CHECKSUM", "DATA_LOSS", {"chunk": str(at)})
        answer: service_pb2.ExecuteResponse = header.header
        received, start = b"".join(each.chunk.data for each in rest), 0
        for tensor in answer.tensors:
            if tensor.WhichOneof("content") == "chunked":
                end = start + byte_size(tensor)
                tensor.data = received[start:end]
                start = end
        return answer


def stream_of(
    header: service_pb2.ExecuteRequest, data: bytes
) -> Iterator[service_pb2.ExecuteStreamRequest]:
    """The messages of a stream: its header, then the elements of its tensors in chunks."""
    yield service_pb2.ExecuteStreamRequest(header=header)
    for start in range(0, len(data), CHUNK_BYTES):
        piece = data[start : start + CHUNK_BYTES]
        chunk = service_pb2.Chunk(crc32c=crc32c(piece), data=piece)
        yield service_pb2.ExecuteStreamRequest(chunk=chunk)


def refused(error: Any) -> CaseFailed:
    """What the server said: the code, and the ErrorInfo of the status in the trailing metadata."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return CaseFailed(info.reason, error.code().name, dict(info.metadata))
    return CaseFailed("", error.code().name, {"message": error.details() or ""})


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC_TABLE: Final = _crc_table()


def crc32c(data: bytes) -> int:
    """CRC-32C (Castagnoli; RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


# Cases


def run_case(case: Json, session: Session) -> Json:
    """The answer of a case, on an open session."""
    chunked = case["chunked"]
    nodes: list[int] = []
    blocks = [[call] for call in case["calls"]] if case["split"] else [case["calls"]]
    values: list[Json] = []
    for at, calls in enumerate(blocks or [[]]):
        writer = BlockWriter()
        if at == 0:
            for source in case["sources"]:
                writer.source(source)
        for call in calls:
            known = len(nodes)
            writer.call(
                call,
                [
                    (True, number - known) if number >= known else (False, nodes[number])
                    for number in call["operands"]
                ],
            )
        request = service_pb2.ExecuteRequest(block=writer.write(), tensors=writer.tensors)
        # Ids of a session's nodes count from 1, so those of this block are known before it is sent.
        base = len(nodes) + 1
        request.block.base_id = base
        nodes += range(base, base + writer.results)
        if at == len(blocks or [[]]) - 1:
            request.values.extend(node_id(nodes, number) for number in case["ask"]["values"])
        answer = session.execute(request, chunked)
        values = [tensor_json(answer.tensors[index]) for index in answer.values]
    result: Json = {"name": case["name"], "values": values}
    if case["ask"].get("pullback") is not None:
        result["pullback"] = pullback(session, nodes, case["ask"]["pullback"], chunked)
    if case["ask"].get("hvp") is not None:
        result["hvp"] = hvp(session, nodes, case["ask"]["hvp"], chunked)
    return result


def node_id(nodes: Sequence[int], number: int) -> int:
    """The session's id of a node of the case; one never made for a number that the case has no node for."""
    return nodes[number] if number < len(nodes) else number + 1


def pullback(session: Session, nodes: Sequence[int], ask: Json, chunked: bool) -> Json:
    """Gradients of the loss."""
    request = service_pb2.ExecuteRequest()
    request.pullback.loss = node_id(nodes, ask["loss"])
    request.pullback.wrt.nodes.extend(node_id(nodes, number) for number in ask["wrt"])
    request.pullback.wrt.SetInParent()
    if ask.get("cotangent") is not None:
        request.tensors.append(tensor_message(ask["cotangent"]))
        request.pullback.cotangents.add(tensor_index=0)
    answer = session.execute(request, chunked)
    return {
        "value": tensor_json(answer.tensors[answer.loss_value]),
        "gradients": [tensor_json(answer.tensors[i]) for i in answer.sets[0].gradients],
    }


def hvp(session: Session, nodes: Sequence[int], ask: Json, chunked: bool) -> Json:
    """Gradients and H·v of the loss; without tangents along those of the leaves."""
    request = service_pb2.ExecuteRequest()
    request.hvp.loss = node_id(nodes, ask["loss"])
    request.hvp.wrt.nodes.extend(node_id(nodes, number) for number in ask["wrt"])
    request.hvp.wrt.SetInParent()
    if ask["tangents"]:
        direction = request.hvp.directions.add()
        for each in ask["tangents"]:
            tangent = direction.tangents.add(leaf=node_id(nodes, each["of"]))
            tangent.tangent.tensor_index = len(request.tensors)
            request.tensors.append(tensor_message(each["value"]))
    answer = session.execute(request, chunked)
    return {
        "value": tensor_json(answer.tensors[answer.loss_value]),
        "gradients": [tensor_json(answer.tensors[i]) for i in answer.sets[0].gradients],
        "products": [tensor_json(answer.tensors[i]) for i in answer.sets[0].hvps],
    }


def answer_of(stub: Any, case: Json, metadata: list[tuple[str, str]], timeout: float) -> Json:
    """The line for a case: its answer, or the error that it met."""
    session = Session(stub, metadata, timeout)
    try:
        session.open()
        try:
            return run_case(case, session)
        finally:
            session.close()
    except CaseFailed as failed:
        return {"name": case["name"], "error": failed.told}


def main() -> None:
    """Answers cases until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="HOST:PORT of the server")
    parser.add_argument("--token", help="bearer token")
    parser.add_argument(
        "--ca", type=Path, help="file of the authorities that the server is proved by"
    )
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for each call")
    arguments = parser.parse_args()
    metadata = [("authorization", f"Bearer {arguments.token}")] if arguments.token else []
    if arguments.ca:
        credentials = grpc.ssl_channel_credentials(arguments.ca.read_bytes())
        channel = grpc.secure_channel(arguments.target, credentials)
    else:
        channel = grpc.insecure_channel(arguments.target)
    with channel:
        stub = service_pb2_grpc.BackhaulServiceStub(channel)
        for line in sys.stdin:
            answer = answer_of(stub, json.loads(line), metadata, arguments.timeout)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
