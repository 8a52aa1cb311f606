"""What a session may use, and the check of each request against it before anything is run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Final

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import (
    LEAF_WITH_TANGENT,
    Array,
    Execute,
    HvpQuestion,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
    asked_node,
    keep_from,
)
from backhaul_proto.units import size
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape_memory import (
    Held,
    Peak,
    Planned,
    held_by,
    hvp_peak,
    pullback_peak,
    pushforward_peak,
    sketch,
)
from backhaul_server.sessions.blocks import BlockNeed, Plan
from backhaul_server.sessions.claims import Claim
from backhaul_server.sessions.pool import Pool

_NOTHING: Final = Held(0, 0, 0)
_NO_BLOCK: Final = BlockNeed(0, _NOTHING, -1, 0, 0)
_NAMES: Final = {
    PullbackQuestion: "pullback",
    HvpQuestion: "hvp",
    PushforwardQuestion: "pushforward",
}
_SURELY: Final = 4
"""No pass has more arrays at once than so many times all its cotangents, tangents and answers."""


class Budget:
    """The memory of one session.

    What is held is known at most: all that was made is added up, and it is counted anew only when the sum
    comes near the limit. So a request that is far below costs a few additions, however long the tape.

    Args:
        limit: bytes that may be used.
        pool: what all sessions may use together.
        nodes: the session's, by id.
        principal: whose it is.

    Raises:
        QuotaExceeded, ServerBusy: there are too many sessions, see `Pool.join`.
    """

    def __init__(
        self, limit: int, pool: Pool, nodes: Mapping[int, Node], principal: str = ""
    ) -> None:
        self.limit = limit
        self.principal = principal
        self._pool = pool
        self._nodes = nodes
        self._held = _NOTHING
        self._reserved = 0
        self._is_counted = True
        self._has_ended = False
        self._lock = Lock()  # other sessions' threads may have it counted anew
        pool.join(self)

    @property
    def held(self) -> int:
        """Bytes that are held at most."""
        return self._held.bytes

    def recount(self) -> None:
        """Count what is held, unless nothing has changed since it was counted."""
        with self._lock:
            if not self._is_counted:
                self._is_counted = True  # first: what changes meanwhile is counted the next time
                self._hold(held_by(list(self._nodes.values())))

    def close(self) -> None:
        """The session has ended."""
        with self._lock:
            self._has_ended = True
            self._pool.leave(self)

    def released(self) -> None:
        """Nodes were let go. Requests that wait for memory are told by counting."""
        self._is_counted = False
        if self._pool.waiting:
            self.recount()

    def freed(self, nbytes: int) -> None:
        """So many bytes of nodes were let go, and nothing follows that would use them at once."""
        self.released()
        self._pool.freed(nbytes)

    def admit(
        self,
        request: Execute,
        plan: Plan | None,
        inputs: Sequence[Node],
        base_id: int,
        claim: Claim | None = None,
    ) -> None:
        """Check a request, and set aside what it may use. `committed` or `done` gives that back.

        Args:
            request: the request.
            plan: of its block; None without one.
            inputs: the nodes that the block takes.
            base_id: the id of the block's first result.
            claim: what was set aside for it before.

        Raises:
            MemoryLimitExceeded: it would take more than is left.
            QuotaExceeded, ServerBusy: the principal's sessions, or all others, hold too much for it.
            Lacking: others use too much at the moment.
        """
        need = _NO_BLOCK if plan is None else plan.need
        asked = _question_bytes(request, plan)
        claim = None if claim is None else claim.of(self._pool)
        surely = self._at_most(need, asked, request.question)
        aside = self._pool.reserve(self, surely, claim) if surely <= self.limit else None
        if aside is not None:
            self._reserved = aside
            return
        self.recount()
        before = self.held + asked
        needed = before + need.peak
        if needed > self.limit:
            raise self._block_refused(needed, need, plan, base_id)
        if request.question is not None:
            peak = _question_peak(request, plan, inputs, base_id, self._nodes)
            asking = before + need.made.bytes + peak.bytes
            if keep_from(request.question):
                asking += peak.answers  # copies of those that are views
            if asking > self.limit:
                raise self._question_refused(asking, request.question, peak)
            needed = max(needed, asking)
        self._reserved = self._pool.reserve_or_refuse(self, needed, claim)

    def committed(self, plan: Plan | None, kept: Iterable[Node]) -> None:
        """The block was run, and its nodes and kept answers are the session's.

        Counted earlier, they could be lost again.
        """
        more = Held(sum(each.aval.nbytes for each in kept), 0, 0)
        if plan is not None:
            more = _sum(more, plan.need.made)
        aside, self._reserved = self._reserved, 0
        with self._lock:
            self._is_counted = False
            self._hold(_sum(self._held, more), aside)

    def done(self) -> None:
        """The request runs no more. Harmless after `committed`."""
        aside, self._reserved = self._reserved, 0
        if aside:
            self._pool.give_back(self.principal, aside)

    def _hold(self, held: Held, aside: int = 0) -> None:
        if self._has_ended:
            self._pool.give_back(self.principal, aside)
        else:
            self._pool.changed(self, held.bytes - self._held.bytes, aside)
            self._held = held

    def _at_most(self, need: BlockNeed, asked: int, question: Question | None) -> int:
        """What the request surely will not go beyond."""
        running = self.held + asked + need.peak
        if question is None:
            return running
        after, gradient, hvp = _sum(self._held, need.made)
        times = _SURELY
        if isinstance(question, PushforwardQuestion):
            sets, passing = len(question.directions) or 1, hvp
        else:
            sets = question.set_count
            passing = gradient if isinstance(question, PullbackQuestion) else hvp
            times += 2 if question.keep_from else 0  # gradients and H·v
        return max(running, asked + after + sets * times * (passing + after))

    def _block_refused(
        self, needed: int, need: BlockNeed, plan: Plan | None, base_id: int
    ) -> BackhaulError:
        facts: dict[str, object] = {}
        most = "The arrays that came with the request take all of it."
        if plan is not None and need.step >= 0:
            call = plan.steps[need.step].call
            op = call if isinstance(call, str) else call.name
            node = base_id + need.result
            facts = {"op": op, "node": node, "step": need.step, "step_bytes": need.step_bytes}
            most = f"The step that takes most is {op} (node {node}), {size(need.step_bytes)}."
        return self._refused("The steps", needed, most, facts)

    def _question_refused(self, needed: int, question: Question, peak: Peak) -> BackhaulError:
        what = f"The {_NAMES[type(question)]}"
        node = peak.node
        op = "a leaf" if node.call is None else node.call.name
        facts = {"op": op, "node": node.id, "step_bytes": peak.node_bytes}
        most = (
            f"What takes most is to go back through {op} (node {node.id}), {size(peak.node_bytes)}."
        )
        return self._refused(what, needed, most, facts)

    def _refused(
        self, what: str, needed: int, most: str, facts: Mapping[str, object]
    ) -> BackhaulError:
        return make_error(
            "MEMORY_LIMIT_EXCEEDED",
            f"{what} would need {size(needed)}, of which the tape holds {size(self.held)} already; its limit "
            f"is {size(self.limit)}. {most} Nothing was run. Release tensors that are no longer needed, "
            "ask for less at once, or contract in another order (bh.contract_path tells what one takes); "
            "or give the tape more with memory_limit=, and the server with --session-memory.",
            needed=needed,
            held=self.held,
            limit=self.limit,
            **facts,
            **self._pool.facts,
        )


def _sum(a: Held, b: Held) -> Held:
    return Held(a.bytes + b.bytes, a.gradient + b.gradient, a.hvp + b.hvp)


def _question_bytes(request: Execute, plan: Plan | None) -> int:
    """Bytes of the request's tensors that are not the block's."""
    total = sum(each.nbytes for each in request.tensors)
    return total if plan is None else max(0, total - plan.given)


def answer_bytes(
    request: Execute,
    plan: Plan | None,
    inputs: Sequence[Node],
    base_id: int,
    nodes: Mapping[int, Node],
) -> int:
    """Bytes of a request's answers, at most: values, the loss, and what is asked of it.

    Args:
        request: the request, its questions checked.
        plan: of its block; None without one.
        inputs: the nodes that the block takes.
        base_id: the id of the block's first result.
        nodes: the session's, by id.
    """
    results = () if plan is None else plan.results
    question = request.question
    named = [*request.values] if question is None else [*request.values, asked_node(question)]
    total = 0
    for each in named:
        found = results[each - base_id] if 0 <= each - base_id < len(results) else nodes[each]
        total += 0 if found is None else found.aval.nbytes
    if question is not None and not keep_from(question):
        total += _question_peak(request, plan, inputs, base_id, nodes).answers
    return total


def _question_peak(
    request: Execute,
    plan: Plan | None,
    inputs: Sequence[Node],
    base_id: int,
    nodes: Mapping[int, Node],
) -> Peak:
    made: list[Node | None] = []
    if plan is not None:
        made = sketch(_planned(plan, request.tensors), plan.results, inputs, base_id)
    question = request.question
    assert question is not None
    node_of = _finder(made, base_id, nodes)
    if isinstance(question, PushforwardQuestion):
        along = [{node_of(leaf) for leaf, _ in each} for each in question.directions]
        return pushforward_peak(node_of(question.output), along)
    wrt = None if question.wrt is None else [node_of(each) for each in question.wrt]
    loss = node_of(question.loss)
    if isinstance(question, PullbackQuestion):
        return pullback_peak(loss, wrt, question.set_count)
    directions = [{node_of(leaf) for leaf, _ in each} for each in question.directions]
    return hvp_peak(loss, wrt, directions)


def _finder(
    made: Sequence[Node | None], base_id: int, nodes: Mapping[int, Node]
) -> Callable[[int], Node]:
    """A node by id, be it still to be made. The ids were checked before."""

    def find(each: int) -> Node:
        planned = made[each - base_id] if 0 <= each - base_id < len(made) else None
        return nodes[each] if planned is None else planned

    return find


def _planned(plan: Plan, tensors: Iterable[Array]) -> Iterator[Planned]:
    arrays = iter(tensors)
    for step in plan.steps:
        if not isinstance(step.call, str):
            yield Planned(step.call, step.operands)
            continue
        taken: list[object] = [next(arrays) for _ in range(step.tensor_count)] or [*step.operands]
        yield Planned(None, (), taken[1] if step.call == LEAF_WITH_TANGENT else None)
