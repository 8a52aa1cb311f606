"""A plan run forward, its derivative forward, and its derivative backward.

Each drops a value, tangent or cotangent once nothing later reads it. What the plan does not keep is
computed again where it is needed, by the same operations in the same order: the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backhaul_server.engine.einsum.plan import Plan, Unary
from backhaul_server.engine.rules import Array, Namespace

Residual = tuple[Any, ...] | None
"""The results of the steps before the last, None for those not kept; None when there are none."""


def evaluate(
    xp: Any, plan: Plan, operands: Sequence[Array], needs: Sequence[bool] | None = None
) -> tuple[Array, Residual]:
    """The result, and what the plan keeps for the derivatives of the operands in need (None: all)."""
    kept = plan.kept if needs is None or False not in needs else _kept(plan, needs)
    slots = list(operands)
    for step in plan.steps:
        xp.checkpoint()
        if isinstance(step, Unary):
            source = step.source
            slots.append(step.lowering(xp, slots[source]))
            if not kept[source]:
                slots[source] = None
        else:
            first, second = step.first, step.second
            slots.append(step.lowering(xp, slots[first], slots[second]))
            if not kept[first]:
                slots[first] = None
            if not kept[second]:
                slots[second] = None
    result = slots.pop()
    return result, tuple(slots[plan.operands :]) or None


def push(
    F: Namespace,
    plan: Plan,
    operands: Sequence[Array],
    tangents: Sequence[Array | None],
    residual: Residual,
) -> tuple[Array | None, Residual]:
    """The result's tangent, and those of the residual. None is zero, and costs nothing."""
    slots = _slots(plan, operands, residual)
    present = [value is not None for value in slots]
    required = _required(plan, _reached(plan, [t is not None for t in tangents]), present)
    moved: list[Array | None] = list(tangents)
    for number, step in enumerate(plan.steps, plan.operands):
        F.xp.checkpoint()
        if isinstance(step, Unary):
            dx = moved[step.source]
            moved.append(None if dx is None else F.rearrange(dx, lowering=step.lowering))
        else:
            da, db = moved[step.first], moved[step.second]
            from_a = from_b = None
            if da is not None:
                from_a = F.contract(da, slots[step.second], lowering=step.lowering)
            if db is not None:
                from_b = F.contract(slots[step.first], db, lowering=step.lowering)
            moved.append(added(from_a, from_b))
            del da, db, from_a, from_b
        if required[number] and not present[number]:
            slots[number] = _step(F, plan, slots, number)
        for slot in step.reads:
            slots[slot] = None
            if slot < plan.operands or not present[slot]:
                moved[slot] = None
    dy = moved.pop()
    return dy, tuple(moved[plan.operands :]) or None


def pull(
    F: Namespace,
    plan: Plan,
    ct: Array,
    operands: Sequence[Array],
    needs: Sequence[bool],
    residual: Residual,
) -> list[Array | None]:
    """The operands' cotangents, by the steps backward; None where none is needed.

    Each step's result is read once, so its cotangent comes from one place.
    """
    slots = _slots(plan, operands, residual)
    wanted = _reached(plan, needs)
    cotangents: list[Array | None] = [None] * len(wanted)
    if wanted[-1]:
        cotangents[-1] = ct
    del ct
    for step in reversed(plan.steps):
        c = cotangents.pop()
        if c is not None:
            F.xp.checkpoint()
            if isinstance(step, Unary):
                cotangents[step.source] = F.rearrange(c, lowering=step.adjoint)
            else:
                first, second = step.first, step.second
                if wanted[first]:
                    b = _taken(F, plan, slots, second)
                    cotangents[first] = F.contract(c, b, lowering=step.to_first)
                    b = None
                if wanted[second]:
                    a = _taken(F, plan, slots, first)
                    cotangents[second] = F.contract(a, c, lowering=step.to_second)
                    a = None
        del slots[len(cotangents) :]
    return cotangents


def added(a: Array | None, b: Array | None) -> Array | None:
    """The sum of two arrays that nobody else has, in place; None is zero."""
    if a is None or b is None:
        return b if a is None else a
    a += b
    return a


def _slots(plan: Plan, operands: Sequence[Array], residual: Residual) -> list[Any]:
    """The values of all slots, None where they are not at hand."""
    if residual is None:
        return [*operands, *[None] * len(plan.steps)]
    return [*operands, *residual, None]


def _taken(F: Namespace, plan: Plan, slots: list[Any], target: int) -> Array:
    """The slot's value, for the last time it is needed. The steps that nobody held are run again."""
    if slots[target] is None:
        missing, pending = [], [target]
        while pending:
            slot = pending.pop()
            missing.append(slot)
            reads = plan.steps[slot - plan.operands].reads
            pending.extend(each for each in reads if slots[each] is None)
        for slot in sorted(missing):
            F.xp.checkpoint()
            slots[slot] = _step(F, plan, slots, slot)
            for each in plan.steps[slot - plan.operands].reads:
                if plan.held[each] < target and each >= plan.operands:
                    slots[each] = None
    value, slots[target] = slots[target], None
    return value


def _step(F: Namespace, plan: Plan, slots: Sequence[Any], slot: int) -> Array:
    step = plan.steps[slot - plan.operands]
    if isinstance(step, Unary):
        return F.rearrange(slots[step.source], lowering=step.lowering)
    return F.contract(slots[step.first], slots[step.second], lowering=step.lowering)


def _kept(plan: Plan, needs: Sequence[bool]) -> Sequence[bool]:
    """What the forward keeps when some operands need no cotangent."""
    if True not in needs:
        return [False] * len(plan.kept)
    required = _required(plan, _reached(plan, needs), plan.kept)
    return [keep and need for keep, need in zip(plan.kept, required, strict=True)]


def _reached(plan: Plan, operands: Sequence[bool]) -> list[bool]:
    """For each slot, whether it was computed from one of these operands."""
    reached = list(operands)
    for step in plan.steps:
        if isinstance(step, Unary):
            reached.append(reached[step.source])
        else:
            reached.append(reached[step.first] or reached[step.second])
    return reached


def _required(plan: Plan, reached: Sequence[bool], kept: Sequence[bool]) -> list[bool]:
    """For each slot, whether its value is needed for the derivatives along the slots reached.

    Either the one beside it has a tangent or wants a cotangent, or it serves to compute again one
    that is needed and not kept.
    """
    required = [False] * len(reached)
    for number in range(len(plan.steps) - 1, -1, -1):
        step, slot = plan.steps[number], plan.operands + number
        again = required[slot] and not kept[slot]
        if isinstance(step, Unary):
            required[step.source] = again
        else:
            required[step.first] = reached[step.second] or again
            required[step.second] = reached[step.first] or again
    return required
