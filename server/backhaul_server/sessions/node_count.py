"""How many nodes a session has, those included that nobody can name but gradients still need."""

from __future__ import annotations

from collections.abc import Mapping

from backhaul_proto import bounds
from backhaul_proto.errors import make_error
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape_memory import reached


class NodeCount:
    """Counts at most: what was made is added up, and counted anew only at the limit, after a release.

    Args:
        nodes: the session's that can be named, by id.
    """

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self._nodes = nodes
        self._count = 0
        self._is_exact = True

    def made(self, count: int) -> None:
        """So many more are there."""
        self._count += count

    def released(self) -> None:
        """Some can be named no more, and may be gone."""
        self._is_exact = False

    def admit(self, more: int) -> None:
        """Check whether there is room for so many more.

        Raises:
            QuotaExceeded: there is none.
        """
        limit = bounds.MAX_NODES
        if self._count + more <= limit:
            return
        if not self._is_exact:
            self._count = len(reached(self._nodes.values()))
            self._is_exact = True
        if self._count + more > limit:
            raise make_error(
                "QUOTA_EXCEEDED",
                f"The session has {self._count:,} nodes, the request would make {more:,}, and there may be "
                f"{limit:,}. Nothing was run. Release tensors that are no longer needed, take gradients more "
                "often, or begin a new tape.",
                limit=limit,
                actual=self._count + more,
            )
