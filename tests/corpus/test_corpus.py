"""Every case of the corpus, embedded and over a socket."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.corpus.adapter import Adapter

import backhaul as bh

CORPUS = Path(os.environ.get("BACKHAUL_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
PRESENT = (CORPUS / "cases.jsonl").is_file()
pytestmark = pytest.mark.corpus


def _load() -> list[dict[str, Any]]:
    if not PRESENT:
        return []
    sys.path.insert(0, str(CORPUS / "tools"))
    fmt = importlib.import_module("fmt")
    cases: list[dict[str, Any]] = fmt.load(str(CORPUS))
    return cases


CASES = _load()


def replayed(case: dict[str, Any], connection: bh.Connection) -> tuple[str, str]:
    """Whether a case passes on new tapes of a connection, and why not."""
    replay = importlib.import_module("replay")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the replayer's own arithmetic on Inf and NaN
        status, why = replay.run_case(Adapter(connection), case)
    return status, why


def test_the_corpus_is_there() -> None:
    if not PRESENT:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no corpus at {CORPUS}: set BACKHAUL_CORPUS to its folder")
        pytest.skip(f"no corpus at {CORPUS}: set BACKHAUL_CORPUS to its folder")
    assert len(CASES) >= 1055


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_case(case: dict[str, Any], connection: bh.Connection) -> None:
    status, why = replayed(case, connection)
    assert status == "pass", why
