"""The rule of an einsum that is computed in slices, and when it takes the place of the usual one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.einsum import Einsum
from backhaul_server.engine.dual import Dual
from backhaul_server.engine.einsum import sliced
from backhaul_server.engine.einsum.layout import volume
from backhaul_server.engine.einsum.plan import Plan
from backhaul_server.engine.einsum.slicing import Slicing, find, whole
from backhaul_server.engine.memory import Need, Room
from backhaul_server.engine.prediction import predict
from backhaul_server.engine.rules import RULES, Array, Cotangents, Namespace, Rule, rule

_DUALS: Final = 6
"""Values, tangents and cotangents with theirs, and as much again for copies: arrays for each of a plan."""


@rule("sliced_einsum")
class SlicedEinsum(Rule):
    """Slices of an einsum, summed. It keeps nothing: the derivatives compute each slice again.

    ``slicing`` is for value and cotangents, ``fine`` for what goes with tangents, which takes more.
    """

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        return _predicted(operands, keywords)

    def forward(
        self, xp: Any, *operands: Array, slicing: Slicing, fine: Slicing, shape: tuple[int, ...]
    ) -> Array:
        return sliced.evaluate(xp, slicing, operands, shape)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        *operands: Array | None,
        slicing: Slicing,
        fine: Slicing,
        shape: tuple[int, ...],
    ) -> Array | None:
        count = len(operands) // 2
        return sliced.push(F, fine, operands[:count], operands[count:], shape)

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        **keywords: Any,
    ) -> Cotangents:
        duals = type(ct) is Dual or any(type(x) is Dual for x in operands)
        slicing = keywords["fine"] if duals else keywords["slicing"]
        return sliced.pull(F, slicing, ct, operands, needs)


def within(
    einsum: Einsum, plan: Plan, avals: Sequence[Aval], result: Any, room: Room
) -> dict[str, Any] | None:
    """The keywords of a sliced einsum that takes no more than there is room for.

    None where the einsum as a whole does, or where no slices do: then it is refused as a whole.
    """
    most = room.work
    if most is None or len(einsum.inputs) == 1:
        return None
    elements = sum(volume(labels, plan.sizes) for labels in plan.labels)
    if elements * result.itemsize * _DUALS <= most:
        return None
    operands = tuple(
        each if each.inexact or result.kind not in "fc" else aval(each.shape, result)
        for each in avals
    )
    need = predict(RULES["einsum"], operands, {"plan": plan}).need
    if _fits_gradient(need, most) and need.hvp <= most:
        return None

    def keywords(slicing: Slicing, fine: Slicing) -> dict[str, Any]:
        return {"slicing": slicing, "fine": fine, "shape": einsum.shape}

    def needed(slicing: Slicing) -> Need:
        return _predicted(operands, keywords(slicing, slicing))

    def cut(fits: Any) -> Slicing | None:
        return find(einsum, plan, result, keep_bytes=room.keep, most_bytes=most // 2, fits=fits)

    def fits(slicing: Slicing) -> bool:
        return _fits_gradient(needed(slicing), most)

    uncut = whole(einsum, plan)
    slicing = uncut if _fits_gradient(need, most) and fits(uncut) else cut(fits)
    if slicing is None:
        return None
    fine = cut(lambda each: needed(each).hvp <= most)
    if fine is None and slicing is uncut:
        return None
    return keywords(slicing, fine or slicing)


def _fits_gradient(need: Need, most: int) -> bool:
    return max(need.value, need.kept + need.gradient) <= most


def shortened(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a call for a prediction: of all slices it runs the first few."""
    return {**keywords, **{name: keywords[name].shortened() for name in ("slicing", "fine")}}


def _predicted(operands: Sequence[Aval], keywords: Mapping[str, Any]) -> Need:
    return predict(RULES["sliced_einsum"], operands, shortened(keywords)).need
