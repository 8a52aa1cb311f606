"""What the end of a run says of the engine's tests."""

from __future__ import annotations

import pytest
from tests.server.engine.strict import USES, uses


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How often the strict namespace was supplied with what it lacks."""
    if USES:
        terminalreporter.section("supplied to array-api-strict, and how often")
        for line in uses():
            terminalreporter.line(line)
