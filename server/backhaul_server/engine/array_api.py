"""A library of which nothing is known but that it is an array API, on one of its devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import numpy as np

from backhaul_proto.catalog.avals import SUPPORTED
from backhaul_server.engine.arrays import Array, Namespace, numpy_namespace
from backhaul_server.engine.composed import COMPOSED
from backhaul_server.engine.composed_matrices import COMPOSED_MATRICES
from backhaul_server.engine.composed_scans import COMPOSED_SCANS

_MAKING: Final = ("arange", "asarray", "eye", "full", "ones", "zeros")
"""The functions that make arrays of no others, and so must be told the device."""


def _nobody(_: str) -> None:
    """Nobody counts."""


class ArrayApiNamespace(Namespace):
    """An array API, with what rules need beside it.

    What can be put in its own terms is (`composed`). The rest, as far as it is named in ``on_host``, is
    computed by NumPy and SciPy, with a way there and back for every use. All else is missing.

    Args:
        module: the library.
        on_host: names of what NumPy's namespace has that are to be had from there.
        device: where the arrays lie; the library's default for None.
        note: called with the name of each function that is supplied, at every use.
    """

    def __init__(
        self,
        module: Any,
        on_host: Iterable[str] = (),
        device: Any = None,
        note: Callable[[str], None] = _nobody,
    ) -> None:
        self._device = device
        self._own = {dtype: getattr(module, dtype.name) for dtype in SUPPORTED}
        self._numpy = {own: dtype for dtype, own in self._own.items()}
        host = numpy_namespace()
        made_here = {name: self._placed(getattr(module, name)) for name in _MAKING}
        composed = {name: partial(function, module) for name, function in COMPOSED.items()}
        # These make arrays of no others: they see this namespace, which places them.
        own = {**COMPOSED_MATRICES, **COMPOSED_SCANS}
        composed |= {name: partial(function, self) for name, function in own.items()}
        far = {name: self._on_host(getattr(host, name)) for name in on_host}
        supplied = {name: _noted(note, name, each) for name, each in (composed | far).items()}
        super().__init__(module.__name__, module, supplied | made_here)

    def dtype(self, dtype: Any) -> Any:
        return self._own[dtype] if isinstance(dtype, np.dtype) else dtype

    def numpy_dtype(self, dtype: Any) -> np.dtype[Any]:
        return self._numpy[dtype]

    def is_complex(self, dtype: Any) -> bool:
        return self._numpy[dtype].kind == "c"

    def to_host(self, x: Array) -> np.ndarray[Any, Any]:
        return np.from_dlpack(x).copy()

    def from_host(self, x: np.ndarray[Any, Any]) -> Array:
        return self._module.asarray(x, device=self._device)

    def astype(self, x: Array, dtype: Any) -> Array:
        """The array in another dtype, the array API's or NumPy's."""
        return self._module.astype(x, self.dtype(dtype), copy=False)

    def add_at(self, target: Array, key: Any, updates: Array) -> Array:
        """The target with updates added at an index: in place, but for index arrays on the host."""
        if any(hasattr(each, "dtype") for each in key):
            return self._supplied["add_at"](target, key, updates)
        place = tuple(each for each in key if each is not None)
        total = target[key] + updates
        target[place] = self._module.reshape(total, target[place].shape)
        return target

    def _placed(self, function: Callable[..., Array]) -> Callable[..., Array]:
        """A function that makes arrays, on the device and in NumPy's dtypes or the library's own."""

        def make(*args: Any, dtype: Any = None, **keywords: Any) -> Array:
            return function(*args, dtype=self.dtype(dtype), device=self._device, **keywords)

        return make

    def _on_host(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """NumPy's function, on arrays that come and go. What it gives that is no array stays as it is."""

        def there(x: Any) -> Any:
            if isinstance(x, tuple):
                return _mapped(there, x)
            return self.to_host(x) if hasattr(x, "__dlpack__") else x

        def back(x: Any) -> Any:
            if isinstance(x, tuple):
                return _mapped(back, x)
            return self.from_host(np.asarray(x)) if isinstance(x, np.ndarray | np.generic) else x

        def run(*args: Any, **keywords: Any) -> Any:
            return back(function(*there(args), **{name: there(x) for name, x in keywords.items()}))

        return run


def _mapped(function: Callable[[Any], Any], items: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple of the same kind, named ones too."""
    mapped = map(function, items)
    make = getattr(items, "_make", None)
    made: tuple[Any, ...] = tuple(mapped) if make is None else make(mapped)
    return made


def _noted(
    note: Callable[[str], None], name: str, function: Callable[..., Any]
) -> Callable[..., Any]:
    def run(*args: Any, **keywords: Any) -> Any:
        note(name)
        return function(*args, **keywords)

    return run
