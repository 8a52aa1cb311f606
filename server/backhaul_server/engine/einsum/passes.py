"""A plan run forward, its derivative forward, and its derivative backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backhaul_server.engine.einsum.plan import Plan, Unary
from backhaul_server.engine.rules import Array, Namespace, plus


def evaluate(xp: Any, plan: Plan, operands: Sequence[Array]) -> tuple[Array, Any]:
    """The result, and those results of steps that derivatives need (None when there are none)."""
    slots = list(operands)
    for operand, dtype in enumerate(plan.casts):
        if dtype is not None:
            slots[operand] = xp.astype(slots[operand], dtype)
    for step in plan.steps:
        xp.checkpoint()
        if isinstance(step, Unary):
            slots.append(step.lowering(xp, slots[step.source]))
        else:
            slots.append(step.lowering(xp, slots[step.first], slots[step.second]))
    return slots[-1], tuple(slots[plan.operands : plan.operands + plan.residuals]) or None


def push(
    F: Namespace,
    plan: Plan,
    operands: Sequence[Array],
    tangents: Sequence[Array | None],
    residual: Sequence[Array] | None,
) -> tuple[Array | None, list[Array | None]]:
    """The result's tangent, and those of the residual. None is zero, and costs nothing."""
    slots = _slots(F, plan, operands, residual)
    moved = _cast(F, plan, tangents)
    for step in plan.steps:
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
            moved.append(plus(F, from_a, from_b))
    return moved[-1], moved[plan.operands : plan.operands + plan.residuals]


def pull(
    F: Namespace,
    plan: Plan,
    ct: Array,
    operands: Sequence[Array],
    needs: Sequence[bool],
    residual: Sequence[Array] | None,
) -> list[Array | None]:
    """The operands' cotangents, by the steps backward; None where none is needed.

    Each step's result is read once, so its cotangent comes from one place. What was spent is dropped.
    """
    slots = _slots(F, plan, operands, residual)
    wanted = list(needs)
    for step in plan.steps:
        wanted.append(
            wanted[step.source]
            if isinstance(step, Unary)
            else wanted[step.first] or wanted[step.second]
        )
    cotangents: list[Array | None] = [None] * len(wanted)
    if wanted[-1]:
        cotangents[-1] = ct
    for step in reversed(plan.steps):
        c = cotangents.pop()
        del slots[len(cotangents) :]
        if c is None:
            continue
        F.xp.checkpoint()
        if isinstance(step, Unary):
            if wanted[step.source]:
                cotangents[step.source] = F.rearrange(c, lowering=step.adjoint)
            continue
        if wanted[step.first]:
            b = slots[step.second]
            cotangents[step.first] = F.contract(c, b, lowering=step.to_first)
        if wanted[step.second]:
            a = slots[step.first]
            cotangents[step.second] = F.contract(a, c, lowering=step.to_second)
    return cotangents


def _slots(
    F: Namespace, plan: Plan, operands: Sequence[Array], residual: Sequence[Array] | None
) -> list[Array]:
    """The operands and what the derivatives need beside: the residual, or it is computed again."""
    slots = _cast(F, plan, operands)
    if residual is not None:
        slots.extend(residual)
        return slots
    for step in plan.steps[: plan.residuals]:
        if isinstance(step, Unary):
            slots.append(F.rearrange(slots[step.source], lowering=step.lowering))
        else:
            a, b = slots[step.first], slots[step.second]
            slots.append(F.contract(a, b, lowering=step.lowering))
    return slots


def _cast(F: Namespace, plan: Plan, arrays: Sequence[Array | None]) -> list[Array | None]:
    cast = list(arrays)
    for position, dtype in enumerate(plan.casts):
        if dtype is not None and cast[position] is not None:
            cast[position] = F.astype(cast[position], dtype=dtype)
    return cast
