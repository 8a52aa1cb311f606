"""One application of a function on a tape: called, or recorded again as a program."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from backhaul.constants import content_of, frozen
from backhaul.functional.arguments import Arguments, others
from backhaul.functional.goals import Goal, Results
from backhaul.functional.kept_programs import Programs
from backhaul.functional.programs import program_of
from backhaul.functional.tapes import Watched
from backhaul.handle import Handle
from backhaul.signatures import NodeType, node_type
from backhaul.tensor import TrackedTensor
from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.errors import InvalidArgument, make_error
from backhaul_proto.messages import CONSTANT, Call

Array = np.ndarray[Any, Any]

SENT_AGAIN: Final = 4096
"""Bytes of data up to which they are sent with each call, rather than looked for among the constants."""

_CONSTANT: Final = Call(CONSTANT)


class Applied(NamedTuple):
    """A function that was recorded.

    Attributes:
        leaves: the differentiated leaves.
        results: what it gave.
    """

    leaves: list[TrackedTensor]
    results: Results

    def spent(self) -> list[int]:
        """The nodes of these, for a question after which nobody asks for them; constants are asked for again.

        Else the server would hold them, and all that they were computed from, until the call after the next.
        """
        results = self.results
        named = [*self.leaves, results.main, *results.outputs, *results.aux, *results.through]
        tensors = [each for each in named if isinstance(each, Handle)]
        if not tensors:
            return []
        constants = tensors[0]._tape._recorder.constants
        return [each._id for each in tensors if each._id not in constants]


def applied(
    tape: Watched[Any], goal: Goal, programs: Programs | None, arguments: Arguments
) -> Applied:
    """Record a function on a tape.

    Args:
        tape: where.
        goal: the function and what its result has to be.
        programs: what is kept of the function; None: nothing is.
        arguments: what it is called with.

    Raises:
        BackhaulError: what the function raises, or its result is not what it has to be.
    """
    start = tape._recorder.next_id
    leaves = _leaves(tape, goal, arguments)
    args, kwargs = arguments.filled(leaves), arguments.kwargs
    if programs is None:
        return Applied(leaves, _called(tape, goal, arguments, args))
    found = others(arguments, goal.name, programs.static_argnums, programs.static_argnames)
    arrays = [as_array(each, what="an argument") for each in found.data]
    key = (
        goal,
        tape._core.connection.target,
        arguments.chosen,
        arguments.tree,
        tuple([each._node_type.aval for each in leaves]),
        found.key,
        tuple([aval(each.shape, each.dtype) for each in arrays]),
    )
    program, is_known = programs.find(_hashable(key, goal.name))
    passing = [_is_passing(each, arguments) for each in found.data]
    if program is not None:
        data = [_data(tape, *each) for each in zip(arrays, passing, strict=True)]
        return Applied(leaves, program.record(tape, [*leaves, *data]))
    programs.traced()
    if is_known:  # there can be none
        return Applied(leaves, _called(tape, goal, arguments, args))
    contents = [content_of(each) for each in arrays]
    data = [_own(tape, each.array, each.type) for each in contents]
    tape.watch(contents=True)
    results = goal.record(*found.filled(args, kwargs, data))
    programs.keep(key, program_of(tape, start, [*leaves, *data], results))
    tape.watch(contents=False)
    recorder = tape._recorder
    with recorder.lock:  # the next call finds them, where they come again
        for content, each, passes in zip(contents, data, passing, strict=True):
            if not passes:
                nbytes = content.array.nbytes
                tape._dropped += recorder.constants.adopt(content.key, each._id, nbytes)
    return Applied(leaves, results)


def _called(tape: Watched[Any], goal: Goal, arguments: Arguments, args: list[Any]) -> Results:
    """What the function gives for the arguments as they are."""
    kwargs = arguments.kwargs
    if not goal.on_constants:
        return goal.record(args, kwargs)
    found = others(arguments, goal.name, keyed=False)
    constants = [
        _data(tape, as_array(each, what="an argument"), _is_passing(each, arguments))
        for each in found.data
    ]
    return goal.record(*found.filled(args, kwargs, constants))


def _hashable(key: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    try:
        hash(key)
    except TypeError as error:
        raise make_error(
            "INVALID_VALUE",
            f"{name}: a static argument, or a static field of a dataclass, holds what cannot be hashed "
            f"({error}). Give something immutable, or leave bh.jit out.",
        ) from None
    return key


def _leaves(tape: Watched[Any], goal: Goal, arguments: Arguments) -> list[TrackedTensor]:
    leaves: list[TrackedTensor] = []
    for each in arguments.leaves:
        try:
            leaves.append(tape.leaf(each))
        except InvalidArgument as error:
            raise make_error(
                error.reason,
                f"{goal.name}: {arguments.paths[len(leaves)]}: {error.message}",
                **error.details,
            ) from None
    return leaves


def _is_passing(given: Any, arguments: Arguments) -> bool:
    """Whether data are to be sent with each call.

    Which constants are there decides what the block is: data of which some come again and some do not, as
    those of walkers that were rejected, would make another one of each call.
    """
    return given.nbytes <= SENT_AGAIN or id(given) in arguments.passing


def _data(tape: Watched[Any], array: Array, passes: bool) -> TrackedTensor:
    """Data that are not differentiated, on the tape."""
    if passes:
        return _own(tape, frozen(array), node_type(aval(array.shape, array.dtype)))
    tensor: TrackedTensor = tape._constant(content_of(array))
    return tensor


def _own(tape: Watched[Any], array: Array, type_: NodeType) -> TrackedTensor:
    """A constant that no other one is, were it equal: a program has to tell them apart."""
    node = tape._core.source(_CONSTANT, [array], type_)
    tensor: TrackedTensor = tape._kind(tape, node, type_)
    return tensor
