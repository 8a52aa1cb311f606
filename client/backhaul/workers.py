"""``backhaul workers``: the workers of a cluster, for its operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from backhaul.commands.common import console, print_json
from backhaul.monitoring import table
from backhaul_proto.units import size

if TYPE_CHECKING:
    from backhaul_server.cluster.facts import WorkerState

_COLUMNS: Final = (
    ("worker", 9),
    ("node", 7),
    ("device", 3),
    ("sessions", 5),
    ("memory", 6),
    ("of", 2),
    ("busy", 8),
    ("", 9),
)


def show_workers(workers: Sequence[WorkerState], *, as_json: bool) -> None:
    """Print them: where they are and what they bear."""
    if as_json:
        print_json({"workers": [_facts(each) for each in workers]})
        return
    rows = [
        [
            each.facts.name,
            each.facts.node,
            each.facts.device,
            f"{each.report.sessions:,}",
            size(each.report.held),
            size(each.report.limit),
            f"{each.busy:.0%}",
            "draining" if each.report.draining else "",
        ]
        for each in workers
    ]
    out = console()
    out.print(table(out.width, _COLUMNS, rows) if workers else "no workers")


def _facts(worker: WorkerState) -> dict[str, Any]:
    report = worker.report
    return {
        "worker": worker.facts.name,
        "node": worker.facts.node,
        "device": worker.facts.device,
        "pid": worker.facts.pid,
        "sessions": report.sessions,
        "held_bytes": report.held,
        "limit_bytes": report.limit,
        "busy": worker.busy,
        "steps": report.steps,
        "calls": report.calls,
        "draining": report.draining,
    }
