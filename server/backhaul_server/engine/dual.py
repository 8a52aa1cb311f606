"""Duals (value, tangent), and the namespace of catalog ops on them: how the pullback is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backhaul_proto.errors import make_error
from backhaul_server.engine.functions import Functions
from backhaul_server.engine.rules import RULES, Array, Rule


class Dual:
    """An array and its tangent. An array whose tangent is zero stays a plain array: see `dual`."""

    __slots__ = ("tangent", "value")

    def __init__(self, value: Array, tangent: Array) -> None:
        self.value = value
        self.tangent = tangent

    def __iadd__(self, other: Array | Dual) -> Dual:
        """Add in place, for whoever owns both parts."""
        if type(other) is Dual:
            self.value += other.value
            self.tangent += other.tangent
        else:
            self.value += other
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of both parts."""
        shape: tuple[int, ...] = self.value.shape
        return shape

    @property
    def dtype(self) -> Any:
        """The dtype of both parts."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of both parts."""
        return len(self.shape)


def dual(value: Array, tangent: Array | None) -> Array | Dual:
    """The dual of value and tangent; the plain value when the tangent is None (zero)."""
    return value if tangent is None else Dual(value, tangent)


def value_of(x: Array | Dual) -> Array:
    """The primal part."""
    return x.value if type(x) is Dual else x


def tangent_of(x: Array | Dual) -> Array | None:
    """The tangent part; None is zero."""
    return x.tangent if type(x) is Dual else None


class DualFunctions(Functions):
    """Every rule lifted to duals by its own jvp. Operands without tangents cost what plain ones do."""

    def __init__(self, plain: Functions) -> None:
        super().__init__(plain.xp)
        self.plain = plain

    def _function(self, found: Rule) -> Callable[..., Any]:
        if found.lift is not None:
            return found.lift(self.plain)
        name = next(key for key, each in RULES.items() if each is found)
        return _lifted(name, found, self.plain)


def _lifted(name: str, found: Rule, F: Functions) -> Callable[..., Any]:
    """The op on duals: the rule's forward on values, its jvp on tangents where there are any."""
    forward, jvp, keeps = found.bind(F.xp), found.jvp, found.keeps

    def run(*operands: Any, **keywords: Any) -> Any:
        values, tangents, moves = [], [], False
        for x in operands:
            if type(x) is Dual:
                values.append(x.value)
                tangents.append(x.tangent)
                moves = True
            else:
                values.append(x)
                tangents.append(None)
        if keeps:
            y, residual = forward(*values, needs=[t is not None for t in tangents], **keywords)
        else:
            y = forward(*values, **keywords)
        if not moves:
            return y
        if jvp is None:
            raise hvp_not_supported(name)
        if keeps:
            dy, _ = jvp(F, y, *values, *tangents, residual=residual, **keywords)
        else:
            dy = jvp(F, y, *values, *tangents, **keywords)
        if type(y) is tuple:
            return tuple(map(dual, y, dy))
        return y if dy is None else Dual(y, fit_tangent(F, dy, y))

    return run


def fit_tangent(F: Functions, dy: Array, y: Array) -> Array:
    """A tangent brought to its array: repeated along broadcast axes, in its dtype."""
    if dy.shape != y.shape:
        dy = F.broadcast_to(dy, shape=y.shape)
    if dy.dtype is not y.dtype and dy.dtype != y.dtype:
        dy = F.astype(dy, dtype=y.dtype)
    return dy


def hvp_not_supported(name: str, **where: object) -> Exception:
    """The error for an op without a jvp."""
    return make_error(
        "HVP_NOT_SUPPORTED",
        f"The op {name} has no forward-mode rule (jvp), so neither H·v nor J·v through it can be "
        "computed; pullback works. Write this part with other ops, or ask for gradients only.",
        op=name,
        **where,
    )
