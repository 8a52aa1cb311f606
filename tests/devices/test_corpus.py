"""The corpus on a server whose default is another device than the host, over a socket.

Every fourth case; all of them with the slow tests, and on a GPU with those of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.corpus.test_corpus import CASES, replayed
from tests.devices.second import NAME, two_devices

import backhaul as bh

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def second() -> Iterator[bh.Connection]:
    """To a server whose tapes compute on array-api-strict's second device."""
    with two_devices(device=NAME) as two, bh.connect(two.target, timeout=60) as connection:
        yield connection
        assert two.xp.sent, "nothing went to the device"


def _cases() -> list[Any]:
    return [
        pytest.param(case, id=case["id"], marks=[pytest.mark.slow] if number % 4 else [])
        for number, case in enumerate(CASES)
    ]


@pytest.mark.parametrize("case", _cases())
def test_case(case: dict[str, Any], second: bh.Connection) -> None:
    status, why = replayed(case, second)
    assert status == "pass", why
