"""Pages whose examples are run elsewhere."""

from __future__ import annotations

# Section by section, by tests/adapters/test_docs.py: each needs a library of its own.
collect_ignore = ["adapters.md"]
