"""`jvp`, `hvp` and `gauss_newton_product`: derivatives along directions, each in one round trip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from backhaul.connection import Connection
from backhaul.functional.applying import Applied, applied
from backhaul.functional.arguments import Arguments, taken_apart
from backhaul.functional.curvature_sets import Recorded, curvatures
from backhaul.functional.derivatives import opened
from backhaul.functional.evaluating import Calls, Fetched, nodes_of
from backhaul.functional.goals import Composed, Function, Goal, Loss, Outputs, Results, split
from backhaul.functional.kept_programs import Programs
from backhaul.functional.tapes import Asking, Watched, Work, call, connection_of
from backhaul.questions import leaf_tangent
from backhaul_proto.errors import InvalidArgument, TangentShapeMismatch, make_error
from backhaul_proto.messages import Direction, HvpQuestion, PushforwardQuestion

Array = np.ndarray[Any, Any]
Tangents = tuple[Any, ...] | list[tuple[Any, ...]]
"""A direction, with a tangent for each argument; or a list of directions."""


class HessianProduct(NamedTuple):
    """What `hvp` and `gauss_newton_product` give.

    Attributes:
        value: of the loss.
        gradient: a tuple with that for each argument.
        product: the matrix times the direction, a tuple in the same way; for a list of directions a list of
            tuples.
    """

    value: Any
    gradient: Any
    product: Any


class Product:
    """A derivative along directions.

    Args:
        goal: the function, and what it has to give.
        programs: what is kept of it.
        primals: the arguments.
        tangents: the directions.
    """

    def __init__(self, goal: Goal, programs: Programs | None, primals: Any, tangents: Any) -> None:
        self._goal = goal
        self._programs = programs
        self._primals = checked_primals(goal.name, primals)
        self._many = isinstance(tangents, list)
        given: Any = tangents if self._many else [tangents]
        if not given:
            raise make_error(
                "HVP_WITHOUT_TANGENT", f"{goal.name}: the list of directions is empty."
            )
        for each in given:
            if not isinstance(each, tuple):
                raise make_error(
                    "INVALID_VALUE",
                    f"{goal.name}: tangents is a tuple with a tangent for each argument, (v,) for one, or a "
                    f"list of such tuples; it was given {each!r:.100}.",
                )
        self._tangents: Sequence[tuple[Any, ...]] = given

    def _applied(self, tape: Watched[Any]) -> tuple[Arguments, Applied, list[Direction]]:
        positions = tuple(range(len(self._primals)))
        arguments = taken_apart(positions, self._primals, {}, self._goal.name)
        along = [arguments.like(each, "tangents") for each in self._tangents]
        found = applied(tape, self._goal, self._programs, arguments)
        directions: list[Direction] = []
        for given in along:
            direction = []
            for leaf, path, tangent in zip(found.leaves, arguments.paths, given, strict=True):
                try:
                    fitting = leaf_tangent(tape, tangent, leaf._node_type.aval)
                except (TangentShapeMismatch, InvalidArgument) as error:
                    raise make_error(
                        error.reason,
                        f"{self._goal.name}: for {path}: {error.message}",
                        **error.details,
                    ) from None
                direction.append((leaf._id, fitting))
            directions.append(direction)
        return arguments, found, directions


class ForwardProduct(Product):
    """J·v, of all results."""

    def work(self, tape: Watched[Any]) -> Work[Any]:
        """The call, on a tape."""
        _, found, directions = self._applied(tape)
        results = found.results
        assert results.main is not None
        aux = nodes_of(results.aux)
        question = PushforwardQuestion(results.main._id, directions)
        answer = yield Asking(aux, question, found.spent())
        assert answer.loss_value is not None
        value = apart(results, answer.loss_value)
        tangents = [apart(results, each) for each in answer.tangents]
        along = tangents if self._many else tangents[0]
        if not self._goal.has_aux:
            return value, along
        return value, along, Fetched(aux, answer.values).aux(results)


class CurvatureProduct(Product):
    """H·v of a loss, or its Gauss-Newton form."""

    def work(self, tape: Watched[Any]) -> Work[Any]:
        """The call, on a tape."""
        arguments, recorded, directions = self._applied(tape)
        leaves, results = recorded
        assert results.main is not None
        aux = nodes_of(results.aux)
        wrt = [each._id for each in leaves]
        linear = [each._id for each in results.through]
        question = HvpQuestion(results.main._id, directions, wrt, linear=linear)
        answer = yield Asking(aux, question, recorded.spent())
        beside = Fetched(aux, answer.values).aux(results) if self._goal.has_aux else None
        hvps = [each.hvps for each in answer.sets]
        return self.result(arguments, answer.loss_value, answer.sets[0].gradients, hvps, beside)

    def result(
        self,
        arguments: Arguments,
        value: Any,
        gradients: Sequence[Array],
        hvps: Sequence[Sequence[Array]],
        aux: Any,
    ) -> Any:
        """What came, built like the arguments.

        Args:
            arguments: the primals.
            value: of the loss.
            gradients: by leaf.
            hvps: along each direction, by leaf.
            aux: the auxiliary data.
        """
        unflatten = arguments.tree.unflatten
        products = [unflatten(each) for each in hvps]
        along = products if self._many else products[0]
        found = HessianProduct(value, unflatten(gradients), along)
        return (found, aux) if self._goal.has_aux else found


class CurvatureBatch:
    """H·v of a loss, or its Gauss-Newton form, for many sets of primals and tangents.

    Args:
        goal: the function, and what it has to give.
        programs: what is kept of it.
    """

    def __init__(self, goal: Goal, programs: Programs | None) -> None:
        self._goal = goal
        self._programs = programs

    @property
    def has_aux(self) -> bool:
        """Whether there are auxiliary data."""
        return self._goal.has_aux

    def batch(self, tape: Watched[Any], calls: Calls, *, nan: bool = False) -> Work[list[Any]]:
        """Several calls in one round trip."""
        products = [self._product(*each.args, **each.kwargs) for each in calls]
        applied = [each._applied(tape) for each in products]
        sets = [Recorded(each, directions) for _, each, directions in applied]
        found = yield from curvatures(tape, sets, has_aux=self.has_aux, nan=nan)
        return [
            product.result(arguments, each.value, each.gradients, each.products, each.aux)
            for product, (arguments, *_), each in zip(products, applied, found, strict=True)
        ]

    def _product(self, *args: Any, **kwargs: Any) -> CurvatureProduct:
        """What is asked for one set.

        Raises:
            InvalidArgument: INVALID_VALUE, other arguments than primals and tangents.
        """
        given = dict(zip(("primals", "tangents"), args, strict=False)) | kwargs
        if len(args) + len(kwargs) != 2 or given.keys() != {"primals", "tangents"}:
            raise make_error(
                "INVALID_VALUE",
                f"batched: {self._goal.name} takes primals and tangents for each set, two arguments.",
            )
        return CurvatureProduct(self._goal, self._programs, given["primals"], given["tangents"])


def checked_primals(name: str, primals: Any) -> tuple[Any, ...]:
    """The arguments, as a tuple.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    if not isinstance(primals, tuple | list) or not primals:
        raise make_error(
            "INVALID_VALUE",
            f"{name}: primals is a tuple of the function's arguments, (x,) for one; it was given "
            f"{primals!r:.100}.",
        )
    return tuple(primals)


def apart(results: Results, joined: Array) -> Any:
    """What the function gives, of an array in the place of what is differentiated."""
    if len(results.outputs) == 1:
        return results.tree.unflatten([joined])
    avals = [each._node_type.aval for each in results.outputs]
    return results.tree.unflatten(split(joined, avals))


def jvp(
    f: Function,
    primals: tuple[Any, ...],
    tangents: Tangents,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Any:
    """A function's value and its derivative along a direction, J·v, in one round trip.

    Args:
        f: takes tensors and returns tensors of any shape, alone or in containers.
        primals: its arguments, in a tuple. All are differentiated; arrays may stand in containers.
        tangents: the direction: a tuple of what is built like the arguments. A list of such tuples is
            answered by a list.
        has_aux: whether ``f`` returns a pair of the results and other data.
        connection: where it is computed; left out: the default one.

    Returns:
        (value, tangent), both built like the result of ``f``; with ``has_aux`` (value, tangent, data).

    Raises:
        InvalidArgument: INVALID_VALUE, TREE_MISMATCH, TANGENT_DTYPE_MISMATCH, DTYPE_NOT_SUPPORTED.
        TangentShapeMismatch: a tangent has another shape than its argument.
        MissingNode: a result does not depend on the arguments.
        HvpNotSupported: an op has no forward-mode rule.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> bh.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 0.5]),))
        (array([1., 4.]), array([2., 2.]))
    """
    function, programs = opened(f, "jvp")
    product = ForwardProduct(Outputs(function, bool(has_aux), "jvp"), programs, primals, tangents)
    return call(connection_of(f, connection), product.work)


def hvp(
    f: Function,
    primals: tuple[Any, ...],
    tangents: Tangents,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Any:
    """A loss, its gradient, and its Hessian times a direction, H·v, in one round trip.

    Args:
        f: takes tensors and returns a real tensor of one element.
        primals: as for `jvp`.
        tangents: as for `jvp`. A list of directions shares the work that does not depend on them.
        has_aux: whether ``f`` returns a pair of the loss and other data.
        connection: where it is computed; left out: the default one.

    Returns:
        A `HessianProduct`; with ``has_aux`` (product, data).

    Raises:
        InvalidArgument, TangentShapeMismatch, MissingNode: as `jvp`, and COMPLEX_LOSS.
        NonScalarLoss: the result has more or less than one element.
        HvpNotSupported: an op has no second-order rule.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> found = bh.hvp(lambda x: bh.sum(x**3), (np.array([1.0, 2.0]),), (np.ones(2),))
        >>> float(found.value), found.gradient, found.product
        (9.0, (array([ 3., 12.]),), (array([ 6., 12.]),))
    """
    function, programs = opened(f, "hvp")
    product = CurvatureProduct(Loss(function, bool(has_aux), "hvp"), programs, primals, tangents)
    return call(connection_of(f, connection), product.work)


def gauss_newton_product(
    f: Function,
    loss: Function,
    primals: tuple[Any, ...],
    tangents: Tangents,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Any:
    """A loss of outputs, its gradient, and its Gauss-Newton matrix times a direction, in one round trip.

    That is Jᵀ·(H·(J·v)), with J the Jacobian of the outputs and H the Hessian of the loss as a function of
    them: the Hessian without the second derivatives of the outputs. Where the loss is convex it has no
    negative eigenvalue. (Schraudolph, Fast curvature matrix-vector products, 2002.)

    Args:
        f: takes tensors and returns the outputs: tensors of any shape, alone or in containers.
        loss: takes what ``f`` returns, and returns a real tensor of one element. It may read other data.
        primals: arguments of ``f``, as for `jvp`.
        tangents: as for `jvp`.
        has_aux: whether ``f`` returns a pair of the outputs and other data.
        connection: where it is computed; left out: the default one.

    Returns:
        A `HessianProduct`; with ``has_aux`` (product, data).

    Raises:
        InvalidArgument, TangentShapeMismatch, MissingNode, NonScalarLoss, HvpNotSupported: as `hvp`.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> A, y = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, 0.0])
        >>> found = bh.gauss_newton_product(
        ...     lambda w: np.exp(A @ w), lambda out: bh.sum((out - y) ** 2), (np.zeros(2),), (np.ones(2),)
        ... )
        >>> found.product
        (array([ 6., 14.]),)
    """
    goal, programs = composed(f, loss, has_aux)
    return call(
        connection_of(f, connection), CurvatureProduct(goal, programs, primals, tangents).work
    )


def curved(f: Function, *, has_aux: bool = False) -> CurvatureBatch:
    """`hvp` of a function, for many sets."""
    function, programs = opened(f, "hvp")
    return CurvatureBatch(Loss(function, bool(has_aux), "hvp"), programs)


def gauss_newton_curved(f: Function, loss: Function, *, has_aux: bool = False) -> CurvatureBatch:
    """`gauss_newton_product` of a function and a loss, for many sets."""
    return CurvatureBatch(*composed(f, loss, has_aux))


BATCHED: dict[Callable[..., Any], Callable[..., CurvatureBatch]] = {
    hvp: curved,
    gauss_newton_product: gauss_newton_curved,
}
"""What `batched` makes of a product whose functions are given (``functools.partial``)."""


def composed(f: Function, loss: Function, has_aux: bool) -> tuple[Composed, Programs | None]:
    """The goal of a Gauss-Newton product. A program is kept only where both functions are jitted."""
    name = "gauss_newton_product"
    outputs, programs = opened(f, name)
    of_outputs, kept = opened(loss, name)
    if kept is None:
        return Composed(outputs, bool(has_aux), name, of_outputs), None
    return Composed(outputs, bool(has_aux), name, of_outputs, kept.version), programs
