"""`vjp`: a function's value, and what pulls cotangents back through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from backhaul.connection import Connection
from backhaul.functional.applying import Applied, applied
from backhaul.functional.arguments import Arguments, taken_apart
from backhaul.functional.derivatives import opened
from backhaul.functional.evaluating import Fetched, nodes_of
from backhaul.functional.goals import Function, Outputs
from backhaul.functional.products import checked_primals
from backhaul.functional.pytrees import flatten_like
from backhaul.functional.tapes import (
    Asking,
    Watched,
    WatchedTape,
    Work,
    answer,
    checked_connection,
    connection_of,
    give_back,
    lend,
)
from backhaul.questions import fitting_cotangent
from backhaul.steps import run
from backhaul_proto.errors import InvalidArgument, SessionError, make_error
from backhaul_proto.messages import PullbackQuestion

Array = np.ndarray[Any, Any]


class Pulled:
    """A function that was recorded, to be asked for gradients along cotangents.

    Args:
        f: the function.
        primals: its arguments.
        has_aux: whether it returns a pair.
    """

    def __init__(self, f: Any, primals: Any, has_aux: bool) -> None:
        function, self._programs = opened(f, "vjp")
        self._goal = Outputs(function, bool(has_aux), "vjp")
        self._primals = checked_primals("vjp", primals)

    def begin(self, tape: Watched[Any]) -> Work[tuple[Any, Any, Recorded]]:
        """Record it, and ask for its value: that, the auxiliary data, and what was recorded."""
        arguments = taken_apart(
            tuple(range(len(self._primals))), self._primals, {}, self._goal.name
        )
        found = applied(tape, self._goal, self._programs, arguments)
        results = found.results
        nodes = nodes_of([*results.outputs, *results.aux])
        fetched = Fetched(nodes, (yield Asking(nodes)).values)
        value, aux = fetched.outputs(results), fetched.aux(results)
        return value, aux, Recorded(tape, arguments, found)


class Recorded:
    """What `Pullback` asks.

    Args:
        tape: where it was recorded.
        arguments: of the function.
        found: the function.
    """

    def __init__(self, tape: Watched[Any], arguments: Arguments, found: Applied) -> None:
        self._tape = tape
        self._arguments = arguments
        self._found = found

    def work(self, cotangents: Sequence[Any]) -> Work[list[Any]]:
        """The gradients along each cotangent."""
        leaves, results = self._found
        main = results.main
        assert main is not None
        given = [self._joined(each) for each in cotangents]
        reply = yield Asking((), PullbackQuestion(main._id, given, [each._id for each in leaves]))
        return [self._arguments.tree.unflatten(each.gradients) for each in reply.sets]

    def _joined(self, cotangent: Any) -> Any:
        """A cotangent, of what is differentiated."""
        results = self._found.results
        main = results.main
        assert main is not None
        given = flatten_like(results.tree, cotangent, "the cotangent")
        fitting = []
        for tensor, path, each in zip(results.outputs, results.tree.paths(), given, strict=True):
            try:
                found = fitting_cotangent(self._tape, each, tensor._node_type.aval)
            except InvalidArgument as error:
                place = f"the cotangent{path}"
                raise make_error(
                    error.reason, f"vjp: {place}: {error.message}", **error.details
                ) from None
            fitting.append(found)
        if len(fitting) == 1:
            return fitting[0]
        return np.concatenate([np.reshape(each, -1) for each in fitting]).astype(main.dtype)


class Pullback:
    """The pullback of a function that `vjp` recorded. The server holds what it needs until this is dropped.

    Called with a cotangent it gives the gradients, in one round trip: as often as you like.
    """

    def __init__(self, tape: WatchedTape, recorded: Recorded) -> None:
        self._tape = tape
        self._recorded = recorded

    def __call__(self, cotangent: Any) -> Any:
        """The gradients of Re sum(conj(cotangent) * result): a tuple with that for each argument.

        Args:
            cotangent: built like the result of the function, of its shapes and dtypes; Python numbers and
                lists take these.

        Raises:
            InvalidArgument: TREE_MISMATCH, COTANGENT_MISMATCH.
            SessionError: the server was restarted, or ended the session.
        """
        return self.several([cotangent])[0]

    def several(self, cotangents: Sequence[Any]) -> list[Any]:
        """The gradients along several cotangents, in one round trip.

        Args:
            cotangents: each as in a call.

        Example:
            >>> import numpy as np, backhaul as bh
            >>> _, pull = bh.vjp(lambda x: x * x, np.array([1.0, 2.0]))
            >>> pull.several([np.array([1.0, 0.0]), np.array([0.0, 1.0])])
            [(array([2., 0.]),), (array([0., 4.]),)]
        """
        if not cotangents:
            return []
        return run(self._recorded.work(cotangents), lambda asked: answer(self._tape, asked))

    def __del__(self) -> None:
        try:
            give_back(self._tape)
        except AttributeError:
            return  # it was only half made


def vjp(
    f: Function,
    *primals: Any,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Any:
    """A function's value, and its pullback: what takes a cotangent to gradients, ctᵀ·J.

    One round trip for the value, and one for each call of the pullback, which computes nothing of the
    function again.

    Args:
        f: takes tensors and returns tensors of any shape, alone or in containers.
        primals: its arguments. All are differentiated; arrays may stand in containers.
        has_aux: whether ``f`` returns a pair of the results and other data.
        connection: where it is computed; left out: the default one.

    Returns:
        (value, `Pullback`); with ``has_aux`` (value, pullback, data).

    Raises:
        InvalidArgument: INVALID_VALUE, DTYPE_NOT_SUPPORTED.
        MissingNode: a result does not depend on the arguments.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> value, pull = bh.vjp(lambda x, y: x * y, np.array([1.0, 2.0]), 3.0)
        >>> value, pull(np.array([1.0, 10.0]))
        (array([3., 6.]), (array([ 3., 30.]), array(21.)))
    """
    pulled = Pulled(f, primals, has_aux)
    where = checked_connection(connection_of(f, connection))
    tape, is_new = lend(where, WatchedTape)
    try:
        value, aux, recorded = _begun(pulled, tape)
    except SessionError:
        if is_new:
            raise
        tape = WatchedTape(where)
        value, aux, recorded = _begun(pulled, tape)
    pull = Pullback(tape, recorded)
    return (value, pull, aux) if has_aux else (value, pull)


def _begun(pulled: Pulled, tape: WatchedTape) -> tuple[Any, Any, Recorded]:
    try:
        return run(pulled.begin(tape), lambda asked: answer(tape, asked))
    except BaseException:
        give_back(tape)
        raise
