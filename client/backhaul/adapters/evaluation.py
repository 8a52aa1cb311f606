"""A function of tensors evaluated at one point after another: what all adapters stand on.

Each question at a point is one round trip, and brings all that the question's answer has: a gradient
brings the value. A point stays on its tape until it is dropped, so further questions about it send what
is new alone. Second order needs no function of its own on the server: with the cotangent as a leaf beside
the arguments, L(x, ct) = Re Σ conj(ct)·y(x) has the gradients (Jᴴ·ct, y), and along (dx, dct) one
H·v of it is their tangents, (H_ct·dx + Jᴴ·dct, J·dx).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from backhaul._ops import conj, real, stack, sum, unstack
from backhaul.connection import Connection
from backhaul.gradients import Gradients
from backhaul.tape import Tape
from backhaul.tensor import TrackedTensor
from backhaul_proto.catalog.avals import INEXACT, Shape
from backhaul_proto.errors import BackhaulError, SessionError, make_error

Array = np.ndarray[Any, Any]
Answer = TypeVar("Answer")

IDLE_TAPES: Final = 8
"""Tapes that are kept for the next evaluation; what more threads needed at once is let go."""


class Tapes:
    """The tapes of a connection that evaluations go on, each used by one at a time.

    Args:
        connection: where to; left out: the default connection.
    """

    def __init__(self, connection: Connection | None) -> None:
        if connection is not None and not isinstance(connection, Connection):
            raise make_error(
                "INVALID_VALUE",
                f"connection= is {connection!r:.100}; give what bh.connect('host:port') returns.",
            )
        self._connection = connection
        self._idle: list[Tape] = []
        self._process = os.getpid()
        self._lock = threading.Lock()

    def new(self) -> Tape:
        """A tape that is used once, and not given back."""
        return Tape(self._connection)

    def take(self) -> tuple[Tape, bool]:
        """A tape that nobody uses, and whether it was used before."""
        with self._lock:
            if self._process != os.getpid():  # a fork has its parent's tapes, and may not use them
                self._idle, self._process = [], os.getpid()
            if self._idle:
                return self._idle.pop(), True
        return self.new(), False

    def give_back(self, tape: Tape) -> None:
        """Let others have a tape."""
        with self._lock:
            if len(self._idle) < IDLE_TAPES:
                self._idle.append(tape)


class Evaluations:
    """A function, and the tapes that it is evaluated on.

    Threads may share it: each evaluation has a tape for itself, and takes one that is free, so that
    one session serves evaluation after evaluation, and constants are sent once. A session that
    was lost meanwhile is replaced, and the evaluation done again: it has no effects.

    Args:
        function: of tensors, with one tensor (or number, or array) as its result.
        tapes: where it is evaluated: these, or those of a connection, or of the default one.
    """

    def __init__(
        self, function: Callable[..., Any], tapes: Tapes | Connection | None = None
    ) -> None:
        if not callable(function):
            raise make_error(
                "INVALID_VALUE",
                f"An adapter was given {function!r:.100}; it takes a function of tensors.",
            )
        self.function = function
        self.tapes = tapes if isinstance(tapes, Tapes) else Tapes(tapes)

    def at(self, arguments: Sequence[Any], wrt: Collection[int] | None = None) -> Point:
        """A point at which questions can be asked. Nothing is sent.

        Args:
            arguments: arrays, which nobody changes while the point lives.
            wrt: positions of the arguments that derivatives are taken for. The others are constants,
                which are sent once to a tape however often they come. Left out: all of float dtypes.

        Raises:
            InvalidArgument: DTYPE_NOT_SUPPORTED for one of ``wrt`` that has no gradient.
        """
        arrays = [np.asarray(each) for each in arguments]
        if wrt is None:
            wrt = [i for i, each in enumerate(arrays) if each.dtype in INEXACT]
        return Point(self, arrays, tuple(wrt))

    def batched(self, count: int) -> Evaluations:
        """The function at ``count`` points at once: arguments and result have an axis before theirs."""

        def at_each(*arguments: TrackedTensor) -> TrackedTensor:
            rows = zip(*(unstack(each) for each in arguments), strict=True)
            tape = arguments[0].tape
            results = [result_on(tape, self.function(*row)) for row in rows]
            assert len(results) == count
            return stack(results)

        return Evaluations(at_each, self.tapes)

    def result(self, arguments: Sequence[tuple[Shape, Any]]) -> tuple[Shape, np.dtype[Any]]:
        """Shape and dtype of the result, for arguments of these. Nothing is sent.

        The function is recorded once, at zeros: where it looks at values, it sees those.
        """
        tape = self.tapes.new()
        zeros = [np.zeros(shape, dtype) for shape, dtype in arguments]
        on_tape = [tape.leaf(x) if x.dtype in INEXACT else tape.constant(x) for x in zeros]
        output = result_on(tape, self.function(*on_tape))
        return output.shape, output.dtype


@dataclass(frozen=True, slots=True)
class Recorded:
    """The function on a tape, at one point.

    Attributes:
        tape: where.
        leaves: the arguments of ``wrt``.
        output: the result.
    """

    tape: Tape
    leaves: tuple[TrackedTensor, ...]
    output: TrackedTensor

    def gradients(self, found: Gradients[Array]) -> list[Array]:
        """Those of the leaves, in order."""
        return [found[each] for each in self.leaves]

    def direction(self, tangents: Sequence[Array | None]) -> dict[TrackedTensor, Array]:
        """A direction from the leaves' tangents, None for zero."""
        return {
            leaf: tangent
            for leaf, tangent in zip(self.leaves, tangents, strict=True)
            if tangent is not None
        }

    def zeros(self) -> list[Array]:
        """Gradients of what depends on no leaf."""
        return [np.zeros(each.shape, each.dtype) for each in self.leaves]


class Point:
    """A function's arguments, and what it gives there."""

    def __init__(
        self, evaluations: Evaluations, arguments: Sequence[Array], wrt: tuple[int, ...]
    ) -> None:
        self._evaluations = evaluations
        self._arguments = arguments
        self._wrt = wrt
        self._recorded: Recorded | None = None

    # Questions: one round trip each

    def value(self) -> Array:
        """The result, y."""
        return self._ask(lambda at: at.output.numpy())

    def value_and_gradients(self) -> tuple[Array, list[Array]]:
        """y, a real number, and its gradients.

        Raises:
            NonScalarLoss, InvalidArgument (COMPLEX_LOSS): y is no real number.
        """

        def ask(at: Recorded) -> tuple[Array, list[Array]]:
            if not at.output.requires_grad:
                return at.output.numpy(), at.zeros()
            found = at.tape.pullback(at.output, wrt=at.leaves)
            return found.value, at.gradients(found)

        return self._ask(ask)

    def value_and_gradients_if_real(self) -> tuple[Array, list[Array] | None]:
        """y, and its gradients where it is a real number: else a cotangent is needed."""

        def ask(at: Recorded) -> tuple[Array, list[Array] | None]:
            if at.output.shape or at.output.dtype.kind != "f" or not at.output.requires_grad:
                return at.output.numpy(), None
            found = at.tape.pullback(at.output, wrt=at.leaves)
            return found.value, at.gradients(found)

        return self._ask(ask)

    def pullback(self, cotangents: Sequence[Array]) -> tuple[Array, list[list[Array]]]:
        """y, and for each cotangent the gradients of Re Σ conj(ct)·y."""

        def ask(at: Recorded) -> tuple[Array, list[list[Array]]]:
            if not at.output.requires_grad:
                return at.output.numpy(), [at.zeros() for _ in cotangents]
            wanted = [_as(each, at.output) for each in cotangents]
            found = at.tape.pullback(at.output, cotangent=wanted, wrt=at.leaves)
            return found[0].value, [at.gradients(each) for each in found]

        return self._ask(ask)

    def pushforward(
        self, directions: Sequence[Sequence[Array | None]]
    ) -> tuple[Array, list[Array]]:
        """y, and J·v for each direction: tangents of the arguments of ``wrt``, None for zero."""

        def ask(at: Recorded) -> tuple[Array, list[Array]]:
            if not at.output.requires_grad:
                value = at.output.numpy()
                return value, [np.zeros_like(value) for _ in directions]
            along = [at.direction(each) for each in directions]
            found = at.tape.pushforward(at.output, tangents=along)
            return found[0].value, [each.tangent for each in found]

        return self._ask(ask)

    def hvp(
        self, directions: Sequence[Sequence[Array | None]]
    ) -> tuple[Array, list[Array], list[list[Array]]]:
        """y, a real number, its gradients, and H·v for each direction."""

        def ask(at: Recorded) -> tuple[Array, list[Array], list[list[Array]]]:
            if not at.output.requires_grad:
                return at.output.numpy(), at.zeros(), [at.zeros() for _ in directions]
            along = [at.direction(each) for each in directions]
            found = at.tape.hvp(at.output, tangents=along, wrt=at.leaves)
            first = found[0]
            return first.value, at.gradients(first.gradients), [at.gradients(x.hvp) for x in found]

        return self._ask(ask)

    def pullback_with_tangents(
        self,
        cotangent: Array,
        directions: Sequence[tuple[Sequence[Array | None], Array | None]],
    ) -> list[tuple[list[Array], Array]]:
        """For each direction (dx, dct): the tangents of the pullback, H_ct·dx + Jᴴ·dct, and of y, J·dx."""

        def ask(at: Recorded) -> list[tuple[list[Array], Array]]:
            output = at.output
            if not output.requires_grad:
                return [(at.zeros(), np.zeros(output.shape, output.dtype)) for _ in directions]
            ct = at.tape.leaf(_as(cotangent, output))
            joint = conj(ct) * output if output.dtype.kind == "c" else ct * output
            loss = sum(joint)
            along: list[dict[TrackedTensor, Array]] = []
            for tangents, of_ct in directions:
                direction = at.direction(tangents)
                if of_ct is not None:
                    direction[ct] = _as(of_ct, output)
                along.append(direction)
            loss = real(loss) if loss.dtype.kind == "c" else loss
            found = at.tape.hvp(loss, tangents=along, wrt=[*at.leaves, ct])
            return [(at.gradients(each.hvp), each.hvp[ct]) for each in found]

        return self._ask(ask)

    # Where it is asked

    def _ask(self, ask: Callable[[Recorded], Answer]) -> Answer:
        if self._recorded is not None:
            try:
                return ask(self._recorded)
            except SessionError:
                self._recorded = None
        while True:
            tape, used_before = self._evaluations.tapes.take()
            lost = False
            try:
                recorded = self._record(tape)
                answer = ask(recorded)
            except SessionError:
                lost = True
                if not used_before:
                    raise
            else:
                self._recorded = recorded
                return answer
            finally:
                if not lost:
                    self._evaluations.tapes.give_back(tape)

    def _record(self, tape: Tape) -> Recorded:
        arguments = [
            tape.leaf(each) if i in self._wrt else tape.constant(each)
            for i, each in enumerate(self._arguments)
        ]
        output = result_on(tape, self._evaluations.function(*arguments))
        return Recorded(tape, tuple(arguments[i] for i in self._wrt), output)


def third_order() -> BackhaulError:
    """The error of a third derivative, where a library can ask for one."""
    return make_error(
        "HVP_NOT_SUPPORTED",
        "A third derivative of a remote function was asked for, and a tape gives two. Take further ones of "
        "what is written in your library, or difference the second ones.",
    )


def result_on(tape: Tape, found: Any) -> TrackedTensor:
    """What the function returned, as a tensor."""
    if isinstance(found, TrackedTensor):
        return found
    if found is None or isinstance(found, dict | tuple | set):
        raise make_error(
            "INVALID_VALUE",
            f"The function returned {found!r:.100}; it is to return one tensor. Join several with "
            "bh.concatenate or bh.stack.",
        )
    return tape.constant(found)


def _as(given: Array, output: TrackedTensor) -> Array:
    """A cotangent in the dtype of the output."""
    return np.asarray(given, output.dtype)
