"""The functions that ask a server, to be awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from backhaul import tensor
from backhaul.aio.connection import Connection, default_connection
from backhaul.aio.core import AwaitingCore
from backhaul.aio.driver import drive
from backhaul.aio.tape import Tape
from backhaul.any_tape import AnyTape
from backhaul.checking import GradReport, grad_check
from backhaul.contraction_paths import ContractionPath, check_connection, contraction_query
from backhaul.foreign_ops import foreign_call, record_inferred
from backhaul.functions import by_tape, catalog_entry
from backhaul.recording import record_bound
from backhaul_proto.catalog.ops import bind
from backhaul_proto.errors import BackhaulError, make_error

Array = np.ndarray[Any, Any]


async def fetch(*tensors: tensor.TrackedTensor) -> list[Array]:
    """The values of tensors, in one round trip; as `backhaul.fetch`.

    Those of several tapes are asked for at the same time.

    Example:
        >>> import asyncio
        >>> import backhaul.aio as bh
        >>> async def main():
        ...     x = bh.Tape().leaf([1.0, 2.0])
        ...     return await bh.fetch(x, x + x)
        >>> asyncio.run(main())
        [array([1., 2.]), array([2., 4.])]
    """
    grouped = by_tape(tensors)
    for of_tape in grouped.values():
        _core(of_tape[0]._tape)
    asked = [each[0]._tape._fetched(*each) for each in grouped.values()]
    found = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)
    values = {tape: iter(each) for tape, each in zip(grouped, found, strict=True)}
    return [next(values[id(each._tape)]) for each in tensors]


async def apply(name: str, /, *operands: Any, **attributes: Any) -> Any:
    """Any op by its name in the catalog; as `backhaul.apply`, with the same arguments and errors.

    To be awaited, since the server is asked for the results of an op that it alone knows.

    Example:
        >>> import asyncio
        >>> import backhaul.aio as bh
        >>> async def main():
        ...     return (await bh.apply("sum", bh.Tape().leaf([[1.0, 2.0]]), axis=1)).shape
        >>> asyncio.run(main())
        (1,)
    """
    entry = catalog_entry(name)
    if entry is not None:
        return record_bound(entry, operands, bind(entry, attributes))
    call = foreign_call(name, operands, attributes)
    connection = _core(call.tape).connection
    return record_inferred(call, await connection.infer(name, call.avals, call.attributes))


async def contract_path(
    subscripts: Any,
    /,
    *operands: Any,
    sizes: Mapping[str | int, int] | None = None,
    path: Iterable[Iterable[int]] | None = None,
    optimize: bool | str | Sequence[Any] = True,
    shapes: bool = False,
    memory_limit: int | None = None,
    connection: Connection | None = None,
) -> ContractionPath:
    """How `einsum` would contract these operands; as `backhaul.contract_path`.

    Example:
        >>> import asyncio
        >>> import backhaul.aio as bh
        >>> async def main():
        ...     return await bh.contract_path("ij,jk,kl->il", (2, 300), (300, 4), (4, 5), shapes=True)
        >>> asyncio.run(main()).flops
        4880
    """
    check_connection(connection, Connection)
    query = contraction_query(subscripts, operands, sizes, path, optimize, shapes, memory_limit)
    asked = connection or query.connection or default_connection()
    if not isinstance(asked, Connection):
        raise _not_of_aio(f"a tensor on {asked.target}")
    cost = await asked.contract_path(
        query.avals, query.attributes, query.memory_limit, query.device
    )
    return query.explained(cost)


async def check_grad(
    f: Callable[..., Any],
    *arrays: ArrayLike,
    order: int = 2,
    tolerance: float | None = None,
    seed: int = 0,
    connection: Connection | None = None,
) -> GradReport:
    """Compare the derivatives of a function with finite differences; as `backhaul.check_grad`.

    The function may be one that is awaited.

    Example:
        >>> import asyncio
        >>> import numpy as np, backhaul.aio as bh
        >>> report = asyncio.run(bh.check_grad(lambda x: bh.sum(x * x * x), np.array([1.0, 2.0])))
        >>> assert report, report
    """

    async def answered(asked: Any) -> Any:
        return await asked if inspect.isawaitable(asked) else asked

    work = grad_check(f, arrays, order, tolerance, seed, lambda: Tape(connection))
    return await drive(work, answered, nullcontext())


def _core(tape: AnyTape[Any]) -> AwaitingCore:
    """What stands behind a tape of backhaul.aio."""
    core = tape._core
    if not isinstance(core, AwaitingCore):
        raise _not_of_aio(f"a tensor of {tape}")
    return core


def _not_of_aio(what: str) -> BackhaulError:
    return make_error(
        "INVALID_VALUE",
        f"A function of backhaul.aio was given {what}, whose questions are waited for. Make the tape with "
        "backhaul.aio, or call the function of backhaul.",
    )
