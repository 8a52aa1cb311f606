"""H·v of several sets in one round trip: of the sum of their losses, whose Hessian is block-diagonal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from backhaul._ops import sum as total_of
from backhaul.functional.applying import Applied
from backhaul.functional.evaluating import Fetched, nodes_of
from backhaul.functional.sets import failed_sets, nan_like
from backhaul.functional.tapes import Asking, Watched, Work
from backhaul.shaping import concat
from backhaul_proto.errors import AutodiffError
from backhaul_proto.messages import Direction, HvpQuestion, PullbackQuestion, Question

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One set on the tape.

    Attributes:
        applied: its function.
        directions: along which H·v is asked, as many as for each other set; none: only the gradient is.
    """

    applied: Applied
    directions: Sequence[Direction]


@dataclass(frozen=True, slots=True)
class Curvature:
    """What came for one set.

    Attributes:
        value: of the loss.
        gradients: by leaf.
        products: H·v along each direction, by leaf.
        aux: the auxiliary data; None: there are none.
    """

    value: Array
    gradients: Sequence[Array]
    products: Sequence[Sequence[Array]]
    aux: Any


def curvatures(
    tape: Watched[Any], sets: Sequence[Recorded], *, has_aux: bool, nan: bool
) -> Work[list[Curvature]]:
    """Ask for all sets; with ``nan``, once more for the others where some failed.

    Raises:
        AutodiffError: a step failed, and NaN is not wanted for its set; or it is of no set.
    """
    sound: Sequence[int] = range(len(sets))
    came: list[Curvature] | None = None
    try:
        came = yield from _asked(sets, has_aux=has_aux, is_last=not nan)
    except AutodiffError as error:
        mains = [(each.applied.results.main,) for each in sets]
        failed = failed_sets(tape, mains, error, nan=nan)
        sound = [i for i in sound if i not in failed]
    if came is None:
        came = []
        if sound:
            came = yield from _asked([sets[i] for i in sound], has_aux=has_aux, is_last=True)
    by_set = dict(zip(sound, came, strict=True))
    return [by_set[i] if i in by_set else _nan(each) for i, each in enumerate(sets)]


def _asked(sets: Sequence[Recorded], *, has_aux: bool, is_last: bool) -> Work[list[Curvature]]:
    found = [each.applied for each in sets]
    losses = concat([each.results.main for each in found], axis=None)
    total = total_of(losses)
    leaves = [x._id for each in found for x in each.leaves]
    question: Question
    if sets[0].directions:
        along = [_joined(each) for each in zip(*[each.directions for each in sets], strict=True)]
        linear = [x._id for each in found for x in each.results.through]
        question = HvpQuestion(total._id, along, leaves, linear=linear)
    else:
        question = PullbackQuestion(total._id, (), leaves)
    aux = nodes_of(x for each in found for x in each.results.aux)
    spent = [total._id, losses._id, *(x for each in found for x in each.spent())] if is_last else ()
    answer = yield Asking((losses._id, *aux), question, spent, total)
    fetched = Fetched(aux, answer.values[1:])
    values = iter(answer.values[0])
    gradients = iter(answer.sets[0].gradients)
    products = [iter(each.hvps) for each in answer.sets] if sets[0].directions else []
    made = []
    for each in found:
        main = each.results.main
        assert main is not None
        value = np.array(next(values), main.dtype).reshape(main.shape)
        count = range(len(each.leaves))
        made.append(
            Curvature(
                value,
                [next(gradients) for _ in count],
                [[next(along) for _ in count] for along in products],
                fetched.aux(each.results) if has_aux else None,
            )
        )
    return made


def _joined(directions: Iterable[Direction]) -> Direction:
    """A direction for each set as one of all."""
    return [part for each in directions for part in each]


def _nan(of: Recorded) -> Curvature:
    """What a set that failed has."""
    leaves = of.applied.leaves
    products = [[nan_like(x) for x in leaves] for _ in of.directions]
    return Curvature(
        nan_like(of.applied.results.main), [nan_like(x) for x in leaves], products, None
    )
