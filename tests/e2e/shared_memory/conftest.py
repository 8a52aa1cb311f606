"""A folder with a short path, and a server there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.shared_memory.support import (
    listening,
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path."""
    with tempfile.TemporaryDirectory(prefix="bh") as made:
        yield Path(made)


@pytest.fixture
def target(folder: Path) -> Iterator[str]:
    with listening(folder / "s") as made:
        yield made
