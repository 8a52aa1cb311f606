"""How long steps take, measured where somebody asked for it: other requests never look at a clock.

On a device that computes by itself these are the times in which work was handed to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter

from backhaul_server.engine.engine import PreparedCall
from backhaul_server.engine.node import Node
from backhaul_server.engine.passes import timed_by

Run = Callable[[PreparedCall, Sequence[Node]], tuple[Node, ...]]


class Stopwatch:
    """Seconds of steps, and of their derivatives, by nodes.

    Args:
        clock: seconds.

    Attributes:
        steps: by the first result of each step, in the order in which they ran.
        ops: their ops.
        derivatives: by the node whose rule was applied.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self.steps: dict[Node, float] = {}
        self.ops: dict[Node, str] = {}
        self.derivatives: dict[Node, float] = {}
        self._running: Node | None = None
        self._began = 0.0

    def timed(self, run: Run) -> Run:
        """What runs a step, measured."""

        def timed(call: PreparedCall, operands: Sequence[Node]) -> tuple[Node, ...]:
            began = self._clock()
            nodes = run(call, operands)
            self.steps[nodes[0]] = self._clock() - began
            self.ops[nodes[0]] = call.name
            return nodes

        return timed

    @contextmanager
    def passes(self) -> Iterator[None]:
        """Within it the passes of this thread are measured."""
        with timed_by(self._next):
            try:
                yield
            finally:
                self._next(None)

    def _next(self, node: Node | None) -> None:
        """The work on this node begins, and that on the one before has ended; None: all of it has."""
        now = self._clock()
        if self._running is not None:
            before = self.derivatives.get(self._running, 0.0)
            self.derivatives[self._running] = before + now - self._began
        self._running, self._began = node, now
