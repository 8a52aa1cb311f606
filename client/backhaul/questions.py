"""Checks of what is asked of a tape, at the caller's line, and the questions that travel.

The order of checks is part of the interface: the loss is a node of the tape that requires a gradient;
then it has one element; then it is real; then what comes beside it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backhaul.handle import Handle
from backhaul.signatures import NodeType
from backhaul.unusable import released
from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.promotion import as_array, is_typed
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import (
    Direction,
    HvpQuestion,
    NodeOrArray,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
)

if TYPE_CHECKING:
    from backhaul.any_tape import AnyTape

Array = np.ndarray[Any, Any]


class Asked(NamedTuple):
    """A question, and whether it was given as a list: then its answer is one too."""

    question: Question
    many: bool

    @property
    def is_empty(self) -> bool:
        """Whether it was an empty list, which needs no answer."""
        return (
            self.many
            and isinstance(self.question, PullbackQuestion)
            and not self.question.cotangents
        )


def pullback_question(tape: AnyTape[Any], loss: Any, cotangent: Any, wrt: Any) -> Asked:
    """The question of `Tape.pullback`.

    Raises:
        MissingNode, NonScalarLoss, InvalidArgument (COMPLEX_LOSS, COTANGENT_MISMATCH, ...).
    """
    node, kind = _loss(tape, loss)
    if cotangent is None:
        _check_scalar(kind.aval)
        return Asked(PullbackQuestion(node, (), _wrt(tape, wrt)), False)
    many = _is_list_of(cotangent, kind.aval)
    cotangents = [
        fitting_cotangent(tape, each, kind.aval) for each in (cotangent if many else [cotangent])
    ]
    return Asked(PullbackQuestion(node, cotangents, _wrt(tape, wrt)), many)


def hvp_question(tape: AnyTape[Any], loss: Any, tangents: Any, wrt: Any, linear: Any = ()) -> Asked:
    """The question of `Tape.hvp`.

    Raises:
        MissingNode, NonScalarLoss, TangentShapeMismatch, InvalidArgument (COMPLEX_LOSS,
        HVP_WITHOUT_TANGENT, TANGENT_DTYPE_MISMATCH, ...).
    """
    node, kind = _loss(tape, loss)
    _check_scalar(kind.aval)
    directions, many = _directions(tape, tangents, "H·v")
    flat = _wrt(tape, linear, "linear") or ()
    return Asked(HvpQuestion(node, directions, _wrt(tape, wrt), linear=flat), many)


def pushforward_question(tape: AnyTape[Any], output: Any, tangents: Any) -> Asked:
    """The question of `Tape.pushforward`.

    Raises:
        MissingNode, TangentShapeMismatch, InvalidArgument (HVP_WITHOUT_TANGENT, TANGENT_DTYPE_MISMATCH, ...).
    """
    node, _ = _loss(tape, output, "output")
    directions, many = _directions(tape, tangents, "J·v")
    return Asked(PushforwardQuestion(node, directions), many)


def _directions(tape: AnyTape[Any], tangents: Any, wanted: str) -> tuple[list[Direction], bool]:
    """The directions, none for the leaves' own tangents; whether they were given as a list."""
    if tangents is None:
        if not tape._recorder.has_tangent:
            raise _no_direction(
                f"No leaf of this tape has a tangent, so there is no direction v for {wanted}"
            )
        return [], False
    many = not isinstance(tangents, Mapping)
    if isinstance(tangents, Handle) or not isinstance(tangents, Iterable):
        raise _no_mapping(tangents)
    given = list(tangents) if many else [tangents]
    if not given:
        raise _no_direction("The list of directions is empty")
    return [_direction(tape, each) for each in given], many


def find_node(tape: AnyTape[Any], given: Any, what: str) -> tuple[int, NodeType]:
    """Id and type of a node given as tensor or id.

    Raises:
        MissingNode: of another tape, released, or never issued.
    """
    if isinstance(given, Handle):
        if given._id < 0:
            raise released(what, given)
        if given._tape is not tape:
            raise make_error(
                "MISSING_NODE",
                f"{what} is on {given._tape}, but {tape} was asked. Ask the tape that it was recorded "
                "on (tensor.tape).",
                node=given._id,
            )
        return given._id, given._node_type
    if given is None:
        raise make_error(
            "MISSING_NODE",
            f"{what} is None, the node_id of a tensor that requires no gradient. Give a leaf, or what was "
            "computed from one.",
        )
    try:
        node = operator.index(given)
    except TypeError:
        raise make_error(
            "INVALID_VALUE",
            f"{what} is {given!r:.100}; give a tensor of the tape, or its node_id.",
        ) from None
    found = tape._recorder.types.get(node)
    if found is None or not found.requires_grad:
        raise make_error(
            "MISSING_NODE",
            f"{what}: {tape} has no node {node} that requires a gradient. It was never made, its tensor "
            "was dropped or released, or it is a constant.",
            node=node,
        )
    return node, found


def _loss(tape: AnyTape[Any], loss: Any, name: str = "loss") -> tuple[int, NodeType]:
    node, kind = find_node(tape, loss, f"The {name}")
    if not kind.requires_grad:
        raise make_error(
            "MISSING_NODE",
            f"The {name}, {kind.aval} on {tape}, requires no gradient: it is a constant, or was computed "
            "from constants, detached or integer tensors only. Make what it depends on with leaf(); "
            "tape.explain() tells where the gradient is lost.",
            node=node,
        )
    return node, kind


def _check_scalar(loss: Aval) -> None:
    if loss.size != 1:
        raise make_error(
            "NON_SCALAR_LOSS",
            f"The loss has shape {loss.shape}, that is {loss.size} elements; a gradient is of one "
            "number. Reduce it, for example with sum(), or give cotangent=.",
            actual=loss.shape,
        )
    if loss.dtype.kind == "c":
        raise make_error(
            "COMPLEX_LOSS",
            f"The loss is {loss.dtype}; a gradient is of a real number. Take real() of it first, or "
            "give cotangent=.",
            actual=loss.dtype,
        )


def _wrt(tape: AnyTape[Any], wrt: Any, name: str = "wrt") -> list[int] | None:
    if wrt is None:
        return None
    one = isinstance(wrt, Handle) or not isinstance(wrt, Iterable)
    given: Iterable[Any] = [wrt] if one else wrt
    nodes = []
    for position, each in enumerate(given):
        node, kind = find_node(tape, each, f"{name}[{position}]")
        if not kind.requires_grad:
            raise make_error(
                "MISSING_NODE",
                f"{name}[{position}], {kind.aval} on {tape}, requires no gradient: it is a constant. Give "
                "leaves, or what was computed from them.",
                node=node,
            )
        nodes.append(node)
    return nodes


def _is_list_of(given: Any, output: Aval) -> bool:
    """Whether these are several cotangents of the output: one axis more than it has."""
    if not isinstance(given, list | tuple):
        return False
    depth = 0
    while isinstance(given, list | tuple):
        if not given:
            return depth >= output.ndim
        depth += 1
        given = given[0]
    shape = given._node_type.aval.shape if isinstance(given, Handle) else np.shape(given)
    return depth + len(shape) > output.ndim


def fitting_cotangent(tape: AnyTape[Any], given: Any, output: Aval) -> NodeOrArray:
    """An output's cotangent, a node or an array: Python numbers and lists take the output's dtype.

    Raises:
        InvalidArgument: COTANGENT_MISMATCH.
    """
    found = _beside(tape, given, "The cotangent")
    fitting = found.dtype_like(output)
    if found.aval.shape != output.shape or fitting is None:
        raise make_error(
            "COTANGENT_MISMATCH",
            f"The cotangent is {found.aval}, the output {output}: shape and dtype must be equal. "
            "Python numbers and lists take the output's dtype.",
            expected=output,
            actual=found.aval,
        )
    return fitting


def _direction(tape: AnyTape[Any], tangents: Any) -> Direction:
    if not isinstance(tangents, Mapping):
        raise _no_mapping(tangents)
    if not tangents:
        raise _no_direction("The direction is empty")
    direction: dict[int, NodeOrArray] = {}
    for leaf, tangent in tangents.items():
        node, kind = find_node(tape, leaf, "A key of tangents=")
        if not kind.is_leaf:
            raise make_error(
                "INVALID_VALUE",
                f"tangents= has a key that is no leaf (node {node}); a direction is made of tangents of "
                "leaves.",
                node=node,
            )
        if node in direction:
            raise make_error("INVALID_VALUE", f"tangents= has the leaf {node} twice.", node=node)
        direction[node] = _tangent(_beside(tape, tangent, "A tangent"), kind.aval)
    return list(direction.items())


def _no_mapping(given: Any) -> BackhaulError:
    return make_error(
        "INVALID_VALUE", f"A direction is {given!r:.100}; it is a mapping {{leaf: tangent}}."
    )


def leaf_tangent(tape: AnyTape[Any], given: Any, leaf: Aval) -> NodeOrArray:
    """A leaf's tangent, a node or an array: Python numbers and lists take the leaf's dtype.

    Raises:
        MissingNode: a tensor of another tape, or one that was released.
        TangentShapeMismatch: it never broadcasts.
        InvalidArgument: TANGENT_DTYPE_MISMATCH for an array or tensor of another dtype.
    """
    return _tangent(_beside(tape, given, "The tangent"), leaf)


def _tangent(found: _Beside, leaf: Aval) -> NodeOrArray:
    if found.aval.shape != leaf.shape:
        raise make_error(
            "TANGENT_SHAPE_MISMATCH",
            f"The tangent has shape {found.aval.shape}, its leaf {leaf.shape}: they must be equal, "
            "tangents never broadcast.",
            expected=leaf.shape,
            actual=found.aval.shape,
        )
    fitting = found.dtype_like(leaf)
    if fitting is None:
        raise make_error(
            "TANGENT_DTYPE_MISMATCH",
            f"The tangent has dtype {found.aval.dtype}, its leaf {leaf.dtype}; convert the tangent, for "
            f"example with .astype({str(leaf.dtype)!r}). Python numbers and lists take the leaf's dtype.",
            expected=leaf.dtype,
            actual=found.aval.dtype,
        )
    return fitting


def _no_direction(what: str) -> BackhaulError:
    return make_error(
        "HVP_WITHOUT_TANGENT",
        f"{what}. Make leaves with leaf_with_tangent(), or give tangents={{leaf: array}}.",
    )


class _Beside(NamedTuple):
    """A cotangent or tangent: a node of the tape or an array."""

    given: NodeOrArray
    aval: Aval
    weak: bool

    def dtype_like(self, like: Aval) -> NodeOrArray | None:
        """It in the dtype that is wanted; None when it has another and may not be converted."""
        if self.aval.dtype == like.dtype:
            return self.given
        if self.weak and (self.aval.dtype.kind != "c" or like.dtype.kind == "c"):
            return np.asarray(self.given, like.dtype)
        return None


def _beside(tape: AnyTape[Any], given: Any, what: str) -> _Beside:
    if isinstance(given, Handle):
        node, kind = find_node(tape, given, what)
        return _Beside(node, kind.aval, False)
    typed = is_typed(given)
    array = as_array(given, what=what)
    if typed:  # its memory is the caller's, who may change it while the call waits or is run
        array = tape._core.connection.frozen(array)
    return _Beside(array, aval(array.shape, array.dtype), not typed)
