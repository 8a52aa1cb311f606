"""The array namespace in use: the array API's functions, and by name what a library lacks.

Rules know arrays only through the namespace ``xp`` that they are handed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from operator import attrgetter, getitem, methodcaller
from typing import Any

import numpy as np
from scipy import special

from backhaul_server.engine import composed, lapack
from backhaul_server.engine.add_at import add_at
from backhaul_server.engine.copies import compact
from backhaul_server.engine.lanes import Lane
from backhaul_server.engine.recurrences import linear_recurrence

Array = Any


LinAlgError = np.linalg.LinAlgError
"""What linear algebra fails with on its data, in any of these libraries."""


class Namespace:
    """The functions of an array library, with some supplied or replaced by name.

    Here its dtypes are NumPy's, as those of CuPy are too, and its arrays in the host's memory.

    Attributes:
        name: of the library.
    """

    def __init__(self, name: str, module: Any, supplied: Mapping[str, Callable[..., Any]]) -> None:
        self.name = name
        self._of_thread = _OfThread()
        self._module = module
        self._supplied = supplied

    @property
    def checkpoint(self) -> Callable[[], None]:
        """Called between the array operations of long work; it raises to stop it. Each thread has its own."""
        return self._of_thread.checkpoint

    @checkpoint.setter
    def checkpoint(self, checkpoint: Callable[[], None]) -> None:
        self._of_thread.checkpoint = checkpoint

    def __getattr__(self, name: str) -> Any:
        found = self._supplied.get(name)
        if found is None:
            found = getattr(self._module, name)
        setattr(self, name, found)  # found here once, as an ordinary attribute from then on
        return found

    def dtype(self, dtype: np.dtype) -> Any:
        """The library's own dtype for one of NumPy's, which avals and attributes have."""
        return dtype

    def numpy_dtype(self, dtype: Any) -> np.dtype:
        """NumPy's dtype for one of the library's own."""
        found: np.dtype = dtype
        return found

    def is_complex(self, dtype: Any) -> bool:
        """Whether the library's dtype is complex."""
        found: bool = dtype.kind == "c"
        return found

    def lane(self) -> Lane | None:
        """What the arrays of a session are bound to from now on; None where they are bound to nothing."""
        return None

    def to_host(self, x: Array) -> np.ndarray[Any, Any]:
        """The array as NumPy's in C order; it may be the same memory."""
        return np.asarray(x, order="C")

    def from_host(self, x: np.ndarray[Any, Any]) -> Array:
        """The library's array with the numbers of one of NumPy's; it may be the same memory."""
        return x


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.checkpoint: Callable[[], None] = _nothing


def _nothing() -> None:
    """Nobody wants the work stopped."""


def numpy_namespace() -> Namespace:
    """NumPy, with what rules need and NumPy has not, or not in every supported version."""
    return Namespace(
        "numpy",
        np,
        {
            "dot": np.ndarray.dot,  # a third of np.matmul's time on small matrices
            "compact": compact,
            "copy": methodcaller("copy"),
            "getitem": getitem,
            "permute_dims": _permute_dims,
            "conj": _conj,
            "real": _real,
            "imag": _imag,
            "astype": _astype,
            "matrix_transpose": attrgetter("mT"),
            "unstack": _unstack,
            "reshape": _reshape,
            "angle": _angle,
            "digamma": special.psi,
            "erf": special.erf,
            "erfc": special.erfc,
            "erfinv": special.erfinv,
            "lgamma": special.gammaln,
            "log_sigmoid": special.log_expit,
            "polygamma": _polygamma,
            "sigmoid": _sigmoid,
            "xlog1py": special.xlog1py,
            "xlogy": special.xlogy,
            "lu_factor": lapack.lu_factor,
            "lu_solve": lapack.lu_solve,
            "solve_triangular": lapack.solve_triangular,
            "expm": lapack.expm,
            "add_at": add_at,
            "cumulative_logsumexp": _cumulative_logsumexp,
            "cumulative_prod": np.cumprod,
            "cumulative_sum": np.cumsum,
            "linear_recurrence": linear_recurrence,
            "put_in_order": _put_in_order,
        },
    )


def _conj(x: Array) -> Array:
    return np.conj(x) if x.dtype.kind == "c" else x  # numpy copies real arrays


def _real(x: Array) -> Array:
    return x.real if x.dtype.kind == "c" else x


def _imag(x: Array) -> Array:
    return x.imag if x.dtype.kind == "c" else np.zeros_like(x)


def _angle(x: Array) -> Array:
    return np.arctan2(
        x.imag, x.real
    )  # np.angle of float32 is float32 as well, but takes twice as long


def _sigmoid(x: Array) -> Array:
    if x.dtype.kind != "c":
        return special.expit(x)
    return composed.sigmoid(np, x)


def _polygamma(x: Array, *, order: int) -> Array:
    return special.polygamma(order, x).astype(x.dtype, copy=False)  # computed in float64


def _astype(x: Array, dtype: np.dtype) -> Array:
    return x.astype(dtype, copy=False)


def _reshape(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)  # np.reshape has had the keyword shape since 2.1 only


def _permute_dims(x: Array, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)  # np.permute_dims takes three times as long


def _unstack(x: Array, axis: int = 0) -> tuple[Array, ...]:
    return tuple(np.moveaxis(x, axis, 0))


def _cumulative_logsumexp(x: Array, axis: int) -> Array:
    return np.logaddexp.accumulate(x, axis=axis)


def _put_in_order(x: Array, order: Array, axis: int) -> Array:
    y = np.empty_like(x)
    np.put_along_axis(y, order, x, axis)
    return y
