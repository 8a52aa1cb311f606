"""Blocks of steps on the server: kept by content, checked and prepared before anything runs."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, NamedTuple

from backhaul_proto.catalog import ops as catalog
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes, Op
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.kept_calls import weight
from backhaul_proto.messages import (
    LEAF_WITH_TANGENT,
    LEAVES,
    SKIP,
    SOURCES,
    Block,
    BlockCall,
    Call,
)
from backhaul_server.engine.checks import Described, check_leaf
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.interruption import interruptible, nothing
from backhaul_server.engine.tape_memory import Held
from backhaul_server.tally import Count

Decode = Callable[[bytes], Block]

_PLANS_KEPT: Final = 8
BLOCKS_BYTES: Final = 128 << 20
# What Python's objects take, about: a step, an operand beyond two of a step, a call, a number or letter
# of an attribute.
_DECODED_STEP: Final = 50
_DECODED_OPERAND: Final = 16
_DECODED_CALL: Final = 300
_DECODED_NUMBER: Final = 40
_PLANNED_STEP: Final = 200
_PLANNED_OPERAND: Final = 1000


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: a prepared call, or the name of a source (`messages.SOURCES`).

    A source takes tensors of the request, unless it has operands.
    """

    call: PreparedCall | str
    operands: tuple[int, ...]

    @property
    def tensor_count(self) -> int:
        """How many tensors of the request it takes."""
        return SOURCES[self.call] if isinstance(self.call, str) and not self.operands else 0


@dataclass(frozen=True, slots=True)
class BlockNeed:
    """Bytes that a block takes.

    Attributes:
        peak: the most that stands at once: its tensors, results so far, and what a step takes meanwhile.
        made: what it leaves behind, its tensors included, as if no two results shared their memory.
        step: which step takes most; -1 when there is none that takes anything.
        result: the number of that step's first result.
        step_bytes: what it takes.
    """

    peak: int
    made: Held
    step: int
    result: int
    step_bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A block prepared for inputs and tensors of given avals.

    ``results`` has one entry a result, None for an id that stays unused; it does not know whether a
    step will fail on its data. ``given`` is the bytes of its tensors, ``ops`` how many steps each op has.
    """

    steps: Sequence[Step]
    results: Sequence[Described | None]
    has_tangent: bool
    need: BlockNeed
    given: int
    ops: Mapping[str, int]


@dataclass(slots=True)
class KnownBlock:
    """A decoded block whose ops and attributes are right, with its latest plans.

    Attributes:
        block: the block.
        calls: its calls, bound to the catalog.
        sent_bytes: what it had on the wire.
        tensor_count: how many tensors of a request its sources take.
        planned: counts the plans that are made.
        call_bytes: what its calls take, about.
        plans: the latest.
        counted: the bytes that the cache counts it with.
    """

    block: Block
    calls: Sequence[tuple[Op, Attributes] | str]
    sent_bytes: int
    tensor_count: int
    planned: Count
    call_bytes: int
    plans: OrderedDict[object, Plan] = field(default_factory=OrderedDict)
    counted: int = 0

    @property
    def nbytes(self) -> int:
        """What it takes with its plans, about."""
        steps = len(self.block.steps)
        further = max(0, len(self.block.operands) - 2 * steps)
        planned = steps * _PLANNED_STEP + further * _PLANNED_OPERAND
        decoded = self.sent_bytes + steps * _DECODED_STEP + further * _DECODED_OPERAND
        return decoded + self.call_bytes + planned * len(self.plans)

    def plan(
        self,
        engine: Engine,
        inputs: Sequence[Described],
        tensors: Sequence[Aval],
        interrupt: Callable[[], None] = nothing,
    ) -> Plan:
        """The plan for these inputs and for the tensors that its sources take; ``interrupt`` may stop it."""
        key = (
            engine,
            tuple((each.aval, each.requires_grad) for each in inputs),
            tuple(tensors),
        )
        found = self.plans.get(key)
        if found is None:
            self.planned.add()
            with interruptible(interrupt):
                found = _plan(self, engine, inputs, tensors)
            self.plans[key] = found
            if len(self.plans) > _PLANS_KEPT:
                self.plans.popitem(last=False)
        return found


class CacheReading(NamedTuple):
    """What a `BlockCache` holds.

    Attributes:
        nbytes: of its blocks and their plans, about.
        hits: how often a block was there.
        misses: how often it was not.
        plans: how many were made.
    """

    nbytes: int
    hits: int
    misses: int
    plans: int


class BlockCache:
    """Decoded blocks by principal and hash, the latest of them up to a number of bytes.

    Plans count as well, from the next time on that their block is looked for. Sessions may use it from
    different threads.
    """

    def __init__(self, decode: Decode, max_bytes: int = BLOCKS_BYTES) -> None:
        self._decode = decode
        self._planned = Count()
        self._hits = 0
        self._misses = 0
        self._max_bytes = max_bytes
        self._bytes = 0
        self._lock = Lock()
        self._blocks: OrderedDict[tuple[str, bytes], KnownBlock] = OrderedDict()

    def find(self, principal: str, sent: BlockCall) -> KnownBlock:
        """The block that a request means.

        Raises:
            InvalidArgument: BLOCK_UNKNOWN when only its hash came and it is not kept;
                MALFORMED_REQUEST when it cannot be one, or is not what its hash says.
        """
        key = (principal, sent.hash)
        with self._lock:
            known = self._blocks.get(key)
            if known is not None:
                self._blocks.move_to_end(key)
                self._count(known)
                self._hits += 1
                return known
            self._misses += 1
        if sent.block is None:
            raise make_error(
                "BLOCK_UNKNOWN",
                "The server does not hold the block of this hash; send the request again with it.",
            )
        if hashlib.sha256(sent.block).digest() != sent.hash:
            raise make_error(
                "MALFORMED_REQUEST", "BlockCall.hash is not the SHA-256 of BlockCall.block."
            )
        known = _check(self._decode(sent.block), len(sent.block), self._planned)
        self._keep(key, known)
        return known

    def read(self) -> CacheReading:
        """What it holds, and how often it was of use."""
        with self._lock:
            return CacheReading(self._bytes, self._hits, self._misses, self._planned.value)

    def _keep(self, key: tuple[str, bytes], known: KnownBlock) -> None:
        with self._lock:
            if key in self._blocks:  # another thread was faster
                return
            self._blocks[key] = known
            self._count(known)

    def _count(self, known: KnownBlock) -> None:
        nbytes = known.nbytes
        self._bytes += nbytes - known.counted
        known.counted = nbytes
        while self._bytes > self._max_bytes and len(self._blocks) > 1:
            _, dropped = self._blocks.popitem(last=False)
            self._bytes -= dropped.counted


def _check(block: Block, nbytes: int, planned: Count) -> KnownBlock:
    calls = [_bind(call) for call in block.calls]
    count = len(calls)
    needed = 0
    for i in block.steps:
        if i >= count:
            raise make_error(
                "MALFORMED_REQUEST", f"A step names call {i}; the block has {count} calls."
            )
        needed += block.calls[i].operand_count
    if needed != len(block.operands):
        raise make_error(
            "MALFORMED_REQUEST",
            f"The steps of the block take {needed} operands, but it has {len(block.operands)}.",
        )
    taken = [call.tensor_count for call in block.calls]
    tensor_count = sum(taken[i] for i in block.steps)
    call_bytes = sum(map(_call_bytes, block.calls))
    return KnownBlock(block, calls, nbytes, tensor_count, planned, call_bytes)


def _call_bytes(call: Call) -> int:
    numbers = sum(weight(value) for _, value in call.attributes)
    return _DECODED_CALL + _DECODED_NUMBER * numbers


def _bind(call: Call) -> tuple[Op, Attributes] | str:
    if call.op in SOURCES:
        allowed = {0, SOURCES[call.op]} if call.op in LEAVES else {0}
        if call.operand_count not in allowed or call.result_count != 1 or call.attributes:
            raise make_error(
                "MALFORMED_REQUEST",
                f"{call.op!r} takes no attributes, {' or '.join(map(str, sorted(allowed)))} operands, and "
                "has one result.",
                op=call.op,
            )
        return call.op
    entry = catalog.get(call.op)
    return entry, catalog.bind(entry, catalog.by_name(call.attributes, call.op))


def _plan(
    known: KnownBlock, engine: Engine, inputs: Sequence[Described], tensors: Sequence[Aval]
) -> Plan:
    block = known.block
    slots: list[Described | None] = list(inputs)
    steps: list[Step] = []
    taken = 0
    tensor = 0
    has_tangent = False
    for i in block.steps:
        call = known.calls[i]
        count = block.calls[i].operand_count
        numbers = tuple(block.operands[taken : taken + count])
        taken += count
        operands = [_operand(slots, number) for number in numbers]
        if isinstance(call, str):
            given_by = [each.aval for each in operands]
            if not given_by:
                given_by += tensors[tensor : tensor + SOURCES[call]]
                tensor += SOURCES[call]
            slots.append(_source(call, given_by))
            has_tangent |= call == LEAF_WITH_TANGENT
            steps.append(Step(call, numbers))
            continue
        try:
            prepared = engine.prepare_bound(*call, tuple(each.aval for each in operands))
        except BackhaulError as error:
            error.details.setdefault("step", str(len(steps)))
            raise
        if len(prepared.results) != block.calls[i].result_count:
            raise make_error(
                "MALFORMED_REQUEST",
                f"{prepared.name} has {len(prepared.results)} result(s) here, the block says "
                f"{block.calls[i].result_count}.",
                op=prepared.name,
            )
        requires_grad = any(each.requires_grad for each in operands)
        for kind, flows in zip(prepared.results, prepared.differentiable, strict=True):
            slots.append(Described("a result of the block", kind, requires_grad and flows, False))
        steps.append(Step(prepared, numbers))
    given = sum(each.nbytes for each in tensors)
    need = _need(steps, slots, len(inputs), given)
    ops = Counter(block.calls[i].op for i in block.steps)
    return Plan(steps, slots[len(inputs) :], has_tangent, need, given, ops)


def _need(
    steps: Sequence[Step], slots: Sequence[Described | None], inputs: int, given: int
) -> BlockNeed:
    """What the steps take, in order; results stay, and so does what is kept for gradients."""
    held = peak = given
    gradient = hvp = most = 0
    most_step, most_result = -1, 0
    number = inputs
    for i, step in enumerate(steps):
        call = step.call
        if isinstance(call, str):
            source = slots[number]
            taken = 0 if source is None else source.aval.nbytes * step.tensor_count
            if taken > most:
                most, most_step, most_result = taken, i, number - inputs
            number += 1
            continue
        need = call.need
        if held + need.value > peak:
            peak = held + need.value
        if need.value >= most:
            most, most_step, most_result = need.value, i, number - inputs
        flows = False
        made = 0
        for each in call.results:
            made += each.nbytes
            found = slots[number]
            flows = flows or (found is not None and found.requires_grad)
            number += 1
        held += min(made, need.value)  # less where results are views
        if flows:
            held += need.kept
            gradient += need.gradient
            hvp += need.hvp
    peak = max(peak, held)
    return BlockNeed(peak, Held(held, gradient, hvp), most_step, most_result, most)


def _source(call: str, given: Sequence[Aval]) -> Described | None:
    if call == SKIP:
        return None
    is_leaf = call in LEAVES
    if is_leaf:
        check_leaf(given[0], given[1] if call == LEAF_WITH_TANGENT else None)
    return Described("a leaf of the block", given[0], is_leaf, is_leaf)


def _operand(slots: Sequence[Described | None], number: int) -> Described:
    found = slots[number] if number < len(slots) else None
    if found is None:
        raise make_error(
            "MALFORMED_REQUEST",
            f"A step uses number {number}, which no input or earlier step of the block gives.",
        )
    return found
