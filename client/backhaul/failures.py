"""Nodes that have an error in place of a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from backhaul.columns import Columns
from backhaul.sources import Sources
from backhaul_proto.errors import AutodiffError, BackhaulError, MissingNode, from_wire
from backhaul_proto.messages import Failure


class Failures:
    """Which nodes of a tape failed, as the server told or as follows from it.

    Args:
        sources: where nodes were recorded; the errors say so.
    """

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._of: dict[int, Failure] = {}

    def note(self, failures: Iterable[Failure]) -> None:
        """Keep what an answer tells."""
        for each in failures:
            located = self._located(each)
            self._of[each.node] = located
            self._of.update(dict.fromkeys(each.dependants, located))

    def spread(self, columns: Columns) -> None:
        """Steps not sent yet that depend on failed nodes have failed too."""
        if self._of:
            for node, cause in columns.dependants(self._of).items():
                self._of[node] = self._of[cause]

    def drop(self, nodes: Iterable[int]) -> None:
        """Nobody can ask for these nodes any more."""
        if self._of:
            for node in nodes:
                self._of.pop(node, None)

    def reason(self, node: int) -> str | None:
        """The reason code of a node's error; None when it has none."""
        found = self._of.get(node)
        return None if found is None else found.reason

    def check(self, nodes: Iterable[int]) -> None:
        """Raise the error of the first of these nodes that failed."""
        if self._of:
            for node in nodes:
                found = self._of.get(node)
                if found is not None:
                    raise _error(found)

    def error(self, failure: Failure) -> BackhaulError:
        """The error of a failure that came in place of an answer. It is kept, as those of `note`."""
        if failure.node not in self._of:
            self.note([failure])
        return _error(self._of[failure.node])

    def locate(self, error: AutodiffError) -> None:
        """Tell an error that came from the server which line of the user's recorded its node."""
        node = error.details.get("node", "")
        if node.isdecimal() and not isinstance(error, MissingNode):
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


def _with_source(message: str, source: str) -> str:
    return f"{message} (recorded at {source})"


def _error(failure: Failure) -> BackhaulError:
    return from_wire("INTERNAL", failure.reason, failure.message, failure.details)
