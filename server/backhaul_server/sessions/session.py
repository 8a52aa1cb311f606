"""A session: a tape with an owner, its nodes by id, and requests in order, each exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.errors import AutodiffError, make_error
from backhaul_proto.messages import (
    CONSTANT,
    LEAF_WITH_TANGENT,
    SKIP,
    Answer,
    Execute,
    Failure,
    GradientSet,
    KeepingQuestion,
    SessionInfo,
    Sight,
    asked_node,
    keep_from,
)
from backhaul_server.engine.checks import Described
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node, describe
from backhaul_server.engine.sight import nodes_of
from backhaul_server.engine.stopwatch import Stopwatch
from backhaul_server.engine.tape import Tape
from backhaul_server.engine.tape_memory import held_by, reached
from backhaul_server.sessions.blocks import BlockCache, Plan
from backhaul_server.sessions.budget import Budget, answer_bytes
from backhaul_server.sessions.claims import Claim
from backhaul_server.sessions.keeping import MAX_NODE_ID, Keep, check_keep_from
from backhaul_server.sessions.lease import Lease
from backhaul_server.sessions.node_count import NodeCount
from backhaul_server.sessions.pool import Pool
from backhaul_server.sessions.questions import Asked, NodeFailed, ask, check, kind_of
from backhaul_server.sessions.sight import look, stopwatch_of
from backhaul_server.sessions.transit import Transit
from backhaul_server.tally import Done, Work

Array = np.ndarray[Any, Any]
Interrupt = Callable[[], None]
"""Raises Cancelled or DeadlineExceeded when the caller no longer waits."""

MAX_DIGEST_BYTES = 64


@dataclass(slots=True)
class _Committed:
    """What is kept of the last request, to answer it again."""

    seq: int = 0
    digest: bytes = b""
    base_id: int = 0
    failures: Sequence[Failure] = ()
    question: tuple[object, ...] = ()
    kept: Sequence[GradientSet] = ()


class Session:
    """One tape on the server. Its calls come one after the other, see `Worker.run`.

    Args:
        engine: what computes.
        blocks: decoded blocks.
        principal: whose it is.
        epoch: of the worker.
        opened_at: now.
        memory_limit: bytes that it may use.
        pool: the memory of its device.
        lease: how long it lives without a call.
        work: counts what is done.
        device: where it computes.
        transit: its part in the host's memory, where that is not its own.

    Attributes:
        epoch: of the worker.
        opened_at: when it was opened.
        lease: how long it lives without a call.
        device: where it computes.
        steps: how many were run.
        busy_seconds: how long its requests were computed for.
    """

    def __init__(
        self,
        engine: Engine,
        blocks: BlockCache,
        principal: str,
        epoch: bytes,
        opened_at: float,
        memory_limit: int,
        pool: Pool,
        lease: Lease,
        work: Work,
        device: str,
        transit: Transit | None = None,
    ) -> None:
        self.device = device
        self._transit = transit
        self._lane = engine.xp.lane()
        self._work = work
        self._engine = engine
        self._blocks = blocks
        self._principal = principal
        self.epoch = epoch
        self.opened_at = opened_at
        self.lease = lease
        self.steps = 0
        self.busy_seconds = 0.0
        self._tape = Tape(engine)
        self._nodes: dict[int, Node] = {}
        self._highest_id = 0
        self._last = _Committed()
        self._to_release: Sequence[int] = ()
        self._budget = Budget(memory_limit, pool, self._nodes, principal)
        self._node_count = NodeCount(self._nodes)

    @property
    def memory_limit(self) -> int:
        """Bytes that it may use."""
        return self._budget.limit

    @property
    def last_seq(self) -> int:
        """Number of the last request that was run; 0 when none was."""
        return self._last.seq

    def execute(self, request: Execute, interrupt: Interrupt, claim: Claim | None = None) -> Answer:
        """Run the block and answer the questions; see ExecuteRequest in service.proto.

        Args:
            request: what is asked.
            interrupt: stops the work.
            claim: memory that was set aside for it.

        Raises:
            Lacking: others use too much memory at the moment; nothing was run.
        """
        if self._is_repeat(request):
            last = self._last
            keep = self._keep(request, {}, last.kept)
            with self._engine.interruptible(interrupt, self._lane):
                return self._answer(request, last.base_id, last.failures, {}, keep, interrupt)
        self._release_pending()
        made: dict[int, Node] = {}
        base_id, plan, inputs = self._planned(request, interrupt)
        self._check_questions(request, base_id, plan)
        self._node_count.admit(0 if plan is None else len(plan.results))
        had_tangent = self._tape.has_tangent
        self._admit(request, plan, inputs, base_id, claim)
        try:
            with self._engine.interruptible(interrupt, self._lane):
                began = ran = perf_counter()
                stopwatch = stopwatch_of(request.sight)
                if plan is not None:
                    made = self._run(plan, inputs, request.tensors, base_id, interrupt, stopwatch)
                    ran = perf_counter()
                failures = _new_failures(made.values())
                keep = self._keep(request, made)
                answer = self._answer(request, base_id, failures, made, keep, interrupt, stopwatch)
            kept = {} if keep is None else keep.nodes
            self._commit(request, base_id, failures, made | kept, answer.sets if kept else ())
            self._budget.committed(plan, kept.values())
            self.steps += 0 if plan is None else len(plan.steps)
            ops = None if plan is None else plan.ops
            kind = kind_of(request.values, request.question)
            self._work.note(Done(ops, ran - began, kind, perf_counter() - ran))
        except BaseException:
            self._tape.has_tangent = (
                had_tangent  # all else of a request that fails is dropped with it
            )
            raise
        finally:
            self._budget.done()
            if self._transit is not None:
                self._transit.done()
        return answer

    def close(self) -> None:
        """It has ended: what it holds is to be freed."""
        self._budget.close()
        if self._transit is not None:
            self._transit.close()

    def release(self, ids: Sequence[int]) -> None:
        """Let go of nodes now.

        Raises:
            MissingNode: one is not there; none is released.
        """
        for each in ids:
            self._find(each)
        nodes = [self._nodes.pop(each, None) for each in ids]
        self._budget.freed(sum([node.aval.nbytes for node in nodes if node is not None]))
        self._node_count.released()

    def let_go(self, ids: Sequence[int], answered: int) -> None:
        """Let go of nodes now, those that are there, and of what an answered request released.

        Args:
            ids: the nodes.
            answered: number of the last request whose answer has come; 0: of none.
        """
        for each in ids:
            self._nodes.pop(each, None)
        if answered and answered == self._last.seq:
            self._release_pending()
        self._node_count.released()

    def describe(self, node: int) -> Described:
        """What is known of a node without its value."""
        return describe(self._find(node))

    def reaches_tangent(self, node: int) -> bool:
        """Whether a leaf with a tangent is reached from the node."""
        return any(each.tangent is not None for each in reached([self._find(node)]))

    def info(self, now: float, lease_left: float) -> SessionInfo:
        """What it holds, counted."""
        leaving = set(self._to_release)
        held = [node for each, node in self._nodes.items() if each not in leaving]
        return self._info(now, lease_left, len(held), held_by(held).bytes)

    def rough_info(self, now: float, lease_left: float) -> SessionInfo:
        """The same at most, without a look at what a running request may be changing."""
        return self._info(now, lease_left, len(self._nodes), self._budget.held)

    def _info(self, now: float, lease_left: float, nodes: int, nbytes: int) -> SessionInfo:
        return SessionInfo(
            nodes,
            nbytes,
            now - self.opened_at,
            self._last.seq,
            self._budget.limit,
            lease_left,
            self.steps,
            self.busy_seconds,
            self.device,
        )

    # Order

    def _is_repeat(self, request: Execute) -> bool:
        """Whether the request is the last one again; an error when it is out of order."""
        if len(request.digest) > MAX_DIGEST_BYTES:
            raise make_error(
                "MALFORMED_REQUEST",
                f"The digest has {len(request.digest)} bytes; it has at most {MAX_DIGEST_BYTES}.",
            )
        if request.seq == 0 or request.seq == self._last.seq + 1:
            return False
        if request.seq != self._last.seq:
            raise make_error(
                "SEQUENCE_GAP",
                f"Request {request.seq} came, {self._last.seq + 1} was expected: one is missing "
                "between, or this one is older than the last.",
                expected=self._last.seq + 1,
                actual=request.seq,
            )
        is_other = request.digest != self._last.digest
        if is_other or (keep_from(request.question) and _key(request) != self._last.question):
            what = "digest" if is_other else "question"
            raise make_error(
                "SEQUENCE_REUSED",
                f"Request {request.seq} was run already with another {what}; count on for new work.",
                actual=request.seq,
            )
        return True

    def _release_pending(self) -> None:
        if not self._to_release:
            return
        for each in self._to_release:
            self._nodes.pop(each, None)
        self._to_release = ()
        self._budget.released()
        self._node_count.released()

    def _commit(
        self,
        request: Execute,
        base_id: int,
        failures: Sequence[Failure],
        made: dict[int, Node],
        kept: Sequence[GradientSet],
    ) -> None:
        self._nodes.update(made)
        self._node_count.made(len(made))
        self._highest_id = max(self._highest_id, max(made, default=0))
        if request.seq:
            self._last = _Committed(
                request.seq, request.digest, base_id, failures, _key(request), kept
            )
        self._to_release = request.release

    # Memory

    def _admit(
        self,
        request: Execute,
        plan: Plan | None,
        inputs: Sequence[Node],
        base_id: int,
        claim: Claim | None,
    ) -> None:
        """Set aside what a request may use, of its device and of the host."""
        self._budget.admit(request, plan, inputs, base_id, claim)
        if self._transit is None:
            return
        # Last, so that what came with the request stays set aside on the host until it runs.
        try:
            sent = sum(each.nbytes for each in request.tensors)
            answered = answer_bytes(request, plan, inputs, base_id, self._nodes)
            self._transit.admit(sent + answered, claim)
        except BaseException:
            self._budget.done()
            raise

    # The block

    def _planned(
        self, request: Execute, interrupt: Interrupt
    ) -> tuple[int, Plan | None, list[Node]]:
        if request.block is None:
            return 0, None, []
        known = self._blocks.find(self._principal, request.block)
        block = known.block
        if len(request.block.inputs) != block.input_count:
            raise make_error(
                "MALFORMED_REQUEST",
                f"The block takes {block.input_count} inputs, {len(request.block.inputs)} are named.",
            )
        if known.tensor_count > len(request.tensors):
            raise make_error(
                "MALFORMED_REQUEST",
                f"The block's sources take {known.tensor_count} tensors, {len(request.tensors)} came.",
            )
        inputs = [self._find(each) for each in request.block.inputs]
        tensors = [_aval_of(each) for each in request.tensors[: known.tensor_count]]
        described = [describe(node) for node in inputs]
        plan = known.plan(self._engine, described, tensors, interrupt)
        base_id = request.block.base_id or self._highest_id + 1
        if not self._highest_id < base_id <= MAX_NODE_ID - len(plan.results):
            raise make_error(
                "NODE_ID_TAKEN",
                f"New nodes must have ids above {self._highest_id}; {base_id} was given.",
                expected=self._highest_id + 1,
                actual=base_id,
            )
        return base_id, plan, inputs

    def _run(
        self,
        plan: Plan,
        inputs: Sequence[Node],
        tensors: Sequence[Array],
        base_id: int,
        interrupt: Interrupt,
        stopwatch: Stopwatch | None,
    ) -> dict[int, Node]:
        tape = self._tape
        run = tape.run if stopwatch is None else stopwatch.timed(tape.run)
        slots: list[Node | None] = list(inputs)
        arrays = map(self._engine.array, tensors)
        for step in plan.steps:
            call = step.call
            if not isinstance(call, str):
                interrupt()
                operands: list[Any] = [slots[i] for i in step.operands]
                slots += run(call, operands)
            elif call == SKIP:
                slots.append(None)
            elif call == CONSTANT:
                slots.append(tape.constant(next(arrays)))
            elif step.operands:
                operands = [slots[i] for i in step.operands]
                slots.append(tape.leaf_of(*operands))
            elif call == LEAF_WITH_TANGENT:
                slots.append(tape.leaf(next(arrays), next(arrays)))
            else:
                slots.append(tape.leaf(next(arrays)))
        made: dict[int, Node] = {}
        for i, node in enumerate(slots[len(inputs) :]):
            if node is not None:
                node.id = base_id + i
                made[node.id] = node
        return made

    # Questions

    def _check_questions(self, request: Execute, base_id: int, plan: Plan | None) -> None:
        results = () if plan is None else plan.results

        def described(each: int) -> Described:
            if 0 <= each - base_id < len(results):
                found = results[each - base_id]
                if found is not None:
                    return found._replace(name=f"node {each}")
            return describe(self._find(each))

        for each in request.values:
            described(each)
        if request.question is not None:
            has_tangent = self._tape.has_tangent or (plan is not None and plan.has_tangent)
            check(request.question, described, has_tangent)
            if keep_from(request.question):
                assert isinstance(request.question, KeepingQuestion)
                free = 1 + max(self._highest_id, base_id + len(results) - 1)
                check_keep_from(request.question, free, len(self._nodes) + len(results))

    def _keep(
        self,
        request: Execute,
        made: Mapping[int, Node],
        before: Sequence[GradientSet] | None = None,
    ) -> Keep | None:
        """What takes the gradients of a question that are to stay; None when they are sent."""
        question = request.question
        first = keep_from(question)
        if not first:
            return None
        assert isinstance(question, KeepingQuestion)
        leaving = set(request.release)

        def is_named(node: Node) -> bool:
            if question.wrt is not None:
                return True
            return node.id not in leaving and (node.id in made or node.id in self._nodes)

        return Keep(self._tape, first, is_named, request.tensors, before)

    def _answer(
        self,
        request: Execute,
        base_id: int,
        failures: Sequence[Failure],
        made: dict[int, Node],
        keep: Keep | None,
        interrupt: Interrupt,
        stopwatch: Stopwatch | None = None,
    ) -> Answer:
        def node_of(each: int) -> Node:
            return made[each] if each in made else self._find(each)

        asked = Asked()
        failed = None
        try:
            with nullcontext() if stopwatch is None else stopwatch.passes():
                asked = ask(
                    self._engine, self._tape, request.values, request.question, node_of, keep
                )
        except NodeFailed as failure:
            failed = _failure(failure.error, [failure.node])
        return Answer(
            self.epoch,
            base_id,
            failures,
            failed,
            asked.values,
            asked.loss_value,
            asked.sets,
            tangents=asked.tangents,
            sight=None
            if request.sight is None
            else look(request, self._engine, {**self._nodes, **made}, stopwatch, interrupt),
        )

    def nodes(self, at_most: int, interrupt: Interrupt) -> Sight:
        """Its nodes, those made last."""
        with self._engine.interruptible(interrupt, self._lane):
            return nodes_of(self._engine, self._nodes, at_most, interrupt)

    def _find(self, node: int) -> Node:
        found = self._nodes.get(node)
        if found is None:
            known = node <= self._highest_id
            raise make_error(
                "MISSING_NODE",
                f"The session has no node {node}: "
                + ("it was released, or never made." if known else "none was made with this id."),
                node=node,
            )
        return found


def _key(request: Execute) -> tuple[object, ...]:
    """What a question that keeps its answers must have in common with itself when it is repeated."""
    question = request.question
    if question is None or not keep_from(question):
        return ()
    return type(question), asked_node(question), keep_from(question)


def _aval_of(array: Array) -> Aval:
    return aval(array.shape, array.dtype)


def _new_failures(made: Iterable[Node]) -> list[Failure]:
    """One failure for each error that arose here, with the nodes that depend on it."""
    groups: dict[int, list[Node]] = {}
    for node in made:
        if node.error is not None:
            groups.setdefault(id(node.error), []).append(node)
    failures = []
    for nodes in groups.values():
        error = nodes[0].error
        assert error is not None
        error.details.setdefault("node", str(nodes[0].id))
        failures.append(_failure(error, [node.id for node in nodes]))
    return failures


def _failure(error: AutodiffError, nodes: Sequence[int]) -> Failure:
    return Failure(nodes[0], error.reason, error.message, error.details, nodes[1:])
