"""`batched`: one function for many sets of arguments, in one round trip."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from backhaul.connection import Connection
from backhaul.functional.compiling import Jitted
from backhaul.functional.derivatives import Derivative, Transformed, opened
from backhaul.functional.evaluating import Calls, Evaluation, OneCall
from backhaul.functional.goals import Function
from backhaul.functional.gradients import Gradient
from backhaul.functional.jacobians import Hessian
from backhaul.functional.products import BATCHED, CurvatureBatch
from backhaul.functional.pytrees import Tree, flatten
from backhaul.functional.tapes import Watched, Work, call, connection_of
from backhaul_proto.errors import BackhaulError, make_error

Array = np.ndarray[Any, Any]
Axes = int | None | Sequence[int | None]
"""The axis of the sets, for all arguments or each one; None: the argument is the same for all sets."""

Products = Mapping[Callable[..., Any], Callable[..., CurvatureBatch]]
"""What is made of `hvp` and its kin, for many sets."""

ON_ERROR: Final = ("raise", "nan")


class Batch:
    """A function for many sets of arguments.

    Args:
        f: a derivative, or a function.
        in_axes: where the sets are.
        on_error: what becomes of the others where one set fails.
        products: what is made of products whose functions are given.
    """

    def __init__(self, f: Any, in_axes: Axes, on_error: str, products: Products = BATCHED) -> None:
        self._of = batch_of(f, products)
        self.function: Function = f.function if isinstance(f, Derivative) else f
        if on_error not in ON_ERROR:
            raise make_error(
                "INVALID_VALUE",
                f"batched: on_error={on_error!r:.60} is none of {', '.join(ON_ERROR)}.",
            )
        self._nan = on_error == "nan"
        if self._nan and not isinstance(self._of, Evaluation) and self._of.has_aux:
            raise make_error(
                "INVALID_VALUE",
                'batched: on_error="nan" has no auxiliary data (has_aux=True) for a set that failed.',
            )
        each: Any = in_axes if isinstance(in_axes, Sequence) else [in_axes]
        if not all(axis is None or type(axis) is int for axis in each):
            raise make_error(
                "INVALID_VALUE",
                f"batched: in_axes={in_axes!r:.100}; it is an axis or None, or a tuple of these with one "
                "for each positional argument.",
            )
        self._axes: int | tuple[int | None, ...] | None = (
            tuple(in_axes) if isinstance(in_axes, Sequence) else in_axes
        )

    def work(
        self, tape: Watched[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Work[Any]:
        """One call, on a tape."""
        found = yield from self._of.batch(tape, self._calls(args, kwargs), nan=self._nan)
        return stacked(found)

    def _calls(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Calls:
        axes = self._axes if isinstance(self._axes, tuple) else (self._axes,) * len(args)
        if len(axes) != len(args):
            raise make_error(
                "INVALID_VALUE",
                f"batched: in_axes has {len(axes)} entries, and there are {len(args)} positional arguments.",
            )
        named = [f"argument {i}" for i in range(len(args))] + [f"argument {k!r}" for k in kwargs]
        given = [*zip(named, axes, args, strict=False)]
        given += [(f"argument {key!r}", 0, each) for key, each in kwargs.items()]
        leaves: list[tuple[str, int | None, list[Any], Tree]] = []
        sizes: dict[int, str] = {}
        for name, axis, value in given:
            parts, tree = flatten(value)
            if axis is not None:
                parts = [
                    _sets(each, axis, path)
                    for each, path in zip(parts, tree.paths(name), strict=True)
                ]
                for each, path in zip(parts, tree.paths(name), strict=True):
                    sizes.setdefault(len(each), path)
            leaves.append((name, axis, parts, tree))
        if len(sizes) != 1:
            raise _sizes(sizes)
        (count,) = sizes
        if count == 0:
            raise make_error(
                "SHAPE_MISMATCH", "batched: there are no sets: the axis of the sets has size 0."
            )

        def of(i: int, axis: int | None, parts: list[Any], tree: Tree, whole: Any) -> Any:
            return whole if axis is None else tree.unflatten([each[i] for each in parts])

        values = [value for _, _, value in given]
        calls = []
        for i in range(count):
            one = [of(i, a, p, t, v) for (_, a, p, t), v in zip(leaves, values, strict=True)]
            names = dict(zip(kwargs, one[len(args) :], strict=True))
            own = [x for (_, a, _, _), x in zip(leaves, one, strict=True) if a is not None]
            passing = frozenset(map(id, flatten(own)[0]))
            calls.append(OneCall(tuple(one[: len(args)]), names, passing))
        return calls


def batch_of(f: Any, products: Products) -> Gradient | Hessian | CurvatureBatch | Evaluation:
    """What is computed for each set.

    Raises:
        InvalidArgument: INVALID_VALUE for what has no form for many sets.
    """
    if isinstance(f, Gradient | Hessian):
        return f
    if isinstance(f, functools.partial) and f.func in products:
        given = {key: value for key, value in f.keywords.items() if key != "connection"}
        try:
            return products[f.func](*f.args, **given)
        except TypeError as error:
            raise make_error(
                "INVALID_VALUE",
                "batched: functools.partial takes the functions alone, as in functools.partial(bh.hvp, f); "
                f"primals and tangents are arguments of each call ({error}).",
            ) from None
    if not isinstance(f, Derivative | Batched):
        return Evaluation(*opened(f, "batched"))
    raise make_error(
        "INVALID_VALUE",
        f"batched: there is no form of {f!r:.100} for many sets. It takes what bh.grad, bh.value_and_grad or "
        "bh.hessian made, functools.partial(bh.hvp, f), or a function.",
    )


def connection_for(f: Any, connection: Any) -> Any:
    """The connection that is named, or that of what is computed for each set."""
    if connection is None and isinstance(f, functools.partial):
        named = f.keywords.get("connection")
        return connection_of(f.args[0], None) if named is None and f.args else named
    return connection_of(f, connection)


def _sets(leaf: Any, axis: int, path: str) -> Array:
    """An array with the sets first."""
    array = leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)
    if not -array.ndim <= axis < array.ndim:
        raise make_error(
            "SHAPE_MISMATCH",
            f"batched: {path} has shape {array.shape}, and no axis {axis} along which the sets could be. An "
            "argument that is the same for all sets has None in in_axes=.",
        )
    return np.moveaxis(array, axis, 0)


def _sizes(sizes: Mapping[int, str]) -> BackhaulError:
    if not sizes:
        return make_error(
            "INVALID_VALUE",
            "batched: in_axes names no argument with an array in it, so there is nothing to tell how many "
            "sets there are.",
        )
    told = ", ".join(f"{count} by {path}" for count, path in sizes.items())
    return make_error("SHAPE_MISMATCH", f"batched: there are different numbers of sets: {told}.")


def stacked(results: Sequence[Any]) -> Any:
    """The results of the sets, with these on the first axis of each array.

    Raises:
        InvalidArgument: TREE_MISMATCH, SHAPE_MISMATCH.
    """
    parts, trees = zip(*map(flatten, results), strict=True)
    for i, tree in enumerate(trees):
        if tree != trees[0]:
            raise make_error(
                "TREE_MISMATCH",
                f"batched: the function gave for set {i} what is built otherwise than for set 0, so they "
                "cannot be stacked.",
            )
    arrays = []
    for leaf in zip(*parts, strict=True):
        shapes = [np.shape(each) for each in leaf]
        for i, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise make_error(
                    "SHAPE_MISMATCH",
                    f"batched: a result has shape {shape} for set {i} and {shapes[0]} for set 0, so they "
                    "cannot be stacked.",
                )
        arrays.append(np.stack(leaf))
    return trees[0].unflatten(arrays)


class Batched:
    """A function for many sets of arguments, that waits for the server."""

    def __init__(self, batch: Batch, connection: Connection | None) -> None:
        self._batch = batch
        self._connection = connection
        functools.update_wrapper(self, batch.function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of all sets, in one round trip."""
        return call(self._connection, lambda tape: self._batch.work(tape, args, kwargs))

    def __repr__(self) -> str:
        return f"batched({self._batch.function!r})"


def batched(
    f: Transformed | Jitted | Function,
    in_axes: Axes = 0,
    *,
    on_error: str = "raise",
    connection: Connection | None = None,
) -> Batched:
    """A function that computes another one for many sets of arguments, in one round trip: chains, walkers.

    As jax.vmap it takes arrays with one axis more, along which the sets are, and gives results stacked along
    their first axis. Each set is computed by itself, as it would be alone: in the same steps, and with the
    branches that the function takes for it. With `jit` the steps are recorded once for all.

    Args:
        f: what `grad`, `value_and_grad`, `hessian` or `value_grad_and_hessian` made;
            ``functools.partial(hvp, f)`` or ``functools.partial(gauss_newton_product, f, loss)``, which take
            primals and tangents of all sets; or a function, whose values are computed.
        in_axes: the axis of the sets: for all positional arguments, or a tuple with one for each; None: the
            argument is the same for all sets. In arguments by name it is the first.
        on_error: what happens when a step fails for a set, as for a singular matrix: ``"raise"`` its error,
            which says which set it was (``details["set"]``); or ``"nan"``: the results of that set are NaN,
            and the others are asked for once more.
        connection: where it is computed; left out: that of ``f`` where it has one, or the default one.

    Raises:
        InvalidArgument: INVALID_VALUE. The function that is returned raises also SHAPE_MISMATCH,
            TREE_MISMATCH, and what ``f`` raises.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> logp = lambda x, scale: -0.5 * bh.sum((x / scale) ** 2)
        >>> walkers = np.array([[0.0, 1.0], [2.0, 2.0], [1.0, 0.0]])
        >>> values, gradients = bh.batched(bh.value_and_grad(logp), (0, None))(walkers, 2.0)
        >>> values, gradients
        (array([-0.125, -1.   , -0.125]), array([[-0.  , -0.25],
               [-0.5 , -0.5 ],
               [-0.25, -0.  ]]))
        >>> from functools import partial
        >>> cubes = bh.batched(partial(bh.hvp, lambda x: bh.sum(x**3)))
        >>> cubes((walkers,), (np.ones((3, 2)),)).product
        (array([[ 0.,  6.],
               [12., 12.],
               [ 6.,  0.]]),)
    """
    of = f.derivative if isinstance(f, Transformed) else f
    return Batched(Batch(of, in_axes, on_error), connection_for(f, connection))
