"""`grad`, `hvp` and the others of `backhaul.functional`, to be awaited.

What they return is called as ever, and gives what is to be awaited. The functions that are differentiated
are ordinary ones: recording waits for nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

from backhaul.aio.connection import Connection, default_connection
from backhaul.aio.driver import drive
from backhaul.aio.tape import Tape
from backhaul.aio.tensor import TrackedTensor
from backhaul.functional import compiling
from backhaul.functional.arguments import Argnums
from backhaul.functional.batching import Axes, Batch, Products, connection_for
from backhaul.functional.derivatives import Derivative, opened
from backhaul.functional.evaluating import Evaluation, holds_tensor
from backhaul.functional.goals import Function, Loss, Outputs
from backhaul.functional.gradients import Gradient
from backhaul.functional.jacobians import Hessian, Jacobian
from backhaul.functional.products import (
    CurvatureProduct,
    ForwardProduct,
    Tangents,
    composed,
    curved,
    gauss_newton_curved,
)
from backhaul.functional.pulling import Pulled, Recorded
from backhaul.functional.tapes import Asking, Placed, Watched, Work, connection_of, give_back, lend
from backhaul_proto.errors import SessionError, make_error
from backhaul_proto.messages import Answer

Result = TypeVar("Result")


class WatchedTape(Watched[TrackedTensor], Tape):
    """A tape that notes what a function does on it, whose questions are awaited."""


async def call(connection: Any, begin: Callable[[WatchedTape], Work[Result]]) -> Result:
    """The result of a call; as `backhaul.functional.tapes.call`."""
    where = _checked(connection)
    tape, is_new = lend(where, WatchedTape)
    try:
        return await _called(tape, begin)
    except SessionError:
        if is_new:
            raise
    return await _called(WatchedTape(where), begin)


async def _called(tape: WatchedTape, begin: Callable[[WatchedTape], Work[Result]]) -> Result:
    try:
        return await _answered(tape, begin(tape))
    finally:
        give_back(tape)


async def _answered(tape: WatchedTape, work: Work[Result]) -> Result:
    async def answer(asked: Asking) -> Answer:
        return await tape._core.ask(asked.values, asked.question, spent=asked.spent)

    return await drive(work, answer, nullcontext())


def _checked(connection: Any) -> Connection:
    if connection is None:
        return default_connection()
    if not isinstance(connection, Connection):
        raise make_error(
            "INVALID_VALUE",
            f"connection= is {connection!r:.100}; here it is what bh.connect() gives, with bh the module "
            "backhaul.aio.",
        )
    return connection


class Transformed(Placed):
    """A derivative that is called like the function, and awaited.

    Attributes:
        derivative: what it computes.
    """

    def __init__(self, derivative: Derivative, connection: Connection | None) -> None:
        self.derivative = derivative
        self._connection = connection
        functools.update_wrapper(self, derivative.function, updated=())

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The derivative at these arguments, in one round trip."""
        work = self.derivative.work
        return await call(self._connection, lambda tape: work(tape, args, kwargs))

    def __repr__(self) -> str:
        return repr(self.derivative)


class Batched:
    """A function for many sets of arguments, that is awaited."""

    def __init__(self, batch: Batch, connection: Connection | None) -> None:
        self._batch = batch
        self._connection = connection
        functools.update_wrapper(self, batch.function, updated=())

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of all sets, in one round trip."""
        return await call(self._connection, lambda tape: self._batch.work(tape, args, kwargs))

    def __repr__(self) -> str:
        return f"batched({self._batch.function!r})"


class Jitted(compiling.Jitted):
    """A function whose steps are kept; as that of `backhaul.jit`, its calls with arrays to be awaited."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What gives the function's result, arrays for tensors; or within a recording the tensors."""
        if holds_tensor(args, kwargs):
            return self.function(*args, **kwargs)
        evaluation = Evaluation(self.function, self.programs)
        return call(self._connection, lambda tape: evaluation.work(tape, args, kwargs))


def jit(
    f: Function,
    *,
    static_argnums: Argnums = (),
    static_argnames: str | Iterable[str] = (),
    connection: Connection | None = None,
) -> Jitted:
    """A function that is recorded once for arguments of given shapes; as `backhaul.jit`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> f = bh.jit(lambda x: bh.sum(x * x))
        >>> asyncio.run(f(np.array([1.0, 2.0])))
        array(5.)
    """
    function, programs = compiling.compiled(f, static_argnums, static_argnames)
    return Jitted(function, programs, connection)


def grad(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives the gradient of a function; as `backhaul.grad`, to be awaited.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> asyncio.run(bh.grad(lambda x: bh.sum(x * x))(np.array([1.0, 2.0])))
        array([2., 4.])
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
    """A function that gives a function's value and its gradient; as `backhaul.value_and_grad`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> asyncio.run(bh.value_and_grad(lambda x: bh.sum(x * x))(np.array([1.0, 2.0])))
        (array(5.), array([2., 4.]))
    """
    derivative = Gradient(f, argnums, has_aux, "value_and_grad", with_value=True)
    return Transformed(derivative, connection_of(f, connection))


def jacobian(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    mode: str = "auto",
    holomorphic: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives all derivatives of a function's results; as `backhaul.jacobian`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> asyncio.run(bh.jacobian(lambda x: x * x)(np.array([1.0, 2.0])))
        array([[2., 0.],
               [0., 4.]])
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
    """A function that gives all second derivatives of a loss; as `backhaul.hessian`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> asyncio.run(bh.hessian(lambda x: bh.sum(x**3))(np.array([1.0, 2.0])))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    return Transformed(Hessian(f, argnums, has_aux, "hessian"), connection_of(f, connection))


def value_grad_and_hessian(
    f: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Transformed:
    """A function that gives a loss, its gradient and its Hessian; as `backhaul.value_grad_and_hessian`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> newton = bh.value_grad_and_hessian(lambda x: bh.sum(x**3))
        >>> asyncio.run(newton(np.array([1.0])))
        (array(1.), array([3.]), array([[6.]]))
    """
    derivative = Hessian(f, argnums, has_aux, "value_grad_and_hessian", with_value=True)
    return Transformed(derivative, connection_of(f, connection))


async def jvp(
    f: Function,
    primals: tuple[Any, ...],
    tangents: Tangents,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Any:
    """A function's value and its derivative along a direction; as `backhaul.jvp`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> asyncio.run(bh.jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.ones(2),)))
        (array([1., 4.]), array([2., 4.]))
    """
    function, programs = opened(f, "jvp")
    product = ForwardProduct(Outputs(function, bool(has_aux), "jvp"), programs, primals, tangents)
    return await call(connection_of(f, connection), product.work)


async def hvp(
    f: Function,
    primals: tuple[Any, ...],
    tangents: Tangents,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Any:
    """A loss, its gradient, and its Hessian times a direction; as `backhaul.hvp`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> x = np.array([1.0, 2.0])
        >>> asyncio.run(bh.hvp(lambda x: bh.sum(x**3), (x,), (np.ones(2),))).product
        (array([ 6., 12.]),)
    """
    function, programs = opened(f, "hvp")
    product = CurvatureProduct(Loss(function, bool(has_aux), "hvp"), programs, primals, tangents)
    return await call(connection_of(f, connection), product.work)


async def gauss_newton_product(
    f: Function,
    loss: Function,
    primals: tuple[Any, ...],
    tangents: Tangents,
    *,
    has_aux: bool = False,
    connection: Connection | None = None,
) -> Any:
    """A loss of outputs, its gradient, and its Gauss-Newton matrix times a direction.

    As `backhaul.gauss_newton_product`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> found = asyncio.run(
        ...     bh.gauss_newton_product(np.exp, lambda out: bh.sum(out * out), (np.zeros(2),), (np.ones(2),))
        ... )
        >>> found.product
        (array([2., 2.]),)
    """
    goal, programs = composed(f, loss, has_aux)
    return await call(
        connection_of(f, connection), CurvatureProduct(goal, programs, primals, tangents).work
    )


class Pullback:
    """The pullback of a function that `vjp` recorded; as `backhaul.Pullback`, to be awaited."""

    def __init__(self, tape: WatchedTape, recorded: Recorded) -> None:
        self._tape = tape
        self._recorded = recorded

    async def __call__(self, cotangent: Any) -> Any:
        """The gradients of Re sum(conj(cotangent) * result): a tuple with that for each argument."""
        return (await self.several([cotangent]))[0]

    async def several(self, cotangents: Sequence[Any]) -> list[Any]:
        """The gradients along several cotangents, in one round trip."""
        if not cotangents:
            return []
        return await _answered(self._tape, self._recorded.work(cotangents))

    def __del__(self) -> None:
        try:
            give_back(self._tape)
        except AttributeError:
            return  # it was only half made


async def vjp(
    f: Function, *primals: Any, has_aux: bool = False, connection: Connection | None = None
) -> Any:
    """A function's value, and its pullback, which is awaited too; as `backhaul.vjp`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> async def main():
        ...     value, pull = await bh.vjp(lambda x: x * x, np.array([1.0, 2.0]))
        ...     return value, await pull(np.array([1.0, 10.0]))
        >>> asyncio.run(main())
        (array([1., 4.]), (array([ 2., 40.]),))
    """
    pulled = Pulled(f, primals, has_aux)
    where = _checked(connection_of(f, connection))
    tape, is_new = lend(where, WatchedTape)
    try:
        value, aux, recorded = await _begun(pulled, tape)
    except SessionError:
        if is_new:
            raise
        tape = WatchedTape(where)
        value, aux, recorded = await _begun(pulled, tape)
    pull = Pullback(tape, recorded)
    return (value, pull, aux) if has_aux else (value, pull)


async def _begun(pulled: Pulled, tape: WatchedTape) -> tuple[Any, Any, Recorded]:
    try:
        return await _answered(tape, pulled.begin(tape))
    except BaseException:
        give_back(tape)
        raise


def batched(
    f: Any,
    in_axes: Axes = 0,
    *,
    on_error: str = "raise",
    connection: Connection | None = None,
) -> Batched:
    """A function that computes another one for many sets of arguments; as `backhaul.batched`.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> f = bh.batched(bh.grad(lambda x: bh.sum(x * x)))
        >>> asyncio.run(f(np.array([[1.0], [2.0]])))
        array([[2.],
               [4.]])
    """
    of = f.derivative if isinstance(f, Transformed) else f
    products: Products = {hvp: curved, gauss_newton_product: gauss_newton_curved}
    return Batched(Batch(of, in_axes, on_error, products), connection_for(f, connection))
