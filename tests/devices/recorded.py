"""How rules call their array namespace, taken down while every op runs on array-api-strict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, NamedTuple

import array_api_strict
import numpy as np
from tests.server.engine.points import Point
from tests.server.engine.strict import ON_HOST
from tests.server.engine.test_strict_namespace import CASES, answers

from backhaul_server.engine.array_api import ArrayApiNamespace
from backhaul_server.engine.engine import Engine


class Taken(NamedTuple):
    """One way in which a function is called.

    Attributes:
        args: of each positional argument the dtype of an array, else the type's name.
        keywords: names of the others.
        result: dtype of the result; None where it is no array.
    """

    args: tuple[str, ...]
    keywords: frozenset[str]
    result: str | None


class _Linalg:
    def __init__(self, wrap: Callable[[str, Any], Any]) -> None:
        self._wrap = wrap

    def __getattr__(self, name: str) -> Any:
        return self._wrap(f"linalg.{name}", getattr(array_api_strict.linalg, name))


class RecordedNamespace(ArrayApiNamespace):
    """array-api-strict that takes down its calls.

    Attributes:
        calls: by function, how it was called.
        counts: how often.
    """

    def __init__(self) -> None:
        self.calls: dict[str, set[Taken]] = {}
        self.counts: Counter[str] = Counter()
        super().__init__(array_api_strict, ON_HOST, array_api_strict.Device("device1"))

    def __getattr__(self, name: str) -> Any:
        found = _Linalg(self._wrapped) if name == "linalg" else super().__getattr__(name)
        if name != "linalg" and callable(found) and not isinstance(found, type):
            found = self._wrapped(name, found)
        setattr(self, name, found)
        return found

    def add_at(self, target: Any, key: Any, updates: Any) -> Any:
        return self._wrapped("add_at", super().add_at)(target, key, updates)

    def astype(self, x: Any, dtype: Any) -> Any:
        return self._wrapped("astype", super().astype)(x, dtype)

    def _wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **keywords: Any) -> Any:
            result = function(*args, **keywords)
            self.counts[name] += 1
            taken = Taken(tuple(map(self._kind, args)), frozenset(keywords), self._dtype(result))
            self.calls.setdefault(name, set()).add(taken)
            return result

        return run

    def _kind(self, x: Any) -> str:
        return self._dtype(x) or type(x).__name__

    def _dtype(self, x: Any) -> str | None:
        dtype = getattr(x, "dtype", None)
        known = self._numpy.get(dtype) if isinstance(dtype, Hashable) else None
        return None if known is None or not hasattr(x, "shape") else np.dtype(known).name


@cache
def calls() -> dict[str, set[Taken]]:
    """What all samples of all ops make of the namespace, derivatives included."""
    xp = RecordedNamespace()
    engine = Engine(xp)
    for case in CASES:
        answers(engine, Point(engine, *case.values))
    return xp.calls
