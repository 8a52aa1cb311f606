"""Drives the generators of `backhaul.steps` from an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

Asked = TypeVar("Asked")
Result = TypeVar("Result")


async def drive(
    work: Generator[Asked, Any, Result],
    ask: Callable[[Asked], Awaitable[Any]],
    between: AbstractContextManager[Any],
) -> Result:
    """The result of the work, each of its questions answered by `ask`.

    Args:
        work: what asks.
        ask: awaited for each question.
        between: entered while the work itself runs, and left while an answer is awaited.
    """
    try:
        with between:
            asked = next(work)
        while True:
            try:
                answer = await ask(asked)
            except GeneratorExit:
                raise  # nobody awaits this any more. It may come from a finalizer, which takes no lock
            except (
                BaseException
            ) as error:  # a cancelled task too: the work knows what it leaves open
                with between:
                    asked = work.throw(error)
            else:
                with between:
                    asked = work.send(answer)
    except StopIteration as done:
        result: Result = done.value
        return result
