"""The clients in other languages have the version of the distribution."""

from __future__ import annotations

import json
import re
from pathlib import Path

from backhaul_proto._version import __version__

CLIENTS = Path(__file__).parents[2] / "client"


def test_node_has_the_distributions_version() -> None:
    for name in ("package.json", "package-lock.json"):
        assert json.loads((CLIENTS / "node" / name).read_text("utf-8"))["version"] == __version__


def test_cpp_has_the_distributions_version_and_asks_for_it() -> None:
    project = (CLIENTS / "cpp" / "CMakeLists.txt").read_text("utf-8")
    assert re.findall(r"^project\(backhaul VERSION (\S+) ", project, re.MULTILINE) == [__version__]
    readme = (CLIENTS / "cpp" / "README.md").read_text("utf-8")
    asked = re.findall(r"find_package\(backhaul (\S+) ", readme)
    assert asked == [__version__.rpartition(".")[0]]
