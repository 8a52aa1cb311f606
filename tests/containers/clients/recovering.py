"""A client, run in the image or beside it: the server is killed and started anew, and the tape goes on."""

from __future__ import annotations

import sys

import numpy as np

import backhaul as bh

target = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051"
values = np.arange(1.0, 13.0).reshape(3, 4)

with bh.connect(target, timeout=60, recover=True) as connection, bh.Tape(connection) as tape:
    x = tape.leaf(values)
    loss = bh.sum(x * x * x)
    print(f"before {float(loss):g}", flush=True)
    input()  # the server has been killed
    gradient = tape.pullback(loss * 2.0, wrt=[x])[x]
    same = np.array_equal(gradient, 6.0 * values * values)
    print("recovered" if same else f"WRONG: {gradient.tolist()}", flush=True)
