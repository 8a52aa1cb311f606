"""What a call will take in memory: its rule, run on arrays without data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.dual import DualFunctions, dual, fit_tangent
from backhaul_server.engine.functions import Functions
from backhaul_server.engine.memory import Need
from backhaul_server.engine.phantom import Ledger, Phantom, PhantomNamespace
from backhaul_server.engine.rules import Rule


def predict(rule: Rule, operands: Sequence[Aval], keywords: Mapping[str, Any]) -> Need:
    """The memory that a rule with one result takes when every operand that can have a gradient has one.

    Operands are taken to lie in C order, as most do.
    """
    ledger = Ledger()
    plain = Functions(PhantomNamespace(ledger))
    duals = DualFunctions(plain)
    xp: PhantomNamespace = plain.xp
    values = [xp.given(each.shape, each.dtype) for each in operands]
    needs = [each.inexact for each in operands]
    forward, kept = rule.bind(xp), {}
    if rule.keeps:
        y, kept["residual"] = forward(*values, needs=needs, **keywords)
    else:
        y = forward(*values, **keywords)
    value, after = ledger.peak, ledger.live
    result = y.buffer.nbytes if y.buffer else 0
    if True not in needs:
        return Need(value=value, kept=after - result, gradient=0, hvp=0)

    before = ledger.restart()
    ct = xp.given(y.shape, y.dtype)
    sent = rule.cotangents(plain, ct, y, values, needs, **keywords, **kept)
    _brought(xp, sent, operands)
    gradient = ledger.peak - before
    del sent

    before = ledger.restart()
    tangents = [xp.given(each.shape, each.dtype) if each.inexact else None for each in operands]
    assert rule.jvp is not None
    dy = rule.jvp(plain, y, *values, *tangents, **keywords, **kept)
    if rule.keeps:
        dy, kept["residual"] = dy
    moving = dual(y, fit_tangent(plain, dy, y))
    del dy
    both = list(map(dual, values, tangents))
    ct = dual(ct, xp.given(y.shape, y.dtype))
    sent = rule.cotangents(duals, ct, moving, both, needs, **keywords, **kept)
    _brought(xp, [part for g in sent for part in _parts(g)], [k for k in operands for _ in "ab"])
    return Need(value, after - result, gradient, ledger.peak - before)


def _parts(g: Any) -> tuple[Any, Any]:
    return (None, None) if g is None else (g.value, g.tangent)


def _brought(xp: PhantomNamespace, sent: Iterable[Phantom | None], kinds: Sequence[Aval]) -> None:
    """The casts that the pullback makes: cotangents in their operands' dtypes."""
    fitted = [
        xp.astype(g, kind.dtype)
        for g, kind in zip(sent, kinds, strict=True)
        if g is not None and g.dtype != kind.dtype
    ]
    del fitted
