"""Functions whose results are kept by their arguments: many of small ones, a few of large ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_LARGE: Final = 512
_LARGE_KEPT: Final = 8


class KeptBySize(Generic[T]):
    """A function with two `lru_cache`, so that a client cannot fill one with large things.

    Args:
        function: what gives the results.
        maxsize: how many results are kept of arguments that weigh little.
        weigh: of the arguments, about how many numbers they have.
    """

    def __init__(self, function: Callable[..., T], maxsize: int, weigh: Callable[..., int]) -> None:
        self.__doc__ = function.__doc__
        self._small = lru_cache(maxsize)(function)
        self._large = lru_cache(_LARGE_KEPT)(function)
        self._weigh = weigh
        self.cache_info = self._small.cache_info

    def __call__(self, *args: Any, **keywords: Any) -> T:
        if self._weigh(*args, **keywords) <= _LARGE:
            return self._small(*args, **keywords)
        return self._large(*args, **keywords)


def kept_by_size(
    maxsize: int, weigh: Callable[..., int]
) -> Callable[[Callable[..., T]], KeptBySize[T]]:
    """`KeptBySize` as a decorator."""

    def decorate(function: Callable[..., T]) -> KeptBySize[T]:
        return KeptBySize(function, maxsize, weigh)

    return decorate


def weight(value: Any) -> int:
    """About how many numbers or letters an attribute's value has."""
    if isinstance(value, tuple):
        return len(value) + sum(len(each) for each in value if isinstance(each, tuple))
    return len(value) if isinstance(value, str) else 1
