"""Nodes that have an error in place of a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from backhaul.recorder import Recorder
from backhaul.sources import Sources
from backhaul_proto.errors import BackhaulError, MissingNode, from_wire
from backhaul_proto.messages import (
    Failure,
    HvpQuestion,
    NodeOrArray,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
    asked_node,
)


class Failures:
    """Which nodes of a tape failed, as the server told or as follows from it.

    Args:
        sources: where nodes were recorded; the errors say so.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._of: dict[int, Failure] = {}
        self._absent: set[int] = (
            set()
        )  # those that the server never took: it must not be asked for them

    def note(self, failures: Iterable[Failure], *, absent: bool = False) -> None:
        """Keep what an answer tells; ``absent``: of steps that the server refused."""
        for each in failures:
            located = self._located(each)
            nodes = (each.node, *each.dependants)
            self._of.update(dict.fromkeys(nodes, located))
            if absent:
                self._absent.update(nodes)

    def spread(self, recorder: Recorder) -> None:
        """Steps not sent yet that depend on failed nodes have failed too. They are not sent in vain."""
        if not self._of:
            return
        for node, cause in recorder.columns.dependants(self._of).items():
            self._of[node] = self._of[cause]
        if self._absent:
            for node, cause in recorder.columns.dependants(self._absent).items():
                self._of[node] = self._of[cause]
                self._absent.add(node)
            recorder.leave_out(self._absent)

    def drop(self, nodes: Iterable[int]) -> None:
        """Nobody can ask for these nodes any more."""
        if self._of:
            for node in nodes:
                self._of.pop(node, None)
                self._absent.discard(node)

    def reason(self, node: int) -> str | None:
        """The reason code of a node's error; None when it has none."""
        found = self._of.get(node)
        return None if found is None else found.reason

    def check(self, values: Iterable[int], question: Question | None) -> None:
        """Raise the error of the first node that is asked for and failed."""
        if not self._of:
            return
        asked = [*values] if question is None else [*values, asked_node(question)]
        if question is not None and self._absent:
            asked += [each for each in _beside(question) if each in self._absent]
        for node in asked:
            found = self._of.get(node)
            if found is not None:
                raise _error(found)

    def error(self, failure: Failure) -> BackhaulError:
        """The error of a failure that came in place of an answer. It is kept, as those of `note`."""
        if failure.node not in self._of:
            self.note([failure])
        return _error(self._of[failure.node])

    def locate(self, error: BackhaulError) -> None:
        """Tell an error that came from the server which line of the user's recorded its node."""
        node = error.details.get("node", "")
        told = "source" in error.details or isinstance(error, MissingNode)
        if node.isdecimal() and not told:
            source = self._sources.find(int(node))
            if source is not None:
                error.message = _with_source(error.message, source)
                error.details["source"] = source

    def _located(self, failure: Failure) -> Failure:
        node = failure.details.get("node", "")
        source = self._sources.find(int(node) if node.isdecimal() else failure.node)
        if source is None:
            return failure
        return replace(
            failure,
            message=_with_source(failure.message, source),
            details={**failure.details, "source": source},
        )


def _beside(question: Question) -> Iterator[int]:
    """The nodes that are named beside the loss or output."""
    given: list[NodeOrArray] = []
    if not isinstance(question, PushforwardQuestion):
        given += question.wrt or ()
    if isinstance(question, HvpQuestion):
        given += question.linear
    if isinstance(question, PullbackQuestion):
        given += question.cotangents
    else:
        given += [each for direction in question.directions for pair in direction for each in pair]
    return (each for each in given if isinstance(each, int))


def _with_source(message: str, source: str) -> str:
    return f"{message} (recorded at {source})"


def _error(failure: Failure) -> BackhaulError:
    return from_wire("INTERNAL", failure.reason, failure.message, failure.details)
