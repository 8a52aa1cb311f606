"""`jacobian` and `hessian`: all derivatives, in one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from backhaul.connection import Connection
from backhaul.functional.arguments import Argnums, Arguments
from backhaul.functional.curvature_sets import Curvature, Recorded, curvatures
from backhaul.functional.derivatives import Derivative, Transformed
from backhaul.functional.evaluating import Calls, Fetched, nodes_of
from backhaul.functional.goals import Function, Loss, Outputs, Results, split
from backhaul.functional.tapes import Asking, Watched, Work, connection_of
from backhaul.tensor import TrackedTensor
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import (
    Direction,
    HvpQuestion,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
)

Array = np.ndarray[Any, Any]

MODES: Final = ("auto", "forward", "reverse")


class Jacobian(Derivative):
    """All derivatives of all outputs.

    Attributes:
        mode: how they are found.
        holomorphic: whether the function is a holomorphic one of complex arguments.
    """

    goal = Outputs

    def __init__(
        self, f: Any, argnums: Argnums, has_aux: bool, mode: str, holomorphic: bool
    ) -> None:
        super().__init__(f, argnums, has_aux, "jacobian")
        if mode not in MODES:
            raise make_error(
                "INVALID_VALUE", f"jacobian: mode={mode!r:.60} is none of {', '.join(MODES)}."
            )
        self.mode = mode
        self.holomorphic = bool(holomorphic)

    def work(
        self, tape: Watched[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work[Any]:
        """One call: pushforwards along all arguments, or pullbacks of all results."""
        arguments, found = self._applied(tape, args, kwargs)
        leaves, results = found
        main = results.main
        assert main is not None
        self._check(leaves, results)
        count = sum(each.size for each in leaves)
        forward = self.mode == "forward" or (self.mode == "auto" and count < main.size)
        question: Question | None
        if count == 0 or main.size == 0:
            question = None
        elif forward:
            question = PushforwardQuestion(main._id, unit_directions(leaves))
        else:
            basis = list(units(main))
            if main.dtype.kind == "c" and not self.holomorphic:
                basis += [each * 1j for each in basis]  # for the imaginary part
            question = PullbackQuestion(main._id, basis, [each._id for each in leaves])
        aux = nodes_of(results.aux)
        answer = (
            (yield Asking(aux, question, found.spent())) if aux or question is not None else None
        )
        joined = np.zeros((count, main.size), main.dtype)
        if answer is not None and isinstance(question, PushforwardQuestion):
            joined = np.stack([each.reshape(-1) for each in answer.tangents])
        elif answer is not None and question is not None:
            joined = self._columns([each.gradients for each in answer.sets], main)
        blocks = self._blocks(joined, leaves, results)
        jacobian = results.tree.unflatten([self._by_argument(arguments, row) for row in blocks])
        if not self.has_aux:
            return jacobian
        values = () if answer is None else answer.values
        return jacobian, Fetched(aux, values).aux(results)

    def _check(self, leaves: Sequence[TrackedTensor], results: Results) -> None:
        complex_leaves = [each.dtype.kind == "c" for each in leaves]
        if not self.holomorphic:
            if any(complex_leaves):
                raise _not_holomorphic(
                    "jacobian",
                    "its derivative is no matrix of complex numbers unless it is holomorphic: say "
                    "holomorphic=True if it is",
                )
            return
        if not all(complex_leaves) or any(each.dtype.kind != "c" for each in results.outputs):
            raise make_error(
                "NOT_HOLOMORPHIC",
                "jacobian: with holomorphic=True all arguments that are differentiated, and all results, are "
                "complex; leave it out for real ones.",
            )

    def _columns(self, sets: Sequence[Sequence[Array]], main: TrackedTensor) -> Array:
        """From the gradients along each output, the derivatives by argument first."""
        rows = np.stack([np.concatenate([g.reshape(-1) for g in each]) for each in sets])
        if self.holomorphic:
            rows = rows.conj()
        elif main.dtype.kind == "c":
            rows = rows[: main.size] + 1j * rows[main.size :]
        return rows.T

    def _blocks(
        self, joined: Array, leaves: Sequence[TrackedTensor], results: Results
    ) -> list[list[Array]]:
        """For each output and each leaf the derivatives, of the output's shape and then the leaf's."""
        avals = [each._node_type.aval for each in results.outputs]
        by_leaf = np.split(joined, np.cumsum([each.size for each in leaves])[:-1])
        found: list[list[Array]] = [[] for _ in avals]
        for leaf, columns in zip(leaves, by_leaf, strict=True):
            for row, output, part in zip(found, avals, split(columns, avals), strict=True):
                dtype = np.result_type(output.dtype, leaf.dtype)
                last = np.moveaxis(part, 0, -1).reshape((*output.shape, *leaf.shape))
                row.append(np.ascontiguousarray(last, dtype).reshape(last.shape))
        return found


class Hessian(Derivative):
    """All second derivatives of a loss.

    Attributes:
        with_value: whether the loss's value and its gradient are part of the result.
    """

    goal = Loss

    def __init__(
        self, f: Any, argnums: Argnums, has_aux: bool, name: str, *, with_value: bool = False
    ) -> None:
        super().__init__(f, argnums, has_aux, name)
        self.with_value = with_value

    def work(
        self, tape: Watched[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work[Any]:
        """One call: H·v along all arguments."""
        arguments, found = self._applied(tape, args, kwargs)
        leaves, results = found
        assert results.main is not None
        directions = self._directions(leaves)
        aux = nodes_of(results.aux)
        wrt = [each._id for each in leaves]
        question: Question = PullbackQuestion(results.main._id, (), wrt)  # of empty arguments
        if directions:
            question = HvpQuestion(results.main._id, directions, wrt)
        answer = yield Asking(aux, question, found.spent())
        hvps = [each.hvps for each in answer.sets] if directions else []
        beside = Fetched(aux, answer.values).aux(results) if self.has_aux else None
        assert answer.loss_value is not None
        curvature = Curvature(answer.loss_value, answer.sets[0].gradients, hvps, beside)
        return self._result(arguments, leaves, curvature)

    def batch(self, tape: Watched[Any], calls: Calls, *, nan: bool = False) -> Work[list[Any]]:
        """Several calls in one round trip."""
        applied = [self._applied(tape, *each) for each in calls]
        sets = [Recorded(each, self._directions(each.leaves)) for _, each in applied]
        found = yield from curvatures(tape, sets, has_aux=self.has_aux, nan=nan)
        return [
            self._result(arguments, each.leaves, curvature)
            for (arguments, each), curvature in zip(applied, found, strict=True)
        ]

    def _directions(self, leaves: Sequence[TrackedTensor]) -> list[Direction]:
        if any(each.dtype.kind == "c" for each in leaves):
            raise _not_holomorphic(
                self.name, "the second derivative of a real loss of them is no complex matrix"
            )
        return unit_directions(leaves)

    def _result(
        self, arguments: Arguments, leaves: Sequence[TrackedTensor], found: Curvature
    ) -> Any:
        rows = _second(found.products, leaves)
        hessian = self._by_argument(
            arguments, [self._by_argument(arguments, blocks) for blocks in rows]
        )
        if not self.with_value:
            return (hessian, found.aux) if self.has_aux else hessian
        gradient = self._by_argument(arguments, found.gradients)
        return (found.value, found.aux) if self.has_aux else found.value, gradient, hessian


def _second(
    columns: Sequence[Sequence[Array]], leaves: Sequence[TrackedTensor]
) -> list[list[Array]]:
    """For each two leaves the second derivatives, of the shape of the first and then the second.

    Args:
        columns: H·v along each element of each leaf, by leaf.
        leaves: the leaves.
    """
    rows = []
    for i, row in enumerate(leaves):
        blocks, start = [], 0
        for column in leaves:
            block = np.zeros((*row.shape, column.size), row.dtype)
            for k in range(column.size):
                block[..., k] = columns[start + k][i]
            start += column.size
            blocks.append(block.reshape((*row.shape, *column.shape)))
        rows.append(blocks)
    return rows


def units(like: TrackedTensor) -> Iterable[Array]:
    """Arrays like a tensor that are 1 at one element and 0 elsewhere, one for each element."""
    for i in range(like.size):
        unit = np.zeros(like.size, like.dtype)
        unit[i] = 1
        yield unit.reshape(like.shape)


def unit_directions(leaves: Sequence[TrackedTensor]) -> list[Direction]:
    """The directions of each element of each leaf."""
    return [[(leaf._id, unit)] for leaf in leaves for unit in units(leaf)]


def _not_holomorphic(name: str, why: str) -> BackhaulError:
    return make_error(
        "NOT_HOLOMORPHIC",
        f"{name}: an argument is complex, and {why}. Else differentiate with respect to its real and its "
        "imaginary part as two real arguments, or ask for products: bh.jvp, bh.vjp, bh.hvp.",
    )


def jacobian(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    mode: str = "auto",
    holomorphic: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives all derivatives of a function's results, in one round trip a call.

    Args:
        f: takes tensors and returns tensors of any shape, alone or in containers.
        argnums: as for `grad`.
        has_aux: whether ``f`` returns a pair of the results and other data: the result is (Jacobian, data).
        mode: ``"forward"``: a pass for each element of the arguments; ``"reverse"``: one for each element of
            the results, twice that for complex ones; ``"auto"``: whichever are fewer.
        holomorphic: whether ``f`` is holomorphic, of complex arguments. The result is then the complex
            derivative.
        connection: where it is computed; left out: the default one.

    Returns:
        A function of the arguments of ``f``. It returns what is built like the result of ``f``, and in place
        of each array what is built like the argument (a tuple for several ``argnums``), of arrays of the
        result's shape followed by the argument's.

    Raises:
        InvalidArgument: INVALID_VALUE. The function that is returned raises also: MissingNode, a result
            does not depend on the arguments; InvalidArgument (NOT_HOLOMORPHIC, DTYPE_NOT_SUPPORTED,
            NESTED_TRANSFORM); HvpNotSupported, an op has no forward-mode rule (say ``mode="reverse"``).

    Example:
        >>> import numpy as np, backhaul as bh
        >>> bh.jacobian(lambda x: x * bh.sum(x))(np.array([1.0, 2.0]))
        array([[4., 1.],
               [2., 5.]])
    """
    return Transformed(
        Jacobian(f, argnums, has_aux, mode, holomorphic), connection_of(f, connection)
    )


def hessian(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives all second derivatives of a loss, in one round trip a call.

    It takes a Hessian-vector product for each element of the arguments. Where they are many, ask for `hvp`.

    Args:
        f: as for `grad`.
        argnums: as for `grad`.
        has_aux: as for `grad`: the result is (Hessian, data).
        connection: where it is computed; left out: the default one.

    Returns:
        A function of the arguments of ``f``. For an argument that is an array x it returns an array of x's
        shape twice. For one in containers: what is built like it, and in place of each array again what is
        built like it, as jax.hessian does.

    Raises:
        InvalidArgument: INVALID_VALUE. The function that is returned raises as that of `grad`, and
            InvalidArgument (NOT_HOLOMORPHIC) for complex arguments; HvpNotSupported.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> bh.hessian(lambda x: x[0] ** 2 * x[1])(np.array([1.0, 2.0]))
        array([[4., 2.],
               [2., 0.]])
    """
    return Transformed(Hessian(f, argnums, has_aux, "hessian"), connection_of(f, connection))


def value_grad_and_hessian(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives a loss, its gradient and its Hessian, in one round trip: a step of Newton's.

    Args:
        f: as for `grad`.
        argnums: as for `grad`.
        has_aux: as for `grad`.
        connection: where it is computed; left out: the default one.

    Returns:
        A function of the arguments of ``f``. It returns (value, gradient, Hessian), as `value_and_grad` and
        `hessian` give them; with ``has_aux`` ((value, data), gradient, Hessian).

    Raises:
        InvalidArgument: as `hessian`.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> newton = bh.value_grad_and_hessian(lambda x: bh.sum(bh.exp(x) - x))
        >>> x = np.array([1.0, -0.5])
        >>> for _ in range(6):
        ...     value, gradient, hessian = newton(x)
        ...     x = x - np.linalg.solve(hessian, gradient)
        >>> float(value), bool(np.abs(x).max() < 1e-12)
        (2.0, True)
    """
    derivative = Hessian(f, argnums, has_aux, "value_grad_and_hessian", with_value=True)
    return Transformed(derivative, connection_of(f, connection))
