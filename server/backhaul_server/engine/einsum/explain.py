"""How an einsum would be computed, and what that takes. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.einsum import Einsum, symbol
from backhaul_proto.messages import Contraction, ContractionCost
from backhaul_server.engine import ops
from backhaul_server.engine.einsum.budget import keeping, multiplications
from backhaul_server.engine.einsum.layout import Ints, volume
from backhaul_server.engine.einsum.plan import Plan, Unary, arriving, make_plan
from backhaul_server.engine.einsum.slicing import whole
from backhaul_server.engine.memory import Room
from backhaul_server.engine.ops.sliced_einsum import shortened, within
from backhaul_server.engine.prediction import predict, predict_alone
from backhaul_server.engine.rules import RULES

assert ops.__all__  # importing the package is what fills RULES


def explain(
    einsum: Einsum, dtypes: tuple[np.dtype, ...], result: np.dtype, room: Room
) -> ContractionCost:
    """The steps that an engine with this room takes, and their cost.

    Args:
        einsum: what is computed.
        dtypes: of the operands.
        result: the dtype that they promote to.
        room: as in `Engine`.

    Raises:
        InvalidArgument: EINSUM_RANK when the order of contraction makes an array of too many axes.
    """
    arrived = arriving(dtypes, result)
    plan = keeping(make_plan(einsum, arrived, result), room.keep)
    operands = [aval(shape, dtype) for shape, dtype in zip(einsum.shapes, arrived, strict=True)]
    cast = sum(
        each.nbytes for each, dtype in zip(operands, dtypes, strict=True) if each.dtype != dtype
    )
    ct = volume(einsum.output, einsum.sizes) * result.itemsize
    sliced = within(einsum, plan, operands, result, room)
    if sliced is None:
        slicing, rule, keywords = whole(einsum, plan), RULES["einsum"], {"plan": plan}
    else:
        slicing, rule, keywords = sliced["slicing"], RULES["sliced_einsum"], shortened(sliced)
    found = predict(rule, operands, keywords)
    need, standing = found.need, found.result + found.need.kept
    # The usual rule keeps what derivatives need, and takes less for a value alone.
    value = need.value if sliced else predict_alone(rule, operands, keywords)
    gradient = hvp = value
    if any(each.inexact for each in operands):
        gradient = max(need.value, standing + ct + need.gradient)
        hvp = max(need.value, standing + 2 * ct + need.hvp)
    steps = _steps(next(iter(slicing)).plan, einsum)
    return ContractionCost(
        steps=steps,
        naive_multiplications=prod(einsum.sizes) * (len(einsum.inputs) - 1),
        largest_intermediate=max(step.elements for step in steps),
        value_bytes=cast + value,
        gradient_bytes=cast + gradient,
        hvp_bytes=cast + hvp,
        slices=slicing.count,
        sliced_labels="".join(map(symbol, slicing.labels)),
    )


def _steps(plan: Plan, einsum: Einsum) -> tuple[Contraction, ...]:
    """The contractions of a plan.

    What an operand or the result goes through alone, such as a diagonal or a sum, is told as part of
    the contraction next to it.
    """
    if len(einsum.inputs) == 1:
        elements = volume(einsum.output, plan.sizes)
        return (Contraction((0,), _written(einsum.inputs, einsum.output), 0, elements, False),)
    left = list(range(plan.operands))
    told = list(range(plan.operands))  # for each slot the one in whose place it stands
    last = max(s for s, step in enumerate(plan.steps, plan.operands) if not isinstance(step, Unary))
    found = []
    for slot, step in enumerate(plan.steps, plan.operands):
        if isinstance(step, Unary):
            told.append(told[step.source])
            continue
        told.append(slot)
        positions = tuple(sorted(left.index(told[each]) for each in step.reads))
        terms = [plan.labels[left[position]] for position in positions]
        output = einsum.output if slot == last else plan.labels[slot]
        left = [each for position, each in enumerate(left) if position not in positions]
        left.append(slot)
        found.append(
            Contraction(
                positions,
                _written(terms, output),
                multiplications(plan, slot),
                volume(output, plan.sizes),
                plan.kept[slot],
            )
        )
    return tuple(found)


def _written(terms: Iterable[Ints], output: Ints) -> str:
    inputs = ",".join("".join(map(symbol, term)) for term in terms)
    return f"{inputs}->{''.join(map(symbol, output))}"
