"""`jit`: functions whose steps are kept as programs."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from backhaul.connection import Connection
from backhaul.functional.arguments import Argnums, checked_argnums
from backhaul.functional.evaluating import Evaluation, check_function, holds_tensor
from backhaul.functional.goals import Function
from backhaul.functional.kept_programs import Programs
from backhaul.functional.tapes import Placed, call
from backhaul_proto.errors import make_error


class Jitted(Placed):
    """A function whose steps are kept; see `jit`.

    Called with arrays it computes on the server and gives arrays. Called with tensors, within a function that
    is being recorded, it is the function itself.

    Attributes:
        function: the function.
        programs: what is kept of it.
    """

    def __init__(self, function: Function, programs: Programs, connection: Any) -> None:
        self.function = function
        self.programs = programs
        self._connection = connection
        functools.update_wrapper(self, function, updated=())

    @property
    def traces(self) -> int:
        """How often the function was called to record it.

        Example:
            >>> import numpy as np, backhaul as bh
            >>> f = bh.jit(lambda x: bh.sum(x * x))
            >>> df = bh.grad(f)
            >>> [float(df(np.full((), x))) for x in (1.0, 2.0, 3.0)], f.traces
            ([2.0, 4.0, 6.0], 1)
        """
        return self.programs.traces

    def clear(self) -> None:
        """Forget the programs, as after a change of something that the function reads."""
        self.programs.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result: arrays for tensors; or within a recording the tensors."""
        if holds_tensor(args, kwargs):
            return self.function(*args, **kwargs)
        evaluation = Evaluation(self.function, self.programs)
        return call(self._connection, lambda tape: evaluation.work(tape, args, kwargs))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)  # as a method

    def __repr__(self) -> str:
        return f"jit({self.function!r})"


def jit(
    f: Function,
    *,
    static_argnums: Argnums = (),
    static_argnames: str | Iterable[str] = (),
    connection: Connection | None = None,
) -> Jitted:
    """A function that is recorded once for arguments of given shapes, and then run as it was recorded.

    Without it a function is called each time that it is differentiated, as Python is: with its branches,
    and with what it reads from outside as that is then. With it, later calls do not run its Python code: they
    send the arrays and the program's hash, in one small message. As with jax.jit, what the function read from
    outside when it was recorded (closures, globals, random numbers) is a constant of the program; `clear`
    forgets that.

    It is recorded again for other shapes, dtypes or containers of its array arguments, and other values of
    its numbers and strings, unless they are differentiated: each is a program of its own. (Give a number
    that changes often as an array, ``np.asarray(0.1)``.) A function that looked at a value, as
    ``if x > 0`` does, is called each time as without `jit`, so its branches are right.

    Args:
        f: takes tensors and returns tensors, alone or in containers.
        static_argnums: positions of arguments that are no arrays, numbers or strings, and decide what is
            recorded. They must be hashable and must not change.
        static_argnames: names of such arguments.
        connection: where it is computed, and its derivatives where these name none; left out: the default
            one.

    Returns:
        A function for `grad` and the others, and to be called.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no function, or no position or name.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> @bh.jit
        ... def norm(x):
        ...     return bh.sqrt(bh.sum(x * x))
        >>> norm(np.array([3.0, 4.0])), bh.grad(norm)(np.array([3.0, 4.0]))
        (array(5.), array([0.6, 0.8]))
    """
    function, programs = compiled(f, static_argnums, static_argnames)
    return Jitted(function, programs, connection)


def compiled(f: Any, static_argnums: Any, static_argnames: Any) -> tuple[Function, Programs]:
    """A function, and where what is kept of it will be.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    if isinstance(f, Jitted):
        f = f.function
    check_function(f, "jit")
    positions = checked_argnums(static_argnums, "static_argnums")
    names = [static_argnames] if isinstance(static_argnames, str) else list(static_argnames)
    if not all(isinstance(each, str) for each in names):
        raise make_error("INVALID_VALUE", f"static_argnames={names!r:.100}: they are names.")
    found = (positions,) if isinstance(positions, int) else positions
    return f, Programs(found, frozenset(names))
