"""A network that needs a gigabyte, on a tape of 256 KiB, beside others that compute on."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import backhaul as bh
from backhaul.demo import load

CORPUS = Path(os.environ.get("BACKHAUL_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))


@pytest.mark.corpus
def test_it_is_refused_with_numbers_and_the_others_compute_on(target: str) -> None:
    path = CORPUS.parent / "instances" / "gm_queen5_5_3.wcsp.json"
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
        pytest.skip(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
    network = load(path)
    ended = threading.Event()
    sums: list[float] = []

    def compute() -> None:
        with bh.connect(target, timeout=60) as connection, bh.Tape(connection) as tape:
            x = tape.leaf(np.eye(2))
            while not ended.is_set():
                sums.append(float(bh.sum(x @ x)))

    other = threading.Thread(target=compute)
    other.start()
    refused: list[float] = []
    with bh.connect(target, timeout=60) as connection:
        tape = bh.Tape(connection, memory_limit=1 << 18)
        leaves = [tape.leaf(x) for x in network.operands(np.random.default_rng(3))]
        result = bh.einsum(network.subscripts, *leaves, path=network.path)
        for _ in range(3):
            started = time.perf_counter()
            with pytest.raises(bh.MemoryLimitExceeded) as caught:
                tape.pullback(result)
            refused.append(time.perf_counter() - started)
            details = caught.value.details
            assert details["op"] == "einsum"
            assert int(details["limit"]) == 1 << 18
            assert int(details["step_bytes"]) >= 8 * 3**17
        tape.close()
    ended.set()
    other.join(60)
    assert sums
    assert set(sums) == {2.0}
    assert min(refused) < refused[0] / 5  # it is planned once
