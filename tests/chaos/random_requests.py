"""Random requests: messages that protobuf can read, with values that may be right, wrong or extreme."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from google.protobuf.message import Message

from backhaul_proto import codec, tensors
from backhaul_proto.catalog.index import ARRAY, Index, Slice
from backhaul_proto.catalog.ops import CATALOG, Op
from backhaul_proto.messages import SOURCES
from backhaul_proto.v1 import graph_pb2, service_pb2, tensor_pb2

_INTS: Final = (
    0,
    1,
    2,
    3,
    -1,
    -2,
    5,
    64,
    65,
    1000,
    10**9,
    2**31,
    -(2**31),
    2**62,
    2**63 - 1,
    -(2**63),
)
_UNSIGNED: Final = (0, 1, 2, 3, 7, 64, 1000, 2**31, 2**32 - 1)
_IDS: Final = (0, 1, 2, 3, 1000, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_FLOATS: Final = (0.0, -0.0, 1.0, 0.5, -1.0, 1e-300, 1e300, 5e-324, np.inf, -np.inf, np.nan)
_STRINGS: Final = ("", "a", "ij,jk->ik", "N", "constant", "wrap", "float64", "\x00", "é", "x" * 300)
_SIZES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 5, 8)
_LETTERS: Final = "iijjkkl...,,->()ab1 "
_DTYPES: Final = tuple(range(1, 14))  # of tensor_pb2.DataType


class World:
    """What requests are about: sessions that are open, and the nodes in them.

    Args:
        rng: where the randomness comes from.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sessions: list[bytes] = []
        self.epoch = b""
        self.seqs: dict[bytes, int] = {}
        self.known: dict[bytes, list[int]] = {}
        self.highest: dict[bytes, int] = {}
        self._session = b""  # that the request in the making is for

    def opened(self, session: bytes, epoch: bytes) -> None:
        self.sessions.append(session)
        self.seqs[session] = 0
        self.known[session] = []
        self.highest[session] = 0
        self.epoch = epoch

    def closed(self, session: bytes) -> None:
        self.sessions.remove(session)
        for each in (self.seqs, self.known, self.highest):
            del each[session]

    def answered(self, method: str, request: Any, answer: bytes) -> None:
        """Learn which nodes there are."""
        session = request.session.id if hasattr(request, "session") else b""
        if session not in self.known:
            return
        made: list[int] = []
        if method in ("Leaf", "Einsum"):
            kind: Any = getattr(service_pb2, f"{method}Response")
            made = [kind.FromString(answer).node.node]
        elif method == "Apply":
            made = [each.node for each in service_pb2.ApplyResponse.FromString(answer).nodes]
        elif method == "Execute":
            first = service_pb2.ExecuteResponse.FromString(answer).base_id
            made = list(range(first, first + 8)) if first else []
            if request.seq:
                self.seqs[session] = request.seq
        self.known[session] = (self.known[session] + made)[-30:]
        self.highest[session] = max([self.highest[session], *made[:1]])

    def request(self) -> tuple[str, Message]:
        """A call's name and its request."""
        name, make = self.rng.choices(_MAKERS, _WEIGHTS)[0]
        return name, make(self)

    # Parts

    def ref(self) -> service_pb2.SessionRef:
        rng = self.rng
        session = rng.choice(self.sessions) if self.sessions and rng.random() < 0.98 else _id(rng)
        self._session = session
        epoch = rng.choice((b"", self.epoch)) if rng.random() < 0.98 else rng.randbytes(8)
        return service_pb2.SessionRef(id=session, epoch=epoch)

    def node(self) -> int:
        rng = self.rng
        known = self.known.get(self._session)
        if known and rng.random() < 0.95:
            return rng.choice(known)
        return rng.randrange(1, 40) if rng.random() < 0.8 else rng.choice(_IDS)

    def nodes(self, most: int = 3) -> list[int]:
        return [self.node() for _ in range(self.rng.randrange(most + 1))]

    def array(self, shape: tuple[int, ...] | None = None, number: int | None = None) -> np.ndarray:
        rng = self.rng
        if shape is None:
            shape = tuple(rng.choice(_SIZES) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3))))
        if number is None:
            number = rng.choice((10, 11, 11, 11, 11, 12, 13, *_DTYPES))
        dtype = tensors.dtype_of(number)
        made = np.array([rng.gauss(0, 2) for _ in range(int(np.prod(shape, dtype=int)))])
        with np.errstate(all="ignore"):
            if made.size and rng.random() < 0.05:
                made[0] = rng.choice(_FLOATS)
            if dtype.kind in "biu":
                made = np.nan_to_num(made, posinf=9, neginf=-9).clip(-1e6, 1e6)
            return made.reshape(shape).astype(dtype)

    def tensor(self, shape: tuple[int, ...] | None = None) -> tensor_pb2.Tensor:
        message = tensor_pb2.Tensor()
        tensors.fill(message, self.array(shape))
        rng = self.rng
        if rng.random() < 0.06:
            match rng.randrange(5):
                case 0:
                    message.shape.append(rng.choice(_INTS))
                case 1:
                    message.data += b"x"
                case 2:
                    message.dtype = rng.choice((0, 14, 99, -1))  # type: ignore[assignment]  # no such number
                case 3:
                    message.chunked.SetInParent()
                case 4:
                    message.shared.segment = rng.randbytes(16)
                    message.shared.offset = rng.choice(_IDS)
        return message

    def type(self) -> tensor_pb2.TensorType:
        rng = self.rng
        if rng.random() < 0.6:
            shape = [rng.choice(_SIZES) for _ in range(rng.choice((1, 2, 2, 3)))]
        else:
            shape = [rng.choice((1, 2, 3, 1000, *_INTS)) for _ in range(rng.randrange(5))]
        if rng.random() < 0.02:
            shape = [rng.choice((1, 2))] * rng.choice((63, 64, 65, 200))
        dtype = rng.choice((11, 11, 11, *_DTYPES, 0, 99))
        return tensor_pb2.TensorType(dtype=dtype, shape=shape)  # type: ignore[arg-type]  # it may be none

    def attributes(self, entry: Op) -> list[graph_pb2.Attribute]:
        """Those of one of the op's samples, or random ones, or a mixture."""
        rng = self.rng
        given: dict[str, Any] = {}
        if entry.samples and rng.random() < 0.7:
            given.update(rng.choice(entry.samples).attributes)
        for spec in entry.attributes:
            if rng.random() < (0.5 if spec.required and spec.name not in given else 0.15):
                given[spec.name] = self.value(spec.kind)
        if rng.random() < 0.02:
            given[rng.choice(("", "x", "axis", "n", "y" * 500))] = self.value("int")
        made = []
        for name, value in given.items():
            if value is None:
                continue
            if isinstance(value, list):
                value = tuple(tuple(e) if isinstance(e, list) else e for e in value)
            try:
                made.append(codec.attribute_message(name, value))
            except (TypeError, ValueError):  # a sample in a form that only Python has
                continue
        if made and rng.random() < 0.02:
            made.append(rng.choice(made))
        if rng.random() < 0.02:
            made.append(graph_pb2.Attribute(name="axis"))
        return made

    def value(self, kind: str) -> Any:
        """A value for an attribute of this kind, now and then of another."""
        rng = self.rng
        if rng.random() < 0.06:
            kind = rng.choice(("bool", "int", "float", "string", "ints", "int_lists", "index"))
        few = range(rng.choice((0, 1, 2, 2, 3, 5)))
        match kind:
            case "bool":
                return rng.random() < 0.5
            case "int":
                return rng.choice(_INTS)
            case "float":
                return rng.choice(_FLOATS)
            case "string":
                return self.subscripts() if rng.random() < 0.5 else rng.choice(_STRINGS)
            case "dtype":
                return tensors.dtype_of(rng.choice(_DTYPES))
            case "axes" if rng.random() < 0.5:
                return rng.choice(_INTS)
            case "ints" | "axes":
                return tuple(rng.choice(_INTS) for _ in few)
            case "int_lists" | "paired_axes":
                return tuple(tuple(rng.choice(_INTS) for _ in range(rng.randrange(4))) for _ in few)
            case _:
                return Index(tuple(self.index_item() for _ in few))

    def index_item(self) -> Any:
        rng = self.rng
        match rng.randrange(5):
            case 0:
                return rng.choice(_INTS)
            case 1:
                return Slice(*(rng.choice((None, *_INTS)) for _ in range(3)))
            case 2:
                return None
            case 3:
                return Ellipsis
            case _:
                return ARRAY

    def subscripts(self) -> str:
        rng = self.rng
        if rng.random() < 0.5:
            return rng.choice(
                ("ij,jk->ik", "i,i->", "ij->ji", "ii->", "ii->i", "i,j->ij", "...i,i->...", "ij,ij->",
                 "ij,jk,kl->il", "i->", "ij,(jk,kl)->il", ",->", "i->ii")
            )  # fmt: skip
        return "".join(rng.choice(_LETTERS) for _ in range(rng.randrange(14)))

    def operand(self, tensor_count: int) -> graph_pb2.Operand:
        rng = self.rng
        match rng.randrange(30):
            case 0:
                return graph_pb2.Operand()
            case n if n < 7:
                return graph_pb2.Operand(tensor=self.tensor())
            case n if n < 25:
                return graph_pb2.Operand(node=self.node())
            case _:
                index = rng.randrange(tensor_count + 1) if rng.random() < 0.9 else 2**32 - 1
                return graph_pb2.Operand(tensor_index=index)

    def directions(self, tensor_count: int) -> list[service_pb2.Direction]:
        rng = self.rng
        return [
            service_pb2.Direction(
                tangents=[
                    service_pb2.LeafTangent(leaf=self.node(), tangent=self.operand(tensor_count))
                    for _ in range(rng.choice((0, 1, 1, 2)))
                ]
            )
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        ]

    def wrt(self, message: Any) -> None:
        if self.rng.random() < 0.3:
            message.wrt.nodes.extend(self.nodes())
            message.wrt.SetInParent()

    def ask(self, message: Any, tensor_count: int = 0) -> None:
        """Fill a question in."""
        name = type(message).__name__
        if "Pushforward" in name:
            message.output = self.node()
        else:
            message.loss = self.node()
            self.wrt(message)
        if "Pullback" in name:
            count = self.rng.choice((0, 0, 0, 1, 2))
            message.cotangents.extend(self.operand(tensor_count) for _ in range(count))
        else:
            message.directions.extend(self.directions(tensor_count))
        if "Hvp" in name and self.rng.random() < 0.3:
            message.linear.extend(self.nodes(2))
        if name.endswith("Question") and "Push" not in name and self.rng.random() < 0.1:
            message.keep_from = self.rng.choice((1, 50, 1000, *_IDS))

    def call(self) -> tuple[graph_pb2.Call, list[tuple[int, ...]]]:
        """A call, and shapes that suit it."""
        rng = self.rng
        if rng.random() < 0.02:
            op = rng.choice(("", "no_such_op", "skip", "linalg.", "x" * 400))
            return graph_pb2.Call(op=op, operand_count=rng.randrange(3)), [(2,), (2,)]
        entry = rng.choice(_OPS if rng.random() < 0.03 else _PUBLIC)
        shapes: list[tuple[int, ...]] = [(2, 2)]
        if entry.samples:
            shapes = list(rng.choice(entry.samples).shapes)
        count = len(shapes) if rng.random() < 0.95 else rng.choice(_UNSIGNED)
        results = 0 if rng.random() < 0.95 else rng.choice(_UNSIGNED)
        return (
            graph_pb2.Call(
                op=entry.name,
                operand_count=count,
                result_count=results,
                attributes=self.attributes(entry),
            ),
            shapes,
        )

    def block(self, message: service_pb2.ExecuteRequest) -> None:
        """A block of sources and ops over them, and its tensors."""
        rng = self.rng
        block = graph_pb2.Block()
        inputs = self.nodes() if rng.random() < 0.3 else []
        block.input_count = len(inputs) if rng.random() < 0.97 else rng.choice(_UNSIGNED)
        number = len(inputs)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            call, shapes = self.call()
            for shape in shapes:
                kind = rng.choice(("leaf", "leaf", "leaf", "constant", "leaf_with_tangent"))
                block.steps.append(len(block.calls))
                block.calls.add(op=kind)
                array = self.array(
                    shape, None if kind == "constant" else rng.choice((11, 11, 10, 13))
                )
                for _ in range(SOURCES[kind]):
                    tensors.fill(message.tensors.add(), array)
            block.steps.append(len(block.calls))
            block.calls.append(call)
            mine = list(range(number, number + len(shapes)))[: min(call.operand_count, 9)]
            if rng.random() < 0.1:
                mine = [rng.randrange(number + 2) for _ in mine]
            block.operands.extend(mine)
            number += len(shapes) + max(1, min(call.result_count, 9))
        if rng.random() < 0.03:
            block.operands.append(rng.choice(_UNSIGNED))
        if rng.random() < 0.03:
            block.steps.append(rng.choice(_UNSIGNED))
        data = block.SerializeToString()
        message.block.hash = hashlib.sha256(data).digest()
        if rng.random() < 0.97:
            message.block.block = data
        if rng.random() < 0.02:
            message.block.hash = rng.randbytes(rng.choice((0, 5, 32)))
        if rng.random() < 0.05:
            message.block.base_id = rng.choice(_IDS)
        message.block.inputs.extend(inputs)

    def execute(self) -> service_pb2.ExecuteRequest:
        rng = self.rng
        message = service_pb2.ExecuteRequest(session=self.ref())
        if rng.random() < 0.85:
            self.block(message)
        if rng.random() < 0.1:
            message.tensors.append(self.tensor())
        count = len(message.tensors)
        if message.HasField("block") and message.block.base_id == 0 and rng.random() < 0.8:
            # Questions about what the block makes.
            self._session = b"the block"
            first = self.highest.get(message.session.id, 0) + 1
            self.known[self._session] = list(range(first, first + 4))
        match rng.randrange(6):
            case 0 | 1:
                self.ask(message.pullback, count)
            case 2:
                self.ask(message.hvp, count)
            case 3:
                self.ask(message.pushforward, count)
        message.values.extend(self.nodes(2))
        if rng.random() < 0.3:
            message.release.extend(self.nodes(4))
        if rng.random() < 0.3:
            message.seq = self.seqs.get(message.session.id, 0) + rng.choice((0, 1, 1, 1, 2))
            message.digest = rng.randbytes(rng.choice((0, 1, 8, 32, 32, 64, 64, 64, 64, 65)))
        if rng.random() < 0.05:
            message.seq = rng.choice(_IDS)
        if rng.random() < 0.05:
            message.max_response_bytes = rng.choice(_IDS)
        if rng.random() < 0.03:
            message.response_buffers.add(
                segment=rng.randbytes(16), offset=rng.choice(_IDS), bytes=rng.choice(_IDS)
            )
        if rng.random() < 0.05:
            message.options.memory_limit = rng.choice(_IDS)
            message.options.lease_seconds = rng.choice(_FLOATS)
        return message

    def expression(self, count: int) -> list[graph_pb2.Attribute]:
        """Attributes of an einsum."""
        rng = self.rng
        entry = CATALOG["einsum"]
        if rng.random() < 0.5:
            return self.attributes(entry)
        labels = tuple(
            tuple(rng.choice((0, 1, 2, 3, -1)) for _ in range(rng.randrange(4)))
            for _ in range(count)
        )
        given = [codec.attribute_message("labels", labels)]
        if rng.random() < 0.5:
            given.append(codec.attribute_message("output", tuple(rng.sample(range(4), 2))))
        return given

    def stream(self) -> list[bytes]:
        """The messages of an ExecuteStream."""
        rng = self.rng
        header = self.execute()
        for each in header.tensors:
            if each.data and rng.random() < 0.7:
                each.chunked.SetInParent()
        messages = [service_pb2.ExecuteStreamRequest(header=header).SerializeToString()]
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            data = rng.randbytes(rng.choice((0, 1, 8, 16, 32, 64, 72)))
            crc = _crc(data) if rng.random() < 0.9 else rng.getrandbits(32)
            chunk = service_pb2.Chunk(crc32c=crc, data=data)
            messages.append(service_pb2.ExecuteStreamRequest(chunk=chunk).SerializeToString())
        if rng.random() < 0.1:
            rng.shuffle(messages)
        return messages


def _crc(data: bytes) -> int:
    import google_crc32c

    return int(google_crc32c.value(data))


def _id(rng: random.Random) -> bytes:
    return rng.randbytes(16 if rng.random() < 0.7 else rng.randrange(40))


def _leaf(world: World) -> Message:
    rng = world.rng
    message = service_pb2.LeafRequest(session=world.ref(), value=world.tensor())
    if rng.random() < 0.2:
        message.tangent.CopyFrom(world.tensor())
    message.constant = rng.random() < 0.15
    if rng.random() < 0.05:
        message.node = rng.choice(_IDS)
    return message


def _einsum(world: World) -> Message:
    rng = world.rng
    message = service_pb2.EinsumRequest(session=world.ref(), operands=world.nodes())
    if rng.random() < 0.7:
        message.subscripts = world.subscripts()
    if rng.random() < 0.4:
        message.labels.extend(
            graph_pb2.IntList(
                values=[rng.choice((0, 1, 2, -1, *_INTS)) for _ in range(rng.randrange(4))]
            )
            for _ in range(rng.randrange(4))
        )
    if rng.random() < 0.2:
        message.output.values.extend(rng.choice(_INTS) for _ in range(rng.randrange(3)))
    return message


def _apply(world: World) -> Message:
    call, _ = world.call()
    count = min(call.operand_count, 9)
    return service_pb2.ApplyRequest(
        session=world.ref(),
        op=call.op,
        operands=[world.node() for _ in range(count)],
        attributes=call.attributes,
    )


def _infer(world: World) -> Message:
    call, shapes = world.call()
    if world.rng.random() < 0.5:
        kinds = [tensor_pb2.TensorType(dtype=tensor_pb2.DATA_TYPE_FLOAT64, shape=e) for e in shapes]
    else:
        kinds = [world.type() for _ in range(min(call.operand_count, 5))]
    return service_pb2.InferRequest(op=call.op, operands=kinds, attributes=call.attributes)


def _contract_path(world: World) -> Message:
    kinds = [world.type() for _ in range(world.rng.choice((0, 1, 2, 2, 3, 4)))]
    return service_pb2.ContractPathRequest(
        operands=kinds,
        attributes=world.expression(len(kinds)),
        memory_limit=world.rng.choice(_IDS),
    )


def _open(world: World) -> Message:
    rng = world.rng
    ref = service_pb2.SessionRef(id=rng.choice(world.sessions)) if world.sessions else world.ref()
    if rng.random() < 0.1:
        ref.id = rng.randbytes(rng.choice((0, 15, 17, 400)))
    message = service_pb2.OpenSessionRequest(session=ref)
    message.options.memory_limit = rng.choice(_IDS)
    message.options.lease_seconds = rng.choice(_FLOATS)
    return message


def _close(world: World) -> Message:
    return service_pb2.CloseSessionRequest(session=service_pb2.SessionRef(id=_id(world.rng)))


def _asking(kind: Any) -> Callable[[World], Message]:
    def make(world: World) -> Message:
        message: Message = kind(session=world.ref())
        world.ask(message)
        return message

    return make


def _renew(world: World) -> Message:
    rng = world.rng
    message = service_pb2.RenewLeaseRequest(epoch=rng.choice((b"", world.epoch, b"other")))
    for _ in range(rng.randrange(4)):
        message.sessions.add(id=world.ref().id, release=world.nodes(), answered=rng.choice(_IDS))
    return message


_OPS: Final = sorted(CATALOG.values(), key=lambda entry: entry.name)
_PUBLIC: Final = [entry for entry in _OPS if not entry.private]
_MAKERS: Final[list[tuple[str, Callable[[World], Message]]]] = [
    ("Execute", World.execute),
    ("Apply", _apply),
    ("Leaf", _leaf),
    ("Einsum", _einsum),
    ("Infer", _infer),
    ("ContractPath", _contract_path),
    ("Pullback", _asking(service_pb2.PullbackRequest)),
    ("Hvp", _asking(service_pb2.HvpRequest)),
    ("Pushforward", _asking(service_pb2.PushforwardRequest)),
    ("GetValue", lambda w: service_pb2.GetValueRequest(session=w.ref(), node=w.node())),
    ("GetSession", lambda w: service_pb2.GetSessionRequest(session=w.ref())),
    ("Release", lambda w: service_pb2.ReleaseRequest(session=w.ref(), nodes=w.nodes())),
    ("OpenSession", _open),
    ("CloseSession", _close),
    ("RenewLease", _renew),
    ("ListSessions", lambda w: service_pb2.ListSessionsRequest()),
    ("GetServerInfo", lambda w: service_pb2.GetServerInfoRequest()),
]
_WEIGHTS: Final = [30, 12, 8, 8, 10, 6, 5, 4, 4, 3, 2, 2, 2, 1, 2, 0.2, 0.2]
