"""Work that asks the server on its way, written once and driven by who may wait and by who may not.

Such work is a generator: it yields a question, and is sent the answer or has its error thrown in. `run`
waits for each answer; `backhaul.aio.driver` awaits it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from backhaul_proto.messages import Answer, Execute

Asked = TypeVar("Asked")
Result = TypeVar("Result")

Steps = Generator[Execute, Answer, Result]
"""Work of which each question is one request of a session."""


def run(work: Generator[Asked, Any, Result], ask: Callable[[Asked], Any]) -> Result:
    """The result of the work, each of its questions answered by `ask`."""
    try:
        asked = next(work)
        while True:
            try:
                answer = ask(asked)
            except BaseException as error:  # an interrupt too: the work knows what it leaves open
                asked = work.throw(error)
            else:
                asked = work.send(answer)
    except StopIteration as done:
        result: Result = done.value
        return result
