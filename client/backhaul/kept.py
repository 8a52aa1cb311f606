"""Answers that stay on the server: their ids before they are asked for, their types afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from backhaul.recorder import Recorder
from backhaul.signatures import NodeType, node_type
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Answer, HvpQuestion, KeepingQuestion, Question


class Kept:
    """The nodes that one question makes on the server.

    Their ids are reserved before it is sent, as many as there can be, so that no later node has one of
    them whatever becomes of it. Those that no tensor was made for are released at its end, as a context
    manager: after an interrupt, say, when nobody knows whether the server made them.

    Args:
        dropped: the tape's ids to be released.

    Attributes:
        end: the first id after those that are reserved.
        types: of the nodes that were made, by id.
    """

    __slots__ = ("_dropped", "_ids", "_of", "end", "types")

    def __init__(self, dropped: deque[int]) -> None:
        self._dropped = dropped
        self._ids: Sequence[int] = ()
        self._of: dict[int, NodeType] = {}
        self.end = 0
        self.types: dict[int, NodeType] = {}

    def reserve(self, recorder: Recorder, question: KeepingQuestion) -> Question:
        """Reserve the ids. Returns the question with them. The recorder's lock is held.

        Raises:
            MissingNode: a node of ``wrt`` was released while the question waited for its turn.
        """
        types = recorder.types
        if question.wrt is None:
            self._of = {node: each for node, each in types.items() if each.is_leaf}
        else:
            released = next((node for node in question.wrt if node not in types), None)
            if released is not None:
                raise make_error(
                    "MISSING_NODE",
                    f"wrt: node {released} was released before the gradients were asked for; hold its "
                    "tensor until then.",
                    node=released,
                )
            self._of = {node: types[node] for node in question.wrt}
        each_set = len(self._of) * (2 if isinstance(question, HvpQuestion) else 1)
        count = question.set_count * each_set
        first = recorder.reserve(count)
        self.end = first + count
        self._ids = range(first, self.end)
        return replace(question, keep_from=first)

    def note(self, recorder: Recorder, answer: Answer) -> None:
        """Take in which of them there are. The recorder's lock is held."""
        recorder.mend()  # what an interrupted record left is to be the last there
        for each in answer.sets:
            for ids in (each.kept, each.kept_hvps):
                for of, node in zip(each.nodes, ids, strict=bool(ids)):
                    self.types[node] = node_type(self._of[of].aval)
        recorder.types.update(self.types)
        self._ids = list(self.types)

    def handed_over(self) -> None:
        """There is a tensor for each."""
        self._ids = ()

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        self._dropped.extend(self._ids)
        self._ids = ()

    def __del__(self) -> None:  # after an interrupt at its end
        try:
            self._dropped.extend(self._ids)
        except AttributeError:
            return  # it was only half made
