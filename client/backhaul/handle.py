"""The part of a tensor that recording needs: whose tape, which node, of what type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backhaul.signatures import NodeType

if TYPE_CHECKING:
    from backhaul.any_tape import AnyTape


class Handle:
    """A handle on a node of a tape. `TrackedTensor` is what users see of it.

    The node is released when the last handle on it is dropped. That is told to the tape's recorder by
    an append to a deque and nothing else: `__del__` may run at any time, on any thread.
    """

    __slots__ = ("__weakref__", "_id", "_node_type", "_tape", "_value")

    def __init__(self, tape: AnyTape[Any], node: int, type_: NodeType) -> None:
        self._tape = tape
        self._id = node  # negative once it was released by name
        self._node_type = type_
        self._value: Any = None  # the array, where it is known and small

    def __del__(self) -> None:
        try:
            self._tape._dropped.append(self._id)
        except AttributeError:
            return  # it was only half made
