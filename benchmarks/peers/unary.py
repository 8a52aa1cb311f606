"""A remote tape as one writes it by hand: a unary gRPC call for each leaf, op and question.

Bytes are arrays' own behind a line of JSON. Six calls: two leaves, product, square, sum, and a pullback
that brings value and both gradients.
"""

from __future__ import annotations

import importlib
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from benchmarks.peers.job import Answer, Array, Ask

_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)


class _Tape:
    """Values and what was done, by number."""

    def __init__(self) -> None:
        self.values: list[Array] = []
        self.steps: list[tuple[str, list[int]]] = []

    def add(self, value: Array, op: str, operands: list[int]) -> int:
        self.values.append(value)
        self.steps.append((op, operands))
        return len(self.values) - 1

    def run(self, op: str, operands: list[int]) -> int:
        xs = [self.values[i] for i in operands]
        value = {
            "matmul": lambda: xs[0] @ xs[1],
            "square": lambda: xs[0] * xs[0],
            "sum": lambda: np.asarray(xs[0].sum()),
        }[op]()
        return self.add(value, op, operands)

    def pullback(self, loss: int) -> list[Array]:
        """The value, and the gradients of the leaves."""
        cts: dict[int, Array] = {loss: np.ones_like(self.values[loss])}
        for node in range(loss, -1, -1):
            op, operands = self.steps[node]
            ct = cts[node]
            xs = [self.values[i] for i in operands]
            if op == "matmul":
                cts[operands[0]], cts[operands[1]] = ct @ xs[1].T, xs[0].T @ ct
            elif op == "square":
                cts[operands[0]] = 2.0 * ct * xs[0]
            elif op == "sum":
                cts[operands[0]] = np.broadcast_to(ct, xs[0].shape)
        leaves = [node for node, (op, _) in enumerate(self.steps) if op == "leaf"]
        return [self.values[loss], *(cts[node] for node in leaves)]


def _written(head: dict[str, Any], arrays: Sequence[Array]) -> bytes:
    head["shapes"] = [each.shape for each in arrays]
    return b"".join((json.dumps(head).encode(), b"\n", *(each.tobytes() for each in arrays)))


def _read(data: bytes) -> tuple[dict[str, Any], list[Array]]:
    end = data.index(b"\n")
    head = json.loads(data[:end])
    arrays, start = [], end + 1
    for shape in head["shapes"]:
        count = int(np.prod(shape))
        array = np.frombuffer(data, np.float64, count, start).copy().reshape(shape)
        arrays.append(array)
        start += array.nbytes
    return head, arrays


def serve(n: int) -> None:
    grpc: Any = importlib.import_module("grpc")
    tapes: dict[int, _Tape] = {}

    def answer(data: bytes, _context: Any) -> bytes:
        head, arrays = _read(data)
        if head["op"] == "pullback":
            return _written({}, tapes.pop(head["tape"]).pullback(head["loss"]))
        tape = tapes.setdefault(head["tape"], _Tape())
        if head["op"] == "leaf":
            return _written({"node": tape.add(arrays[0], "leaf", [])}, ())
        return _written({"node": tape.run(head["op"], head["operands"])}, ())

    class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, handler_call_details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(4), handlers=[Handlers()], options=_OPTIONS)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    threading.Event().wait()


@contextmanager
def connected(variant: str, n: int, port: int) -> Iterator[Ask]:
    grpc: Any = importlib.import_module("grpc")
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=_OPTIONS) as channel:
        call = channel.unary_unary("/byhand/Call")
        tapes = iter(range(1 << 60))

        def ask(a: Array, b: Array) -> Answer:
            tape = next(tapes)

            def step(op: str, operands: Sequence[int], *arrays: Array) -> int:
                head = {"tape": tape, "op": op, "operands": operands}
                node: int = _read(call(_written(head, arrays)))[0]["node"]
                return node

            product = step("matmul", (step("leaf", (), a), step("leaf", (), b)))
            loss = step("sum", (step("square", (product,)),))
            head = {"tape": tape, "op": "pullback", "loss": loss}
            _, (value, ga, gb) = _read(call(_written(head, ())))
            return float(value), ga, gb

        yield ask
