"""What a worker asks of the node that it runs on."""

from __future__ import annotations

from dataclasses import dataclass

from backhaul_proto.errors import make_error


@dataclass(frozen=True, slots=True)
class Demand:
    """What of a node a worker is given, as Ray counts it.

    Attributes:
        cpus: processor cores.
        gpus: GPUs; a fraction of one shares it with other workers.
        resources: of those that an operator gave nodes, by name.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    resources: tuple[tuple[str, float], ...] = ()

    def share_of(self, cores: int) -> float:
        """The part of a node with so many cores that is this worker's."""
        return min(1.0, self.cpus / cores) if self.cpus else 1.0


def read_resources(text: str) -> tuple[tuple[str, float], ...]:
    """Resources from text such as ``"a100=1,ssd=0.5"``.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    found = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, _, amount = each.partition("=")
        try:
            found.append((name, float(amount)))
        except ValueError:
            name = ""
        if not name or found[-1][1] <= 0:
            raise make_error(
                "INVALID_VALUE",
                f"worker_resources: {each!r} is no NAME=AMOUNT. Write them as a100=1,ssd=0.5, with the names "
                "that the nodes were given by `ray start --resources`.",
                actual=each,
            )
    return tuple(found)


def read_workers(text: str) -> int | None:
    """How many workers ``"ray:N"`` asks for; None for ``"ray"``."""
    _, _, count = text.partition(":")
    return int(count) if count else None
