"""A client, run in the image: a call that is running when the server is told to stop gets its answer."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import backhaul as bh

STEPS = 60

with (
    bh.connect("127.0.0.1:50051", timeout=60) as connection,
    bh.Tape(connection) as tape,
    ThreadPoolExecutor(1) as pool,
):
    x = tape.leaf(np.eye(400))
    total = tape.leaf(0.0)
    for _ in range(STEPS):
        total = total + bh.einsum("ij,jk,ki->", x, x, x)
    asked = pool.submit(lambda: float(total))
    end = time.monotonic() + 120
    while not any(each.busy for each in connection.sessions()) and time.monotonic() < end:
        time.sleep(0.01)
    print("running" if not asked.done() else "too fast", flush=True)
    input()  # the server has been told to stop
    still = "before" if asked.done() else "after"
    try:
        with bh.Tape(connection) as late:
            late.pullback(late.leaf(1.0) * 2.0)
        refused = "nothing"
    except bh.Unavailable as error:
        refused = error.reason
    print(f"answered {asked.result():g} {still}, a new session: {refused}", flush=True)
