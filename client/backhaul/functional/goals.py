"""What a function is recorded for: what its result has to be, and what is made of it on the tape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from backhaul.functional.pytrees import LEAF, NOTHING, Tree, flatten
from backhaul.shaping import concat
from backhaul.tensor import TrackedTensor
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import BackhaulError, make_error

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


@dataclass(slots=True)
class Results:
    """What a function gave, on the tape.

    Attributes:
        main: what is differentiated: the loss, or all outputs in one tensor. None: nothing is.
        outputs: leaves of the result, tensors mostly.
        tree: its structure.
        aux: leaves of the auxiliary data, of any kind.
        aux_tree: its structure.
        through: tensors that are taken as linear functions of the arguments (Gauss-Newton).
    """

    main: TrackedTensor | None
    outputs: list[Any]
    tree: Tree
    aux: list[Any] = field(default_factory=list)
    aux_tree: Tree = NOTHING
    through: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Goal(ABC):
    """What a function is recorded for. Equal goals make equal steps of equal results.

    Attributes:
        function: what is recorded.
        has_aux: whether it gives a pair, whose second is to be fetched and not differentiated.
        name: of the public function, for errors.
    """

    function: Function
    has_aux: bool
    name: str

    on_constants: ClassVar[bool] = False
    """Whether arrays that are not differentiated are put on the tape before the function is called."""

    def record(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Results:
        """Call the function, and record what else is needed.

        Raises:
            InvalidArgument, NonScalarLoss, MissingNode: its result is not what it has to be.
        """
        result = self.function(*args, **kwargs)
        if not self.has_aux:
            return self.made(result)
        if not isinstance(result, tuple) or len(result) != 2:
            raise make_error(
                "INVALID_VALUE",
                f"{self.name}: with has_aux=True the function returns a pair, (result, auxiliary data), and "
                f"it returned {_told(result)}.",
            )
        found = self.made(result[0])
        found.aux, found.aux_tree = flatten(result[1])
        return found

    @abstractmethod
    def made(self, result: Any) -> Results:
        """What is made of the function's result."""


class Values(Goal):
    """Its values are to be fetched."""

    __slots__ = ()
    on_constants = True

    def made(self, result: Any) -> Results:
        """All that it gives, as it is."""
        return Results(None, *flatten(result))


class Loss(Goal):
    """It is a real number, of which derivatives are taken."""

    __slots__ = ()

    def made(self, result: Any) -> Results:
        """The loss, checked."""
        loss = scalar(result, self.name)
        return Results(loss, [loss], LEAF)


class Outputs(Goal):
    """It is a tensor, or tensors in containers, whose derivatives are taken together."""

    __slots__ = ()

    def made(self, result: Any) -> Results:
        """The outputs, checked, and one tensor that they all stand in."""
        outputs, tree = flatten(result)
        paths = [f"the function's result{path}" for path in tree.paths()]
        tensors = [output(each, path, self.name) for each, path in zip(outputs, paths, strict=True)]
        if not any(each.requires_grad for each in tensors):
            raise independent(f"{self.name}: the function's result")
        one = len(tensors) == 1
        main = tensors[0] if one else concat(tensors, axis=None)
        return Results(main, outputs, tree)


@dataclass(frozen=True, slots=True)
class Composed(Goal):
    """A loss of outputs, which are taken as linear.

    Attributes:
        loss: of what the function gives.
        version: another one when its programs were forgotten.
    """

    loss: Function
    version: int = 0

    def made(self, result: Any) -> Results:
        """The loss of the outputs, both checked."""
        outputs, tree = flatten(result)
        paths = [f"the function's result{path}" for path in tree.paths()]
        through = [output(each, path, self.name) for each, path in zip(outputs, paths, strict=True)]
        if not any(each.requires_grad for each in through):
            raise independent(f"{self.name}: the function's result")
        loss = scalar(self.loss(result), self.name, "the loss")
        return Results(loss, [loss], LEAF, through=[x for x in through if x.requires_grad])


def scalar(result: Any, name: str, what: str = "the function's result") -> TrackedTensor:
    """A loss.

    Raises:
        MissingNode: it is no tensor, or requires no gradient.
        NonScalarLoss, InvalidArgument (COMPLEX_LOSS): it is not one real number.
    """
    if not isinstance(result, TrackedTensor):
        if isinstance(result, tuple | list | dict):
            raise make_error(
                "NON_SCALAR_LOSS",
                f"{name}: {what} is {_told(result)}; a gradient is of one number. For a pair of a loss and "
                "other data say has_aux=True.",
            )
        raise independent(f"{name}: {what}, {_told(result)},")
    if not result.requires_grad:
        raise independent(f"{name}: {what}")
    if result.size != 1:
        raise make_error(
            "NON_SCALAR_LOSS",
            f"{name}: {what} has shape {result.shape}, that is {result.size} elements; a gradient is of one "
            "number. Reduce it, for example with bh.sum(), or take bh.vjp or bh.jacobian.",
            actual=result.shape,
        )
    if result.dtype.kind == "c":
        raise make_error(
            "COMPLEX_LOSS",
            f"{name}: {what} is {result.dtype}; a gradient is of a real number. Take bh.real() of it, or "
            "bh.vjp of the function.",
            actual=result.dtype,
        )
    return result


def output(result: Any, path: str, name: str) -> TrackedTensor:
    """A result that is differentiated.

    Raises:
        MissingNode: it is no tensor.
        InvalidArgument: DTYPE_NOT_SUPPORTED.
    """
    if not isinstance(result, TrackedTensor):
        raise independent(f"{name}: {path}, {_told(result)},")
    if not result._node_type.aval.inexact:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"{name}: {path} is {result.dtype}, which has no derivative. Return it as auxiliary data "
            "(has_aux=True), or convert it with bh.astype().",
            actual=result.dtype,
        )
    return result


def independent(what: str) -> BackhaulError:
    """The error for a result that no gradient flows through."""
    return make_error(
        "MISSING_NODE",
        f"{what} does not depend on the arguments that are differentiated. It may have been made by float(), "
        "numpy() or detach(), which end a gradient; or argnums= names another argument. Where a "
        "derivative of zero is meant, return for example 0 * bh.sum(x) + constant.",
    )


def _told(value: Any) -> str:
    """A value in a message."""
    return f"a {type(value).__name__} ({value!r:.60})"


def split(joined: Array, avals: Sequence[Aval]) -> list[Array]:
    """Outputs that stand in one vector, the last axis of an array, in their own shapes and dtypes."""
    found, at = [], 0
    for each in avals:
        part = joined[..., at : at + each.size]
        at += each.size
        part = part.real if each.dtype.kind != "c" and part.dtype.kind == "c" else part
        found.append(part.reshape((*joined.shape[:-1], *each.shape)).astype(each.dtype))
    return found
