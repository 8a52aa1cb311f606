"""The ways from a client to a server. Every test of this folder that takes `connection` runs over each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Way:
    """A way to a server.

    Attributes:
        name: as the test's id shows it.
        by: where it is dialled: of the server's targets, or in this process.
        options: what `bh.connect` is given beside the target.
    """

    name: str
    by: Literal["tcp", "unix", "embedded"]
    options: Mapping[str, Any] = field(default_factory=dict)


WAYS = (
    Way("tcp", "tcp"),
    Way("unix", "unix"),
    Way("embedded", "embedded"),
)
