"""The namespaces of catalog ops that rules are written against: plain arrays here, duals in `dual`.

``F.multiply(a, b)`` is the op ``multiply``, ``F.linalg_cholesky(a)`` the op ``linalg.cholesky``;
attributes are given as the rule's `prepare` would hand them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backhaul_server.engine.rules import RULES, Rule


class Functions:
    """Every rule's forward on one array namespace, as a function of its operands alone."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = RULES.get(name) or RULES.get(name.replace("_", ".", 1))
        if found is None:
            raise AttributeError(f"no rule named {name!r}")
        function = self._function(found)
        setattr(self, name, function)  # found here once, as an ordinary attribute from then on
        return function

    def _function(self, found: Rule) -> Callable[..., Any]:
        forward = found.bind(self.xp)
        if not found.keeps:
            return forward
        return lambda *operands, **keywords: forward(*operands, needs=(), **keywords)[0]
