"""`grad` and `value_and_grad`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from backhaul.connection import Connection
from backhaul.functional.applying import Applied
from backhaul.functional.arguments import Argnums
from backhaul.functional.derivatives import Derivative, Transformed
from backhaul.functional.evaluating import Calls, Fetched, nodes_of
from backhaul.functional.goals import Function, Loss
from backhaul.functional.sets import failed_sets, nan_like
from backhaul.functional.tapes import Asking, Watched, Work, connection_of
from backhaul.shaping import concat
from backhaul_proto.errors import AutodiffError
from backhaul_proto.messages import Answer, PullbackQuestion

Array = np.ndarray[Any, Any]


class Gradient(Derivative):
    """The gradient of a loss.

    Attributes:
        with_value: whether the loss's value is part of the result.
    """

    goal = Loss

    def __init__(
        self, f: Any, argnums: Argnums, has_aux: bool, name: str, *, with_value: bool
    ) -> None:
        super().__init__(f, argnums, has_aux, name)
        self.with_value = with_value

    def work(
        self, tape: Watched[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work[Any]:
        """One call: the pullback of the loss."""
        arguments, found = self._applied(tape, args, kwargs)
        leaves, results = found
        assert results.main is not None
        aux = nodes_of(results.aux)
        wrt = [each._id for each in leaves]
        question = PullbackQuestion(results.main._id, (), wrt)
        answer = yield Asking(aux, question, found.spent())
        assert answer.loss_value is not None
        gradients = self._by_argument(arguments, answer.sets[0].gradients)
        beside = Fetched(aux, answer.values).aux(results) if self.has_aux else None
        return self._result(answer.loss_value, gradients, beside)

    def _result(self, value: Array, gradients: Any, aux: Any) -> Any:
        if not self.with_value:
            return (gradients, aux) if self.has_aux else gradients
        return ((value, aux), gradients) if self.has_aux else (value, gradients)

    def batch(self, tape: Watched[Any], calls: Calls, *, nan: bool = False) -> Work[list[Any]]:
        """Several calls in one round trip: the pullback of all losses, side by side in one vector."""
        found = [self._applied(tape, *each) for each in calls]
        sound: Sequence[int] = range(len(found))
        answer: Answer | None
        try:
            answer = yield _side_by_side([each for _, each in found], is_last=not nan)
        except AutodiffError as error:
            failed = failed_sets(tape, [(each.results.main,) for _, each in found], error, nan=nan)
            sound = [i for i in sound if i not in failed]
            answer = None
        if answer is None and sound:
            answer = yield _side_by_side([found[i][1] for i in sound], is_last=True)
        losses: Iterator[Any] = iter(())
        gradients: Iterator[Array] = iter(())
        fetched = Fetched((), ())
        if answer is not None:
            assert answer.loss_value is not None
            losses, gradients = iter(answer.loss_value), iter(answer.sets[0].gradients)
            fetched = Fetched(_aux_nodes([found[i][1] for i in sound]), answer.values)
        made = []
        for i, (arguments, each) in enumerate(found):
            main = each.results.main
            assert main is not None
            if i in sound:
                value = np.array(next(losses), main.dtype).reshape(main.shape)
                by_leaf = [next(gradients) for _ in each.leaves]
            else:
                value, by_leaf = nan_like(main), [nan_like(x) for x in each.leaves]
            aux = fetched.aux(each.results) if self.has_aux else None
            made.append(self._result(value, self._by_argument(arguments, by_leaf), aux))
        return made


def _aux_nodes(found: Iterable[Applied]) -> tuple[int, ...]:
    return nodes_of(x for each in found for x in each.results.aux)


def _side_by_side(found: Sequence[Applied], *, is_last: bool) -> Asking:
    """The question for the gradients of several losses, each by its own leaves."""
    losses = concat([each.results.main for each in found], axis=None)
    wrt = [x._id for each in found for x in each.leaves]
    ones = np.ones(losses.shape, losses.dtype)
    spent = [losses._id, *(x for each in found for x in each.spent())] if is_last else ()
    question = PullbackQuestion(losses._id, (ones,), wrt)
    return Asking(_aux_nodes(found), question, spent, losses)


def grad(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives the gradient of a function, in one round trip a call.

    Args:
        f: takes tensors for the arguments that are differentiated, and anything for the others, and returns a
            real tensor of one element. It is written with backhaul's functions, operators or NumPy's.
        argnums: the position of the argument that is differentiated, or positions. Its arrays and numbers
            may stand in dicts, lists, tuples, namedtuples and dataclasses. All other arguments reach ``f``
            as they are.
        has_aux: whether ``f`` returns a pair of the loss and other data, which are fetched in the same
            round trip: the result is (gradient, data).
        connection: where it is computed; left out: the default one.

    Returns:
        A function of the arguments of ``f``. It returns what is built like the argument, with an array for
        each array; a tuple of these for several ``argnums``. For complex arguments that is dL/dRe + i dL/dIm,
        the direction of steepest ascent (jax.grad gives its conjugate).

    Raises:
        InvalidArgument: INVALID_VALUE for what is no function or position. The function that is returned
            raises also: NonScalarLoss; MissingNode (the loss does not depend on the arguments);
            InvalidArgument for a complex loss (COMPLEX_LOSS), integer arguments (DTYPE_NOT_SUPPORTED),
            tensors as arguments (NESTED_TRANSFORM).

    Example:
        >>> import numpy as np, backhaul as bh
        >>> def loss(params, x):
        ...     return bh.sum(np.tanh(x @ params["w"] + params["b"]) ** 2)
        >>> found = bh.grad(loss)({"w": np.zeros(2), "b": 0.5}, np.eye(2))
        >>> found["w"].round(4), round(float(found["b"]), 4)
        (array([0.7269, 0.7269]), 1.4537)
    """
    return Transformed(
        Gradient(f, argnums, has_aux, "grad", with_value=False), connection_of(f, connection)
    )


def value_and_grad(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives a function's value and its gradient, in one round trip a call.

    Args:
        f: as for `grad`.
        argnums: as for `grad`.
        has_aux: as for `grad`.
        connection: as for `grad`.

    Returns:
        A function of the arguments of ``f``. It returns (value, gradient); with ``has_aux``
        ((value, data), gradient).

    Raises:
        InvalidArgument: as `grad`.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> bh.value_and_grad(lambda x: bh.sum(x * x))(np.array([1.0, 2.0]))
        (array(5.), array([2., 4.]))
    """
    derivative = Gradient(f, argnums, has_aux, "value_and_grad", with_value=True)
    return Transformed(derivative, connection_of(f, connection))
