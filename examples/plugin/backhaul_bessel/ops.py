"""The ops: for each an entry of the catalog and a rule. The server imports this."""

from __future__ import annotations

from typing import Any

import scipy.special

from backhaul_server.plugin import (
    Array,
    Attribute,
    Aval,
    Namespace,
    Op,
    Rule,
    Sample,
    broadcasting_floats,
    register,
    rule,
)


def _like(avals: tuple[Aval, ...], order: int) -> Aval:
    return broadcasting_floats(avals)


for _name, _doc in (
    ("bessel.jv", "The Bessel function of the first kind, of integer order."),
    ("bessel.kv", "The modified Bessel function of the second kind, of integer order."),
):
    register(
        Op(
            _name,
            ("x",),
            _like,
            _doc,
            attributes=(Attribute("order", "int", required=True, doc="The order."),),
            floating=True,
            kinds="biuf",
            samples=(
                Sample(((2, 3),), {"order": 1}, domain="positive"),
                Sample(((),), {"order": 0}, domain="positive"),
            ),
        )
    )


@rule("bessel.jv")
class Jv(Rule):
    """J_n' = (J_{n-1} - J_{n+1}) / 2.  DLMF 10.6.1."""

    def forward(self, xp: Any, x: Array, order: int) -> Array:
        return scipy.special.jv(order, x).astype(x.dtype)

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, order: int) -> Array:
        return F.multiply(dx, self._slope(F, x, order))

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, order: int) -> Any:
        return (lambda: F.multiply(ct, self._slope(F, x, order)),)

    def _slope(self, F: Namespace, x: Array, order: int) -> Array:
        difference = F.subtract(F.bessel_jv(x, order=order - 1), F.bessel_jv(x, order=order + 1))
        return F.multiply(difference, F.xp.asarray(0.5, dtype=x.dtype))


@rule("bessel.kv")
class Kv(Rule):
    """K_n' = -(K_{n-1} + K_{n+1}) / 2.  DLMF 10.29.1. Without a jvp there is no H·v through it."""

    def forward(self, xp: Any, x: Array, order: int) -> Array:
        return scipy.special.kv(order, x).astype(x.dtype)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, order: int) -> Any:
        def of_x() -> Array:
            total = F.add(F.bessel_kv(x, order=order - 1), F.bessel_kv(x, order=order + 1))
            return F.multiply(ct, F.multiply(total, F.xp.asarray(-0.5, dtype=x.dtype)))

        return (of_x,)
