"""A client beside the image: many sessions by one connection, each with its own numbers, held until told."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import numpy as np

import backhaul as bh

target, count = sys.argv[1], int(sys.argv[2])

with bh.connect(target, timeout=60) as connection, ExitStack() as held:
    tapes = [held.enter_context(bh.Tape(connection)) for _ in range(count)]
    leaves = [tape.leaf(np.full(3, float(at))) for at, tape in enumerate(tapes)]
    losses = [bh.sum(x * x * x) for x in leaves]
    right = [float(loss) == 3.0 * at**3 for at, loss in enumerate(losses)]
    # In a request of its own, when all of them have begun.
    for at, (tape, x, loss) in enumerate(zip(tapes, leaves, losses, strict=True)):
        right[at] &= tape.pullback(loss, wrt=[x])[x].tolist() == [3.0 * at**2] * 3
    print(f"{sum(right)} right", flush=True)
    input()
    print("closed", flush=True)
