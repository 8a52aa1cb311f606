"""What a call will take in memory: its rule, run on arrays without data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.dual import Dual, DualFunctions, dual, fit_tangent
from backhaul_server.engine.functions import Functions
from backhaul_server.engine.memory import Need
from backhaul_server.engine.phantom import Ledger, Phantom, PhantomNamespace
from backhaul_server.engine.rules import Rule


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a call takes.

    Attributes:
        need: its memory, when every operand that can have a gradient requires one.
        result: bytes of the result, none where it is a view of an operand.
    """

    need: Need
    result: int


def predict(rule: Rule, operands: Sequence[Aval], keywords: Mapping[str, Any]) -> Prediction:
    """The memory that a rule with one result takes. Operands are taken to lie in C order."""
    ledger = Ledger()
    xp = PhantomNamespace(ledger)
    plain = Functions(xp)
    duals = DualFunctions(plain)
    values = [xp.given(each.shape, each.dtype) for each in operands]
    needs = [each.inexact for each in operands]
    kept: dict[str, Any] = {}
    forward = rule.call(xp, **keywords)
    if rule.keeps:
        y, kept["residual"] = forward(*values, needs=needs)
    else:
        y = forward(*values)
    result = y.buffer.nbytes if y.buffer else 0
    value, kept_bytes = ledger.peak, ledger.live - result
    if True not in needs:
        return Prediction(Need(value, kept_bytes, gradient=0, hvp=0), result)

    before = ledger.restart()
    ct = xp.given(y.shape, y.dtype)
    sent = rule.cotangents(plain, ct, y, values, needs, **keywords, **kept)
    _fit(xp, zip(sent, operands, strict=True))
    gradient = ledger.peak - before
    del sent

    before = ledger.restart()
    tangents = [xp.given(each.shape, each.dtype) if each.inexact else None for each in operands]
    assert rule.jvp is not None
    dy = rule.jvp(plain, y, *values, *tangents, **keywords, **kept)
    if rule.keeps:
        dy, kept["residual"] = dy
    y = Dual(y, fit_tangent(plain, dy, y))
    del dy
    given = list(map(dual, values, tangents))
    sent = rule.cotangents(duals, Dual(ct, ct), y, given, needs, **keywords, **kept)
    pairs = [(g, kind) for g, kind in zip(sent, operands, strict=True) if g is not None]
    _fit(xp, [(part, kind) for g, kind in pairs for part in (g.value, g.tangent)])
    return Prediction(Need(value, kept_bytes, gradient, ledger.peak - before), result)


def predict_alone(rule: Rule, operands: Sequence[Aval], keywords: Mapping[str, Any]) -> int:
    """The peak of bytes while the value of a rule that keeps a residual is computed for no gradient."""
    ledger = Ledger()
    xp = PhantomNamespace(ledger)
    values = [xp.given(each.shape, each.dtype) for each in operands]
    rule.call(xp, **keywords)(*values, needs=[False] * len(values))
    return ledger.peak


def _fit(xp: PhantomNamespace, sent: Iterable[tuple[Phantom | None, Aval]]) -> None:
    """What the pullback does with cotangents in another precision than their operands have."""
    fitted = [xp.astype(g, kind.dtype) for g, kind in sent if g is not None]
    del fitted
