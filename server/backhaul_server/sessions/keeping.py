"""Gradients that stay on the server, as nodes of their session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from backhaul_proto.errors import make_error
from backhaul_proto.messages import GradientSet, KeepingQuestion
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape
from backhaul_server.engine.tape_memory import nbytes_of, owner_of

MAX_NODE_ID = 2**63 - 1


def check_keep_from(question: KeepingQuestion, free: int, leaves: int) -> None:
    """Check the ids of what is to be kept.

    Args:
        question: whose answers are kept.
        free: the first id that may be used.
        leaves: the most leaves that can be answered.

    Raises:
        InvalidArgument: NODE_ID_TAKEN.
    """
    sets = question.set_count * 2  # gradients and H·v
    count = sets * (leaves if question.wrt is None else len(question.wrt))
    if not free <= question.keep_from <= MAX_NODE_ID - count:
        raise make_error(
            "NODE_ID_TAKEN",
            f"Kept gradients must have ids above {free - 1}, which is the highest of the session and of the "
            f"block; keep_from is {question.keep_from}.",
            expected=free,
            actual=question.keep_from,
        )


class Keep:
    """Takes the gradients of one question.

    Args:
        tape: where the nodes are made.
        first: the id of the first; further ones count on.
        is_named: whether the client may still name the node: no other gradient is of use.
        given: arrays of the request, which are not the server's to keep.
        before: what was answered when the same request came before; None: it is new.

    Attributes:
        nodes: what was kept, by id.
    """

    def __init__(
        self,
        tape: Tape,
        first: int,
        is_named: Callable[[Node], bool],
        given: Iterable[np.ndarray[Any, Any]],
        before: Sequence[GradientSet] | None = None,
    ) -> None:
        self.before = before
        self.nodes: dict[int, Node] = {}
        self._tape = tape
        self._next = first
        self._is_named = is_named
        self._given = {id(owner_of(each)) for each in given}

    def set(self, gradients: dict[Node, Any], products: dict[Node, Any]) -> GradientSet:
        """Keep a set of gradients, and of H·v where there is one."""
        named = [node for node in gradients if self._is_named(node)]
        return GradientSet(
            [node.id for node in named],
            kept=[self._keep(gradients[node]) for node in named],
            kept_hvps=[self._keep(products[node]) for node in named if products],
        )

    def _keep(self, array: Any) -> int:
        owner = owner_of(array)
        if nbytes_of(owner) > nbytes_of(array) or id(owner) in self._given:
            # A view would keep all of what it looks into; a request's tensors are the caller's.
            xp = self._tape.engine.xp
            array = xp.asarray(array, copy=True)
        node = self._tape.constant(array)
        node.id = self._next
        self.nodes[node.id] = node
        self._next += 1
        return node.id
