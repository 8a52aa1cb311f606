"""Ops of other packages, found by their entry points."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from backhaul_proto.catalog.ops import CATALOG
from backhaul_proto.errors import make_error
from backhaul_server.engine.rules import RULES, Rule

GROUP: Final = "backhaul.ops"

log = logging.getLogger("backhaul.server")


class Plugins:
    """The plugins of this process. Each is loaded once, however many servers there are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: set[tuple[str, str]] = set()

    def load(self, found: Iterable[EntryPoint] | None = None) -> None:
        """Import every plugin that is installed.

        Args:
            found: those instead of the installed ones.

        Raises:
            InvalidArgument: PLUGIN_FAILED: one cannot be imported, or what it registers does not fit. Of
                that one nothing stays.
        """
        with self._lock:
            for each in entry_points(group=GROUP) if found is None else found:
                key = (each.name, each.value)
                if key not in self._loaded:
                    _load(each)
                    self._loaded.add(key)


def _load(plugin: EntryPoint) -> None:
    entries, rules = set(CATALOG), set(RULES)
    try:
        plugin.load()
        _check(set(CATALOG) - entries, set(RULES) - rules)
    except Exception as error:
        for name in set(CATALOG) - entries:
            del CATALOG[name]
        for name in set(RULES) - rules:
            del RULES[name]
        raise make_error(
            "PLUGIN_FAILED",
            f"The plugin {plugin.name} ({plugin.value}) cannot be loaded: {type(error).__name__}: {error}. "
            "Mend or uninstall the package, or serve without plugins (--no-plugins).",
            plugin=plugin.name,
        ) from error
    added = sorted(set(CATALOG) - entries)
    log.info("plugin loaded", extra={"plugin": plugin.name, "ops": added})


def _check(entries: set[str], rules: set[str]) -> None:
    if entries != rules:
        lonely = ", ".join(sorted(entries ^ rules))
        raise ValueError(
            f"each op needs a catalog entry and a rule; one of the two lacks: {lonely}"
        )
    for name in entries:
        entry, rule = CATALOG[name], RULES[name]
        if "." not in name or name.startswith("linalg."):
            raise ValueError(
                f"op {name!r} must be named after its package, such as 'mypackage.{name}'"
            )
        has_vjp = rule.vjp is not None or type(rule).cotangents is not Rule.cotangents
        if entry.differentiable and not has_vjp:
            raise ValueError(
                f"op {name!r} has no vjp; give its rule one, or register it with differentiable=False"
            )


_plugins = Plugins()
load_plugins = _plugins.load
