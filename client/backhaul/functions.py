"""Functions on tensors that are not generated from the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from backhaul.foreign_ops import record_foreign
from backhaul.handle import Handle
from backhaul.recording import record_bound, record_einsum
from backhaul_proto.catalog.einsum import EINSUM, einsum_attributes
from backhaul_proto.catalog.ops import CATALOG, Op, bind
from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

_MISSING: Final = object()


def einsum(
    subscripts: Any = _MISSING,
    /,
    *operands: Any,
    sizes: Mapping[str | int, int] | None = None,
    path: Iterable[Iterable[int]] | None = None,
    optimize: bool | str | Sequence[Any] = True,
) -> TrackedTensor:
    """Sum of products of operands along labelled axes: Einstein's summation, in NumPy's notation.

    Beyond NumPy: any letter of any script is a label; a label repeated in the output puts values on a
    diagonal (``"i->ii"``); parentheses say what is contracted first (``"ij,(jk,kl)->il"``).

    Args:
        subscripts: such as ``"ij,jk->ik"``.
        operands: tensors, arrays and numbers, at least one of them a tensor. Without subscripts, each is
            followed by a list of its labels, and the output's list comes last:
            ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.
        sizes: sizes of labels that stand in the output only.
        path: an opt_einsum path. Left out: the best order found, once for an expression and its shapes.
        optimize: how to find that order, by NumPy's and opt_einsum's names; with parentheses, inside each
            group. True or ``"auto"``: a search that takes a few times as long as value and gradient will,
            and about 4 s at most. ``"auto-hq"``: the same search, for seconds whatever the expression
            costs. False: pairs from left to right. ``"greedy"`` (also ``"eager"``, ``"opportunistic"``);
            ``"random-greedy"`` and ``"random-greedy-128"``, the best of 32 and 128, the same in each run.
            ``"optimal"``: the fewest multiplications, for up to 14 operands; ``"branch-all"`` (7),
            ``"branch-2"`` (14), ``"branch-1"`` (64); ``"dp"`` (``"dynamic-programming"``; 25, fewer where
            many of them hang together). ``"cotengra"``: where the server has it
            (``pip install backhaul[cotengra]``). Or a path, as ``path=``; NumPy's
            ``["einsum_path", (0, 1), ...]`` too.

    Raises:
        InvalidArgument: EINSUM_SYNTAX, EINSUM_OPERAND_COUNT, EINSUM_RANK (a term has more or fewer
            labels than its operand has axes), EINSUM_DIMENSION (sizes of one label differ), EINSUM_OUTPUT
            (a label of the output has no size), INVALID_ATTRIBUTE (a path that does not fit, a search that
            is unknown, not installed, or cannot take so many operands).
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> a = bh.Tape().leaf(np.ones((2, 3)))
        >>> bh.einsum("ij,jk->ik", a, np.ones((3, 4))).shape
        (2, 4)
    """
    if type(subscripts) is str and sizes is None and path is None and optimize is True:
        return record_einsum(subscripts, operands)
    if sizes is not None and not isinstance(sizes, Mapping):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"einsum: sizes= is {sizes!r:.100}; it is a mapping of labels to sizes, {{'k': 4}}.",
            op="einsum",
            attribute="sizes",
        )
    given = () if subscripts is _MISSING else (subscripts, *operands)
    if isinstance(subscripts, Handle):
        check_lists((*given[1::2], given[-1] if len(given) % 2 else ()))
    arrays, attributes = einsum_attributes(given, sizes=sizes, path=path, optimize=optimize)
    result: TrackedTensor = record_bound(EINSUM, arrays, bind(EINSUM, attributes))
    return result


def check_lists(lists: Iterable[Any]) -> None:
    """Refuse tensors as lists of labels: to look through one is to record its parts."""
    if any(isinstance(each, Handle) for each in lists):
        raise make_error(
            "EINSUM_SYNTAX",
            "einsum was given a tensor where a list of labels belongs. Begin with the subscripts, "
            "einsum('ij,jk->ik', a, b), or give each operand's labels after it, "
            "einsum(a, [0, 1], b, [1, 2], [0, 2]).",
        )


def tracked_einsum(
    subscripts: str, operands: Sequence[Any], *, optimize: bool | str | Sequence[Any] = True
) -> TrackedTensor:
    """`einsum` with its operands in a list, as chainrules has it.

    Args:
        subscripts: such as ``"ij,jk->ik"``.
        operands: tensors, arrays and numbers, at least one of them a tensor.
        optimize: how to find the order of contraction, as in `einsum`.

    Raises:
        InvalidArgument, MissingNode: as `einsum`.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([3.0, 4.0])
        >>> float(bh.tracked_einsum("i,i->", [x, x]))
        25.0
    """
    if not isinstance(subscripts, str):
        raise make_error(
            "EINSUM_SYNTAX",
            f"The subscripts are {subscripts!r:.100}; they are a string such as 'ij,jk->ik'. For lists of "
            "labels call einsum.",
        )
    if optimize is True:
        return record_einsum(str(subscripts), tuple(operands))
    arrays, attributes = einsum_attributes((str(subscripts), *operands), optimize=optimize)
    result: TrackedTensor = record_bound(EINSUM, arrays, bind(EINSUM, attributes))
    return result


def apply(name: str, /, *operands: Any, **attributes: Any) -> Any:
    """Any op by its name in the catalog, those of a server's plugins included.

    Args:
        name: the op; `ops` and `Connection.ops` list them.
        operands: tensors, arrays and numbers, at least one of them a tensor.
        attributes: static arguments of the op.

    Returns:
        A TrackedTensor, or a tuple of them for an op with several results. For an op that only the server
        knows, result shapes are asked from it once for each combination of operand types.

    Raises:
        InvalidArgument: UNKNOWN_OP, INVALID_ATTRIBUTE, or what the op says of its operands.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> bh.apply("sum", bh.Tape().leaf([[1.0, 2.0]]), axis=1).shape
        (1,)
    """
    entry = catalog_entry(name)
    if entry is None:
        return record_foreign(name, operands, attributes)
    return record_bound(entry, operands, bind(entry, attributes))


def catalog_entry(name: Any) -> Op | None:
    """The op of this name; None when only a server may know it.

    Raises:
        InvalidArgument: UNKNOWN_OP for what is no name.
    """
    if not isinstance(name, str) or not name.isprintable():  # nor is what cannot be encoded
        raise make_error(
            "UNKNOWN_OP", f"There is no op {name!a:.100}: a name is a printable string."
        )
    entry = CATALOG.get(name)
    return None if entry is None or entry.private else entry


def fetch(*tensors: TrackedTensor) -> list[np.ndarray[Any, Any]]:
    """The values of tensors, as `TrackedTensor.numpy` gives each, in one round trip.

    Args:
        tensors: of any shapes; those of several tapes take a trip for each tape.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no tensor.
        MissingNode: one was released.
        AutodiffError: the step of one failed on its data.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([1.0, 2.0])
        >>> bh.fetch(x, x + x)
        [array([1., 2.]), array([2., 4.])]
    """
    values = {
        tape: iter(of_tape[0]._tape._fetch(*of_tape)) for tape, of_tape in by_tape(tensors).items()
    }
    return [next(values[id(each._tape)]) for each in tensors]


def by_tape(tensors: Sequence[TrackedTensor]) -> dict[int, list[TrackedTensor]]:
    """Tensors to fetch, together where they are on one tape.

    Raises:
        InvalidArgument: INVALID_VALUE for what is no tensor.
    """
    found: dict[int, list[TrackedTensor]] = {}
    for position, each in enumerate(tensors):
        if not isinstance(each, Handle):
            raise make_error(
                "INVALID_VALUE",
                f"fetch() was given {each!r:.100} as argument {position}; it takes tensors.",
            )
        found.setdefault(id(each._tape), []).append(each)
    return found


def ops() -> tuple[str, ...]:
    """The names of the ops that `apply` knows without asking a server.

    Example:
        >>> import backhaul as bh
        >>> "einsum" in bh.ops()
        True
    """
    return tuple(sorted(name for name, entry in CATALOG.items() if not entry.private))
