"""Tensors on a tape whose questions are awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from backhaul import tensor
from backhaul.unusable import must_be_awaited

if TYPE_CHECKING:
    from backhaul.aio.tape import Tape

Array = np.ndarray[Any, Any]


class TrackedTensor(tensor.TrackedTensor):
    """As `backhaul.TrackedTensor`, with `numpy` and `item` to be awaited.

    What asks for the value without awaiting it, as ``float(x)``, ``bool(x)`` and ``np.asarray(x)`` do, is an
    InvalidArgument (MUST_BE_AWAITED).

    Example:
        >>> import asyncio
        >>> import backhaul.aio as bh
        >>> async def main():
        ...     x = bh.Tape().leaf([1.0, 2.0])
        ...     y = x * x                       # recorded at once, as ever
        ...     return y.shape, await y.numpy()
        >>> asyncio.run(main())
        ((2,), array([1., 4.]))
    """

    __slots__ = ()

    @property
    def tape(self) -> Tape:  # type: ignore[override]  # of the kind that it is made by
        """The tape that it is on."""
        return cast("Tape", self._tape)

    async def numpy(self) -> Array:  # type: ignore[override]  # what waits there is awaited here
        """The value, as `backhaul.TrackedTensor.numpy` gives it."""
        value: Array = (await self._tape._fetched(self))[0]
        return value

    async def item(self) -> Any:
        """The only element, as `backhaul.TrackedTensor.item` gives it."""
        self._check_single()
        return (await self.numpy()).item()

    def _now(self) -> Array:
        raise must_be_awaited(
            f"The value of {self!r}",
            "Await it: `await tensor.numpy()` or `await tensor.item()`, then go on with that.",
        )
