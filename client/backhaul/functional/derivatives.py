"""What the functions that `grad` and the others return have in common."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backhaul.connection import Connection
from backhaul.functional.applying import Applied, applied
from backhaul.functional.arguments import Argnums, Arguments, checked_argnums, taken_apart
from backhaul.functional.compiling import Jitted
from backhaul.functional.evaluating import check_function
from backhaul.functional.goals import Function, Goal
from backhaul.functional.kept_programs import Programs
from backhaul.functional.tapes import Placed, Watched, Work, call

Array = np.ndarray[Any, Any]


def opened(f: Any, name: str) -> tuple[Function, Programs | None]:
    """A function, and what is kept of it.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no function.
    """
    if isinstance(f, Jitted):
        return f.function, f.programs
    check_function(f, name)
    return f, None


class Derivative(ABC):
    """A derivative of a function, as a function of the same arguments.

    Attributes:
        function: what is differentiated.
        argnums: with respect to which arguments.
        has_aux: whether the function gives a pair, whose second is not differentiated.
        name: of the public function that made it.
    """

    goal: type[Goal]

    def __init__(self, f: Any, argnums: Argnums, has_aux: bool, name: str) -> None:
        self.function, self._programs = opened(f, name)
        self.argnums = checked_argnums(argnums)
        self.name = name
        self.has_aux = bool(has_aux)
        self._goal = self.goal(self.function, self.has_aux, name)

    def __repr__(self) -> str:
        return f"{self.name}({self.function!r})"

    @abstractmethod
    def work(
        self, tape: Watched[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work[Any]:
        """One call, on a tape."""

    def _applied(
        self,
        tape: Watched[Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        passing: frozenset[int] = frozenset(),
    ) -> tuple[Arguments, Applied]:
        arguments = taken_apart(self.argnums, args, kwargs, self.name, passing)
        return arguments, applied(tape, self._goal, self._programs, arguments)

    def _by_argument(self, arguments: Arguments, leaves: Sequence[Any]) -> Any:
        """Something for each leaf, built as the arguments are: for one of them, or a tuple for several."""
        trees = arguments.tree.unflatten(leaves)
        return trees[0] if isinstance(self.argnums, int) else trees


class Transformed(Placed):
    """A derivative that is called like the function, and waits for the server.

    Attributes:
        derivative: what it computes.
    """

    def __init__(self, derivative: Derivative, connection: Connection | None) -> None:
        self.derivative = derivative
        self._connection = connection
        functools.update_wrapper(self, derivative.function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The derivative at these arguments, in one round trip."""
        work = self.derivative.work
        return call(self._connection, lambda tape: work(tape, args, kwargs))

    def __repr__(self) -> str:
        return repr(self.derivative)
