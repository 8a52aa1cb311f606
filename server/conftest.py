"""Which modules can be read here for their docstrings' examples: some need libraries that are extras."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("cupy") else ["backhaul_server/engine/cupy_*.py"]
if find_spec("ray") is None:
    collect_ignore_glob.append("backhaul_server/cluster/ray_*.py")
