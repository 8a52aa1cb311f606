"""Which intermediates are kept for the derivatives, when not all may be.

A slot that is dropped is computed again in the reverse, from the nearest that are held. How often depends
on its neighbours: where a run of slots is dropped, each is computed again for every one above it in the
run. So a slot is worth the work of its step and of all dropped below it, as often as the dropped above
it ask for that; those of least worth per byte go. (With equal costs along a chain this spreads what is
kept evenly, as in Chen et al. 2016, Training deep nets with sublinear memory cost.)

In the reverse what is held is used up, and its room goes to what is computed again, chosen alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from backhaul_proto.kept_calls import kept_by_size
from backhaul_server.engine.einsum.layout import volume
from backhaul_server.engine.einsum.plan import Binary, Plan, Unary, kept
from backhaul_server.engine.interruption import checkpoint
from backhaul_server.engine.phantom import Ledger, Phantom, PhantomNamespace

_UNITS: Final = 20  # bits


def _weigh(plan: Plan, keep_bytes: int | None) -> int:
    return plan.operands


@kept_by_size(1024, _weigh)
def keeping(plan: Plan, keep_bytes: int | None) -> Plan:
    """The plan, which holds intermediates of at most this many bytes for its derivatives; None: all."""
    if keep_bytes is None or True not in plan.kept[plan.operands :]:
        return plan
    nbytes = _bytes(plan)
    if sum(nbytes) <= keep_bytes:
        return plan
    held = _Reverse(plan, nbytes, keep_bytes).held()
    return replace(plan, held=held, kept=kept(plan.operands, held))


def multiplications(plan: Plan, slot: int) -> int:
    """Scalar multiplications of the step that makes a slot."""
    step = plan.steps[slot - plan.operands]
    if isinstance(step, Unary):
        return 0
    return volume({*plan.labels[step.first], *plan.labels[step.second]}, plan.sizes)


def _bytes(plan: Plan) -> list[int]:
    """What keeping each slot takes: nothing for operands and views of them, and what is never kept."""
    xp = PhantomNamespace(Ledger())
    slots: list[Phantom] = []
    for labels, dtype in zip(plan.labels[: plan.operands], plan.dtypes, strict=True):
        slots.append(xp.given(tuple(plan.sizes[label] for label in labels), dtype))
    for step in plan.steps:
        checkpoint()
        slots.append(step.lowering(xp, *[slots[each] for each in step.reads]))
    return [
        each.buffer.nbytes if keep and each.buffer else 0
        for each, keep in zip(slots, plan.kept, strict=True)
    ]


class _Reverse:
    """The reverse in advance: which slots are held from when on."""

    def __init__(self, plan: Plan, nbytes: Sequence[int], room: int) -> None:
        self._plan = plan
        self._bytes = nbytes
        self._room = room
        self._held = list(range(len(nbytes)))
        self._missing = set(range(plan.operands, len(nbytes)))
        self._readers = {each: s for s, step in self._steps() for each in step.reads}
        self._work = {
            slot: multiplications(plan, slot) + volume(plan.labels[slot], plan.sizes)
            for slot in self._missing
        }

    def _steps(self) -> list[tuple[int, Unary | Binary]]:
        return list(enumerate(self._plan.steps, self._plan.operands))

    def held(self) -> tuple[int, ...]:
        """For each slot, from which slot's turn on it is held; as `passes.pull` goes."""
        self._fill(len(self._held) - 1)
        for _, step in reversed(self._steps()):
            for target in reversed(step.reads):
                if isinstance(step, Binary) and target in self._missing:
                    self._fill(target)
                elif target >= self._plan.operands and target not in self._missing:
                    self._missing.add(target)
                    self._room += self._bytes[target]
        return tuple(self._held)

    def _fill(self, target: int) -> None:
        """Choose what is held of all that has to be computed for this slot."""
        region, pending = [], list(self._reads(target))
        while pending:
            slot = pending.pop()
            region.append(slot)
            pending.extend(self._reads(slot))
        for slot in self._chosen(region):
            self._held[slot] = target
            self._missing.discard(slot)
            self._room -= self._bytes[slot]

    def _reads(self, slot: int) -> list[int]:
        """The missing slots that it is computed from."""
        reads = self._plan.steps[slot - self._plan.operands].reads
        return [each for each in reads if each in self._missing]

    def _chosen(self, region: Sequence[int]) -> list[int]:
        candidates = [slot for slot in region if self._plan.kept[slot]]
        total = sum(self._bytes[slot] for slot in candidates)
        if total <= self._room:
            return candidates
        dropped = set(region).difference(candidates)
        below: dict[int, int] = {}  # for a dropped slot, the work that computing it again takes
        for slot in sorted(dropped):
            below[slot] = self._again(slot, below)
        left = [(self._density(x, below), x) for x in candidates if self._bytes[x]]
        heapq.heapify(left)
        while total > self._room:
            worth, slot = heapq.heappop(left)
            now = self._density(slot, below)
            if now > worth:  # it has got dropped neighbours since
                heapq.heappush(left, (now, slot))
                continue
            total -= self._bytes[slot]
            dropped.add(slot)
            below[slot] = added = self._again(slot, below)
            above = self._readers[slot]
            while above in below:
                below[above] += added
                above = self._readers[above]
        for slot in self._fitting(dropped.intersection(candidates), below, self._room - total):
            dropped.discard(slot)
        return [slot for slot in candidates if slot not in dropped]

    def _again(self, slot: int, below: dict[int, int]) -> int:
        return self._work[slot] + sum(below.get(each, 0) for each in self._reads(slot))

    def _density(self, slot: int, below: dict[int, int]) -> int:
        """The slot's worth per byte, in units small enough for an integer."""
        asked, above = 1, self._readers[slot]
        while above in below:
            asked, above = asked + 1, self._readers[above]
        return (asked * self._again(slot, below) << _UNITS) // self._bytes[slot]

    def _fitting(self, dropped: Collection[int], below: dict[int, int], room: int) -> list[int]:
        """The dropped that small gaps, which large ones have left, have room for."""
        found = []
        for slot in sorted(dropped, key=lambda x: self._density(x, below))[::-1]:
            if self._bytes[slot] <= room:
                room -= self._bytes[slot]
                found.append(slot)
        return found
