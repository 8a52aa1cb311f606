"""NumPy's functions called on tensors: those that are in the catalog are recorded, others refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from backhaul import (
    _ops,
    along_axes,
    functions,
    indexing,
    linalg,
    selection,
    shaping,
    statistics,
)
from backhaul_proto.catalog.ops import get
from backhaul_proto.errors import InvalidArgument

_DEFAULTS: Final[Mapping[str, tuple[Any, ...]]] = {
    "dtype": (None,),
    "out": (None,),
    "where": (True,),
    "order": ("C", "K", None),
    "casting": ("same_kind",),
    "subok": (True,),
    "kind": (None, "quicksort", "mergesort", "heapsort", "stable"),
    "stable": (None, True, False),
    "method": ("linear",),
    "overwrite_input": (False,),
    "returned": (False,),
}
"""Keywords that NumPy's functions take and ops do not, with the values that change nothing."""

_OTHERWISE: Final[Mapping[str, str]] = {
    "linalg.lstsq": "gives residuals, rank and singular values too; bh.linalg.lstsq gives x",
}
"""NumPy's functions whose results are more than those of the op of that name."""

_INSTEAD: Final[Mapping[tuple[str, str], str]] = {
    ("add", "reduce"): "np.sum",
    ("multiply", "reduce"): "np.prod",
    ("maximum", "reduce"): "np.max",
    ("minimum", "reduce"): "np.min",
    ("logical_and", "reduce"): "np.all",
    ("logical_or", "reduce"): "np.any",
    ("add", "accumulate"): "np.cumsum",
    ("multiply", "accumulate"): "np.cumprod",
}
"""Functions that do what a ufunc's method does."""

_INSTEAD_OF_METHOD: Final[Mapping[str, str]] = {
    "reduce": "np.sum or another reduction, or {0} step by step",
    "accumulate": "np.cumsum or np.cumprod, or {0} step by step",
    "reduceat": "np.sum or another reduction on each slice",
    "outer": "{0} with axes added: x[:, None], y[None, :]",
    "at": "{0} on tensor[index]; a tensor is not changed in place",
}
"""What is nearest to a method of any other ufunc."""

_DONE_ANYWAY: Final[Mapping[str, Mapping[str, Any]]] = {
    "linalg.svd": {"full_matrices": False, "compute_uv": True, "hermitian": False},
    "linalg.qr": {"mode": "reduced"},
}
"""Keywords of single functions of NumPy, with the value that says what the op does."""

_PLAIN: Final = (bool, str, type(None))

_MODULES: Final = (_ops, along_axes, indexing, selection, shaping, statistics)
"""Where functions are that stand in NumPy's main namespace."""

_KNOWN_HERE: Final = frozenset({"ndim", "shape", "size"})
"""Functions of what is known of a tensor without its value."""


def call_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What ``__array_ufunc__`` does.

    Raises:
        TypeError: no op does this.
    """
    name = f"np.{ufunc.__name__}"
    keywords = _given(keywords)
    if method != "__call__":
        hint = _INSTEAD.get((ufunc.__name__, method)) or _INSTEAD_OF_METHOD[method].format(name)
        raise TypeError(f"{name}.{method} does not record on a tape; call {hint}")
    _refuse_keywords(name, keywords, keywords)
    return _find(name, ufunc.__name__)(*inputs)


def call_function(function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What ``__array_function__`` does.

    Raises:
        TypeError: no op does this.
    """
    module = function.__module__.removeprefix("numpy").lstrip(".")
    path = f"{module}.{function.__name__}" if module else function.__name__
    name = f"np.{path}"
    keywords = _given(keywords)
    _refuse_keywords(name, keywords, ("out", "where", "dtype"))
    if path in _KNOWN_HERE and len(arguments) == 1 and not keywords:
        return getattr(arguments[0], path)
    if path in _OTHERWISE:
        raise TypeError(f"{name} {_OTHERWISE[path]}")
    if path == "linalg.svd" and len(arguments) == 1:
        _refuse_full_matrices(arguments[0], keywords)
    done = _DONE_ANYWAY.get(path, {})
    keywords = {
        key: value for key, value in keywords.items() if key not in done or value != done[key]
    }
    return _find(name, path)(*arguments, **keywords)


def _refuse_full_matrices(x: Any, keywords: Mapping[str, Any]) -> None:
    """The op is thin, and NumPy's svd is not by default: they differ unless x is square."""
    full = keywords.get("full_matrices", True) and keywords.get("compute_uv", True)
    if full and len(set(x.shape[-2:])) > 1:
        raise TypeError(
            "np.linalg.svd would give full matrices, which have no derivative here; give "
            "full_matrices=False, or call bh.linalg.svd"
        )


def _find(name: str, path: str) -> Callable[..., Any]:
    if path == "einsum":
        return functions.einsum
    head, _, tail = path.rpartition(".")
    # np.emath.sqrt, np.char.equal and the like share a name with an op, and are something else.
    modules = {"": _MODULES, "linalg": (linalg, *_MODULES)}.get(head, ())
    for module in modules:
        if tail in module.__all__:
            found: Callable[..., Any] = getattr(module, tail)
            return found
    try:
        get(path)
    except InvalidArgument as unknown:
        raise TypeError(
            f"{name} does not record on a tape, and would lose the gradient. {unknown.message} "
            "For plain arrays take tensor.numpy()."
        ) from None
    raise AssertionError(f"{path} is in the catalog, but has no function: run make ops")


def _given(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords without those that say what is done anyway."""
    return {
        name: value
        for name, value in keywords.items()
        if not (name in _DEFAULTS and type(value) in _PLAIN and value in _DEFAULTS[name])
    }


def _refuse_keywords(name: str, given: Mapping[str, Any], refused: Any) -> None:
    for keyword in given:
        if keyword in refused:
            raise TypeError(
                f"{name}: {keyword}= cannot be given with tensors; the result is a new tensor"
            )
