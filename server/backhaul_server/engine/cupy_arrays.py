"""CuPy's arrays on one GPU, and what rules need beside them.

Nothing here goes to the host but what is told to (`to_host`) and, where a rule asks whether, one number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter, methodcaller
from typing import Any, Final

import cupy
import numpy as np
from cupyx.scipy import special

from backhaul_server.engine import composed
from backhaul_server.engine.arrays import Array, Namespace
from backhaul_server.engine.composed_matrices import expm
from backhaul_server.engine.composed_scans import cumulative_logsumexp
from backhaul_server.engine.cupy_arithmetic import angle, floor_divide, power, remainder
from backhaul_server.engine.cupy_indexing import add_at, getitem
from backhaul_server.engine.cupy_lanes import CupyLane
from backhaul_server.engine.cupy_linalg import lu_factor, lu_solve, solve_triangular
from backhaul_server.engine.cupy_scans import linear_recurrence
from backhaul_server.engine.lanes import Lane

STREAMS: Final = 16
"""Streams of a device: sessions share them when there are more. Each keeps freed memory for its own use."""


class CupyNamespace(Namespace):
    """CuPy on one GPU. Its functions are to be called within a lane (`lane`), on whose stream they run.

    Args:
        number: of the GPU.
        limit: bytes that sessions may use there.
    """

    def __init__(self, number: int, limit: int) -> None:
        self._make_lane = partial(CupyLane, number, limit)
        self._lanes: list[CupyLane] = []
        self._taken = 0
        self._lock = threading.Lock()
        super().__init__("cupy", cupy, SUPPLIED)

    def lane(self) -> Lane:
        """One of the GPU's streams; when there are more sessions than streams they share them in turn."""
        with self._lock:
            number = self._taken % STREAMS
            self._taken += 1
            if number == len(self._lanes):
                self._lanes.append(self._make_lane())
            return self._lanes[number]

    def to_host(self, x: Array) -> np.ndarray[Any, Any]:
        """The array as NumPy's in C order, by the pinned memory of the lane that this runs in."""
        return CupyLane.current().to_host(x)

    def from_host(self, x: np.ndarray[Any, Any]) -> Array:
        """An array on the GPU with the numbers of one of NumPy's, by the same way."""
        return CupyLane.current().from_host(x)


def _argsort(x: Array, *, axis: int, stable: bool = True) -> Array:
    return cupy.argsort(x, axis=axis)  # it is stable whatever is asked


def _astype(x: Array, dtype: np.dtype) -> Array:
    return x.astype(dtype, copy=False)


def _conj(x: Array) -> Array:
    return cupy.conj(x) if x.dtype.kind == "c" else x  # cupy copies real arrays


def _real(x: Array) -> Array:
    return x.real if x.dtype.kind == "c" else x


def _imag(x: Array) -> Array:
    return x.imag if x.dtype.kind == "c" else cupy.zeros_like(x)


def _permute_dims(x: Array, axes: tuple[int, ...]) -> Array:
    return x.transpose(axes)


def _polygamma(x: Array, *, order: int) -> Array:
    at = x.astype(np.float64)
    return special.polygamma(cupy.asarray(float(order)), at).astype(x.dtype, copy=False)


def _reshape(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)  # cupy.reshape has another name for it


def _sigmoid(x: Array) -> Array:
    return special.expit(x) if x.dtype.kind != "c" else composed.sigmoid(cupy, x)


def _unstack(x: Array, axis: int = 0) -> tuple[Array, ...]:
    return tuple(cupy.moveaxis(x, axis, 0))


def _vecdot(a: Array, b: Array, axis: int = -1) -> Array:
    """As stacked matrix products, so that the products of all elements stand nowhere."""
    rows = cupy.moveaxis(_conj(a), axis, -1)[..., None, :]
    columns = cupy.moveaxis(b, axis, -1)[..., :, None]
    return cupy.matmul(rows, columns)[..., 0, 0]


SUPPLIED: Final[Mapping[str, Callable[..., Any]]] = {
    "add_at": add_at,
    "angle": angle,
    "argsort": _argsort,
    "astype": _astype,
    "compact": cupy.ascontiguousarray,
    "conj": _conj,
    "copy": methodcaller("copy"),
    "cumulative_logsumexp": partial(cumulative_logsumexp, cupy),
    "digamma": special.digamma,
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "expm": partial(expm, cupy),
    "floor_divide": floor_divide,
    "getitem": getitem,
    "imag": _imag,
    "lgamma": special.gammaln,
    "linear_recurrence": linear_recurrence,
    "log_sigmoid": special.log_expit,
    "logical_and": partial(composed.logical_and, cupy),
    "logical_not": partial(composed.logical_not, cupy),
    "logical_or": partial(composed.logical_or, cupy),
    "logical_xor": partial(composed.logical_xor, cupy),
    "lu_factor": lu_factor,
    "lu_solve": lu_solve,
    "matrix_transpose": attrgetter("mT"),
    "permute_dims": _permute_dims,
    "polygamma": _polygamma,
    "pow": power,
    "put_in_order": partial(composed.put_in_order, cupy),
    "real": _real,
    "remainder": remainder,
    "reshape": _reshape,
    "sigmoid": _sigmoid,
    "solve_triangular": solve_triangular,
    "unstack": _unstack,
    "vecdot": _vecdot,
    # CuPy's own gives 0 for a NaN beside a 0.
    "xlog1py": partial(composed.xlog1py, cupy),
    "xlogy": special.xlogy,
}
"""What rules need and CuPy has not under this name, or otherwise than NumPy. The rest is CuPy's own."""
