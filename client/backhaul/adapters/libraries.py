"""The libraries that adapters are for, which need not be installed."""

from __future__ import annotations

import importlib
from typing import Any

from backhaul_proto.errors import make_error


def library(name: str, extra: str) -> Any:
    """A module of a library that an adapter needs.

    Args:
        name: the module.
        extra: backhaul's extra that installs it.

    Raises:
        MissingLibrary: LIBRARY_MISSING when the library is not installed.
    """
    root = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != root:
            raise  # the library is there, and lacks something itself
        raise make_error(
            "LIBRARY_MISSING",
            f"backhaul.adapters.{extra} needs {root}, which is not installed here. Install it with "
            f"pip install 'backhaul[{extra}]'.",
            library=root,
            extra=extra,
        ) from error
