"""NumPy's methods of reductions and of what goes along axes, as ops recorded on the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from backhaul import _ops, along_axes, statistics
from backhaul.handle import Handle

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

Axes = int | Sequence[int] | None


class Reductions(Handle):
    """What a tensor does over and along its axes as an array does it."""

    __slots__ = ()

    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> TrackedTensor:
        """The mean over axes; see `backhaul.mean`."""
        return _ops.mean(self, axis, keepdims=keepdims)

    def prod(self, axis: Axes = None, *, keepdims: bool = False) -> TrackedTensor:
        """The product over axes; see `backhaul.prod`."""
        return _ops.prod(self, axis, keepdims=keepdims)

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> TrackedTensor:
        """The greatest element over axes; see `backhaul.max`."""
        return _ops.max(self, axis, keepdims=keepdims)

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> TrackedTensor:
        """The least element over axes; see `backhaul.min`."""
        return _ops.min(self, axis, keepdims=keepdims)

    def var(
        self,
        axis: Axes = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
    ) -> TrackedTensor:
        """The variance over axes; see `backhaul.var`."""
        return statistics.var(self, axis, ddof=ddof, correction=correction, keepdims=keepdims)

    def std(
        self,
        axis: Axes = None,
        *,
        ddof: float = 0,
        correction: float | None = None,
        keepdims: bool = False,
    ) -> TrackedTensor:
        """The standard deviation over axes; see `backhaul.std`."""
        return statistics.std(self, axis, ddof=ddof, correction=correction, keepdims=keepdims)

    def all(self, axis: Axes = None, *, keepdims: bool = False) -> TrackedTensor:
        """Whether all elements over axes are true; see `backhaul.all`."""
        return _ops.all(self, axis, keepdims=keepdims)

    def any(self, axis: Axes = None, *, keepdims: bool = False) -> TrackedTensor:
        """Whether some element over axes is true; see `backhaul.any`."""
        return _ops.any(self, axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> TrackedTensor:
        """Where the greatest element along an axis stands; see `backhaul.argmax`."""
        return _ops.argmax(self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> TrackedTensor:
        """Where the least element along an axis stands; see `backhaul.argmin`."""
        return _ops.argmin(self, axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None) -> TrackedTensor:
        """The sums up to each element; see `backhaul.cumsum`."""
        return along_axes.cumsum(self, axis)

    def cumprod(self, axis: int | None = None) -> TrackedTensor:
        """The products up to each element; see `backhaul.cumprod`."""
        return along_axes.cumprod(self, axis)

    def sort(self, axis: int | None = -1) -> TrackedTensor:
        """A new tensor, its elements in order along an axis: a tensor never changes; see `backhaul.sort`."""
        return along_axes.sort(self, axis)

    def argsort(self, axis: int | None = -1) -> TrackedTensor:
        """Where the elements stand that `sort` gives; see `backhaul.argsort`."""
        return along_axes.argsort(self, axis)
