"""The rule of einsum, and of the two private ops that its cotangents are written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.einsum import resolve
from backhaul_proto.catalog.promotion import promote
from backhaul_server.engine.dual import Dual, dual
from backhaul_server.engine.einsum import passes
from backhaul_server.engine.einsum.budget import keeping
from backhaul_server.engine.einsum.plan import Binary, Plan, arriving, make_plan
from backhaul_server.engine.einsum.products import Contraction
from backhaul_server.engine.einsum.rearrangement import Rearrangement
from backhaul_server.engine.memory import Need, Room
from backhaul_server.engine.ops.sliced_einsum import within
from backhaul_server.engine.prediction import predict
from backhaul_server.engine.rules import (
    RULES,
    Array,
    Cotangents,
    Linear,
    Namespace,
    Rule,
    rule,
)


@rule("einsum")
class Einsum(Rule):
    """Contraction along a tree of pairs; the residual is the results of its steps.

    The derivative with respect to an operand is an einsum of the others: what the tree computed on
    the way serves all operands, in both directions.
    """

    keeps = True
    selective = True

    def prepare_within(
        self, room: Room, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        found = resolve(tuple(each.shape for each in avals), **attributes)
        result = promote(*avals)
        plan = make_plan(found, arriving([each.dtype for each in avals], result), result)
        if type(plan.only) is Binary:
            step = plan.only
            adjoints = (step.to_first, step.to_second)
            return RULES["contract"], {"lowering": step.lowering, "adjoints": adjoints}
        plan = keeping(plan, room.keep)
        sliced = within(found, plan, avals, result, room)
        return (self, {"plan": plan}) if sliced is None else (RULES["sliced_einsum"], sliced)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        return predict(self, operands, keywords).need

    def forward(
        self, xp: Any, *operands: Array, plan: Plan, needs: Sequence[bool] | None = None
    ) -> tuple[Array, passes.Residual]:
        return passes.evaluate(xp, plan, operands, needs)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        *operands: Array | None,
        plan: Plan,
        residual: passes.Residual = None,
    ) -> tuple[Array | None, passes.Residual]:
        values, tangents = operands[: plan.operands], operands[plan.operands :]
        dy, moved = passes.push(F, plan, values, tangents, residual)
        return dy, None if residual is None else tuple(map(dual, residual, moved or ()))

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        **keywords: Any,
    ) -> Cotangents:
        plan, residual = keywords["plan"], keywords.get("residual")
        return passes.pull(F, plan, ct, operands, needs, residual)


@rule("contract")
class Contract(Rule):
    """c = a b, summed over labels: linear in each, up to conjugates.

    ``adjoints`` are the lowerings of the operands' cotangents, given where it stands for an einsum.
    """

    def bind(self, xp: Any) -> Callable[..., Any]:
        def contract(a: Array, b: Array, *, lowering: Contraction) -> Array:
            return lowering(xp, a, b)

        return contract

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        return predict(self, operands, keywords).need

    def call(self, xp: Any, **keywords: Any) -> Callable[..., Any]:
        return partial(keywords["lowering"], xp)

    def lift(self, F: Namespace) -> Callable[..., Any]:
        xp = F.xp

        def contract(a: Array, b: Array, *, lowering: Contraction) -> Array:
            if type(a) is not Dual:
                if type(b) is not Dual:
                    return lowering(xp, a, b)
                return Dual(lowering(xp, a, b.value), lowering(xp, a, b.tangent))
            if type(b) is not Dual:
                return Dual(lowering(xp, a.value, b), lowering(xp, a.tangent, b))
            tangent = lowering(xp, a.tangent, b.value)
            tangent += lowering(xp, a.value, b.tangent)
            return Dual(lowering(xp, a.value, b.value), tangent)

        return contract

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        b: Array,
        da: Array | None,
        db: Array | None,
        lowering: Contraction,
        **_: Any,
    ) -> Array | None:
        from_a = None if da is None else F.contract(da, b, lowering=lowering)
        from_b = None if db is None else F.contract(a, db, lowering=lowering)
        return passes.added(from_a, from_b)

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        adjoints: Any = None,
        **_: Any,
    ) -> Cotangents:
        a, b = operands
        contract = F.contract
        return (
            contract(ct, b, lowering=adjoints[0]) if needs[0] else None,
            contract(a, ct, lowering=adjoints[1]) if needs[1] else None,
        )


@rule("rearrange")
class Rearrange(Linear):
    """Diagonals, sums and transposes of one array, or their adjoints, as the lowering says."""

    def bind(self, xp: Any) -> Callable[..., Any]:
        def rearrange(x: Array, *, lowering: Rearrangement) -> Array:
            return lowering(xp, x)

        return rearrange
