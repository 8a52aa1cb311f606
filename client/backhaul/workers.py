"""``backhaul workers``: the workers of a cluster, for its operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from backhaul.monitoring import console, table
from backhaul_proto.units import size

if TYPE_CHECKING:
    from backhaul_server.cluster.facts import WorkerState


def show_workers(workers: Sequence[WorkerState], *, as_json: bool) -> None:
    """Print them: where they are and what they bear."""
    if as_json:
        print(json.dumps({"workers": [_facts(each) for each in workers]}), flush=True)
        return
    shown = table("worker", "node", "device", "sessions", "memory", "of", "busy", "")
    for each in workers:
        shown.add_row(
            each.facts.name,
            each.facts.node,
            each.facts.device,
            f"{each.report.sessions:,}",
            size(each.report.held),
            size(each.report.limit),
            f"{each.busy:.0%}",
            "draining" if each.report.draining else "",
        )
    console().print(shown if workers else "no workers")


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
