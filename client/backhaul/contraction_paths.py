"""How an einsum would be contracted, and what that takes: asked of the server, with nothing run."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final, NamedTuple

from backhaul.connection import AnyConnection, Connection, default_connection
from backhaul.functions import check_lists
from backhaul.handle import Handle
from backhaul.limits import byte_limit
from backhaul.unusable import must_be_awaited, released
from backhaul_proto.catalog.avals import FLOAT64, Aval, aval, is_array_shape
from backhaul_proto.catalog.einsum import EINSUM, Einsum, einsum_attributes, resolve, symbol
from backhaul_proto.catalog.ops import Attributes, bind, infer
from backhaul_proto.catalog.promotion import as_array, weak
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Contraction, ContractionCost
from backhaul_proto.units import size

Path = list[tuple[int, ...]]

_SCALARS: Final = (bool, int, float, complex)
_SHOWN: Final = 60  # letters of a contraction in the table


@dataclass(frozen=True, slots=True)
class ContractionPath:
    """The order in which an einsum is contracted, and what it takes. ``str()`` of it is a table.

    Attributes:
        path: as opt_einsum has it: positions in the shrinking list of arrays, results appended. It may be
            given to `einsum` as ``path=``.
        steps: the contractions in order.
        flops: scalar multiplications, and as many additions for each step that sums: what opt_einsum calls
            ``opt_cost`` where each step has two operands. A complex number counts as a real one.
        naive_flops: of one loop over all labels, counted so: their sizes' product times the number of
            operands, or one less where nothing is summed; opt_einsum's ``naive_cost``.
        largest_intermediate: elements of the largest array that a step makes.
        value_bytes: the peak of memory above the operands while the value is computed.
        gradient_bytes: the same with the gradients of all operands after it.
        hvp_bytes: the same with gradients and H·v, for a tangent of each operand.
        slices: in how many slices it is computed, one after the other, as the whole would take too much
            memory. ``steps`` and ``largest_intermediate`` are those of one slice, ``flops`` those of all.
        sliced: the labels that are cut.
    """

    path: Path
    steps: tuple[Contraction, ...]
    flops: int
    naive_flops: int
    largest_intermediate: int
    value_bytes: int
    gradient_bytes: int
    hvp_bytes: int
    slices: int = 1
    sliced: tuple[str, ...] = ()

    @property
    def speedup(self) -> float:
        """How many times fewer flops the path takes than one loop over all labels."""
        return self.naive_flops / self.flops if self.flops else 1.0

    @property
    def recomputed(self) -> tuple[int, ...]:
        """The steps whose results are not kept, to save memory: a gradient computes them again."""
        last = len(self.steps) - 1
        return tuple(i for i, each in enumerate(self.steps) if i != last and not each.kept)

    def __str__(self) -> str:
        rows = [
            ("Naive FLOP count", f"{_count(self.naive_flops)}"),
            ("Optimized FLOP count", f"{_count(self.flops)}"),
            ("Theoretical speedup", f"{_count(self.speedup)}"),
            ("Largest intermediate", f"{_count(self.largest_intermediate)} elements"),
            ("Memory for the value", size(self.value_bytes)),
            ("and its gradients", size(self.gradient_bytes)),
            ("and H·v", size(self.hvp_bytes)),
        ]
        if self.slices > 1:
            cut = ", ".join(self.sliced)
            rows.append(("Slices", f"{self.slices:,}, cut along {cut}; of one of them:"))
        lines = [f"{name:>24}:  {value}" for name, value in rows]
        rule = "-" * 80
        lines += [
            rule,
            f"{'step':>4}  {'FLOPs':>10}  {'elements':>10}  {'kept':>4}  contraction",
            rule,
        ]
        last = len(self.steps) - 1
        for i, each in enumerate(self.steps):
            kept = "" if i == last else "yes" if each.kept else "no"
            shown = each.subscripts
            if len(shown) > _SHOWN:
                shown = shown[: _SHOWN - 3] + "..."
            lines.append(
                f"{i:>4}  {_count(_flops(each)):>10}  {_count(each.elements):>10}  {kept:>4}  {shown}"
            )
        return "\n".join(lines)

    __repr__ = __str__


def contract_path(
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
    """How `einsum` would contract these operands, and what that takes. Nothing is run or recorded.

    Args:
        subscripts: as for `einsum`; the interleaved form too.
        operands: tensors, arrays and numbers; or, with ``shapes``, shapes of float64 arrays.
        sizes: as for `einsum`.
        path: as for `einsum`: what this one takes.
        optimize: as for `einsum`: the order that this search finds.
        shapes: whether the operands are shapes, tuples of integers, in place of arrays.
        memory_limit: of the tape that it would run on, in bytes, as for `Tape`. With less memory fewer
            intermediates are kept for the gradient, and more are computed again. Left out: that of the first
            tensor's tape, else what the server allows.
        connection: which server to ask. Left out: that of the first tensor's tape, else the default.

    Raises:
        InvalidArgument: EINSUM_SYNTAX, EINSUM_OPERAND_COUNT, EINSUM_RANK, EINSUM_DIMENSION, EINSUM_OUTPUT,
            INVALID_ATTRIBUTE, as `einsum`; INVALID_VALUE for what is no shape, no limit, no connection.
        MissingNode: a tensor was released.

    Example:
        >>> import backhaul as bh
        >>> found = bh.contract_path("ij,jk,kl->il", (2, 300), (300, 4), (4, 5), shapes=True)
        >>> found.path, found.flops, found.naive_flops
        ([(0, 1), (0, 1)], 4880, 36000)
    """
    check_connection(connection, Connection)
    query = contraction_query(subscripts, operands, sizes, path, optimize, shapes, memory_limit)
    asked = connection or query.connection or default_connection()
    if not isinstance(asked, Connection):
        raise must_be_awaited(
            "What the server says of an einsum",
            "Write `await bh.contract_path(...)`, with bh the module backhaul.aio.",
        )
    return query.explained(
        asked.contract_path(query.avals, query.attributes, query.memory_limit, query.device)
    )


def check_connection(given: Any, kind: type[AnyConnection]) -> None:
    """Refuse as ``connection=`` what is none of this kind."""
    if given is not None and not isinstance(given, kind):
        raise make_error(
            "INVALID_VALUE",
            f"connection is {given!r:.100}, and no connection; see bh.connect().",
        )


class ContractionQuery(NamedTuple):
    """What `contract_path` asks a server.

    Attributes:
        einsum: the expression.
        avals: of its operands.
        attributes: of the op.
        memory_limit: of the tape that it would run on; 0: what the server allows.
        device: of that tape; empty: the server's default.
        connection: that of the first tensor's tape; None when there is no tensor.
        subscripts: as they were given; empty for lists of labels.
    """

    einsum: Einsum
    avals: tuple[Aval, ...]
    attributes: Attributes
    memory_limit: int
    device: str
    connection: AnyConnection | None
    subscripts: str

    def explained(self, cost: ContractionCost) -> ContractionPath:
        """What the server answered, in the letters that the user chose."""
        return _explained(self.einsum, cost, self.subscripts)


def contraction_query(
    subscripts: Any,
    operands: Sequence[Any],
    sizes: Mapping[str | int, int] | None,
    path: Iterable[Iterable[int]] | None,
    optimize: bool | str | Sequence[Any],
    shapes: bool,
    memory_limit: int | None,
) -> ContractionQuery:
    """The question of `contract_path`, its arguments checked."""
    limit = 0 if memory_limit is None else byte_limit(memory_limit)
    given = (subscripts, *operands)
    if isinstance(subscripts, Handle):
        check_lists((*given[1::2], given[-1] if len(given) % 2 else ()))
    arrays, plain = einsum_attributes(given, sizes=sizes, path=path, optimize=optimize)
    avals = tuple(map(_shape, arrays, range(len(arrays)))) if shapes else _avals(arrays)
    attributes = bind(EINSUM, plain)
    infer(EINSUM, attributes, avals)
    einsum = resolve(tuple(each.shape for each in avals), **dict(attributes))
    tensor = next((each for each in arrays if isinstance(each, Handle)), None)
    core = None if tensor is None else tensor._tape._core
    return ContractionQuery(
        einsum,
        avals,
        attributes,
        limit if core is None else limit or core.memory_limit,
        "" if core is None else core.device,
        None if core is None else core.connection,
        plain.get("subscripts", ""),
    )


def _explained(einsum: Einsum, cost: ContractionCost, subscripts: str) -> ContractionPath:
    letters = {}
    if "..." not in subscripts:  # numbered in the order of appearance
        used = dict.fromkeys(each for each in subscripts if each not in "(),->")
        letters = {ord(symbol(i)): each for i, each in enumerate(used)}
    steps = tuple(
        replace(each, subscripts=each.subscripts.translate(letters)) for each in cost.steps
    )
    summed = set().union(*einsum.inputs) - set(einsum.output)
    loops = max(1, len(einsum.inputs) - 1) + bool(summed)
    return ContractionPath(
        [each.operands for each in cost.steps],
        steps,
        sum(map(_flops, steps)) * cost.slices,
        prod(einsum.sizes) * loops,
        cost.largest_intermediate,
        cost.value_bytes,
        cost.gradient_bytes,
        cost.hvp_bytes,
        cost.slices,
        tuple(cost.sliced_labels.translate(letters)),
    )


def _flops(step: Contraction) -> int:
    inputs, _, output = step.subscripts.partition("->")
    sums = not set(inputs) - {","} <= set(output)
    return step.multiplications * (1 + sums)


def _count(number: float) -> str:
    """A count of any size, of three decimals from a million on."""
    if number < 1_000_000:
        return f"{number:,}" if isinstance(number, int) else f"{number:,.4g}"
    digits = len(str(int(number))) - 1
    return f"{int(number) // 10 ** (digits - 3) / 1000:.3f}e+{digits}"


def _shape(given: Any, position: int) -> Aval:
    try:
        shape = tuple(operator.index(n) for n in given)
    except TypeError:
        shape = (-1,)
    if isinstance(given, str | bytes) or not is_array_shape(shape, FLOAT64.itemsize):
        raise make_error(
            "INVALID_VALUE",
            f"Operand {position} is {given!r:.100}; with shapes=True each is the shape of an array, a tuple "
            "of integers from 0 up.",
            operand=position,
        )
    return aval(shape, FLOAT64)


def _avals(operands: Sequence[Any]) -> tuple[Aval, ...]:
    """Of tensors, arrays and numbers. Python numbers take the dtype of what they stand beside."""
    found: list[Aval | None] = []
    for position, each in enumerate(operands):
        if isinstance(each, Handle):
            if each._id < 0:
                raise released(f"operand {position} of contract_path", each)
            found.append(each._node_type.aval)
        elif type(each) in _SCALARS:
            found.append(None)
        else:
            array = as_array(each, what=f"operand {position} of contract_path")
            found.append(aval(array.shape, array.dtype))
    beside = [each.dtype for each in found if each is not None]
    return tuple(
        aval((), weak(given, beside)) if each is None else each
        for given, each in zip(operands, found, strict=True)
    )
