"""docs/errors.md has every reason that an error can have, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from backhaul_proto.errors import REASONS

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def test_every_reason_is_on_the_page_once() -> None:
    rows = re.findall(r"^\| ([A-Z_, ]+) \|", PAGE.read_text(), flags=re.MULTILINE)
    told = [reason for row in rows for reason in row.split(", ")]
    assert sorted(told) == sorted(REASONS)
