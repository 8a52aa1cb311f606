"""The catalog entries: ``einsum``, and the private ops that its rule is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.einsum.resolve import resolve
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.promotion import promote


def infer_einsum(avals: Sequence[Aval], **attributes: Any) -> Aval:
    """The shape by the expression, the dtype by promotion."""
    found = resolve(tuple(each.shape for each in avals), **attributes)
    return aval(found.shape, promote(*avals))


def _never_inferred(avals: Sequence[Aval], **attributes: Any) -> NoReturn:
    raise TypeError("a private op: rules call it, with a lowering, past the catalog")


EINSUM = register(
    Op(
        name="einsum",
        operands=("*operands",),
        infer=infer_einsum,
        attributes=(
            Attribute("subscripts", "string", doc="The expression, such as 'ij,jk->ik'."),
            Attribute(
                "labels",
                "int_lists",
                doc="Instead of subscripts: one list of labels (0 and up, -1 the ellipsis) an "
                "operand.",
            ),
            Attribute("output", "ints", doc="The output's labels beside `labels`."),
            Attribute(
                "size_labels",
                "ints",
                doc="Labels whose sizes are given: code points beside subscripts, else as in "
                "`labels`.",
            ),
            Attribute("size_values", "ints", doc="The sizes of `size_labels`."),
            Attribute(
                "path",
                "int_lists",
                doc="The order of contraction: an opt_einsum path.",
            ),
            Attribute(
                "optimize",
                "string",
                doc="How to find an order: `auto` (the default), `auto-hq`, `naive` (left to right), "
                "`greedy`, `random-greedy`, `random-greedy-128`, `branch-1`, `branch-2`, `branch-all`, "
                "`dp`, `optimal` or `cotengra`.",
            ),
        ),
        promotes=True,
        doc="""Sum of products of operands along labelled axes: Einstein's summation.

The notation is NumPy's and opt_einsum's. Each operand has a term with one label an axis; axes with
the same label go together, and labels that the output leaves out are summed over.

* ``"ij,jk->ik"`` explicit output; ``"ij,jk"`` implicit: labels seen once, sorted.
* ``"...ij,...jk->...ik"``: the ellipsis stands for leading axes that broadcast. An explicit output
  without it sums over them.
* ``"ii->"``, ``"ii->i"``: a label repeated in an operand takes its diagonal.
* ``"i->ii"``, ``"ij->jij"``: one repeated in the output puts values on a diagonal, zeros elsewhere.
* ``"i->ik"`` with ``sizes={"k": 4}``: a label of the output alone repeats the values.
* ``"ij,(jk,kl)->il"``: operands in parentheses are contracted first; ``path=`` takes an opt_einsum
  path. Otherwise the order is found once for an expression and its shapes, and kept; ``optimize=``
  says how.
* Axes of size 1 broadcast against the other operands.
* Labels are letters of any script, or in the interleaved form ``einsum(a, [0, 1], b, [1, 2],
  [0, 2])`` integers from 0 up, strings and Ellipsis.

The result has the dtype that the operands promote to.

Raises:
    InvalidArgument: with reason EINSUM_SYNTAX, EINSUM_OPERAND_COUNT, EINSUM_RANK (a term has more
        or fewer labels than its operand axes), EINSUM_DIMENSION (sizes of a label differ),
        EINSUM_OUTPUT (a label of the output has no size) or INVALID_ATTRIBUTE (a path that does not
        fit, an unknown search, one that cannot take so many operands).
""",
        samples=(
            Sample(((2, 3), (3, 4)), {"subscripts": "ij,jk->ik"}),
            Sample(((2, 3), (3, 4)), {"subscripts": "ij,jk"}),
            Sample(((3, 2), (4, 3)), {"subscripts": "ji,kj->ki"}),
            Sample(((2, 3), (2, 3)), {"subscripts": "ij,ij->"}),
            Sample(((2, 3),), {"subscripts": "ij->ji"}),
            Sample(((3, 3),), {"subscripts": "ii->"}),
            Sample(((3, 3, 2),), {"subscripts": "iij->ij"}),
            Sample(((3,), (2,)), {"subscripts": "i,j->ij"}),
            Sample(((2, 3, 2), (1, 2, 4)), {"subscripts": "...ij,...jk->...ik"}),
            Sample(((3, 2), (1, 2)), {"subscripts": "ij,ij->i"}),
            Sample(((2, 3), (2, 3), (4, 3)), {"subscripts": "ia,ja,ka->ijk"}),
            Sample(((2, 3), (3, 2), (2, 4)), {"subscripts": "ij,(jk,kl)->il"}),
            Sample(
                ((2, 3), (3, 2), (2, 4)), {"labels": [[0, 1], [1, 2], [2, 3]], "output": [0, 3]}
            ),
            Sample(
                ((2, 3), (3, 2), (2, 4)), {"subscripts": "ij,jk,kl->il", "path": [[1, 2], [0, 1]]}
            ),
            Sample(((2, 3), (3, 2), (2, 4)), {"subscripts": "ij,jk,kl->il", "optimize": "optimal"}),
            Sample(((3,),), {"subscripts": "i->ii"}),
            Sample(((2, 3),), {"subscripts": "ij->jij"}),
            Sample(
                ((2,),),
                {"subscripts": "i->ik", "size_labels": [ord("k")], "size_values": [3]},
            ),
            Sample(((), (2, 2)), {"subscripts": ",ij->ji"}),
            Sample(((64, 2, 3), (64, 3, 2)), {"subscripts": "bij,bjk->bik"}),
        ),
    )
)

CONTRACT = register(
    Op(
        name="contract",
        operands=("a", "b"),
        infer=_never_inferred,
        private=True,
        doc="The product of two arrays along labelled axes, by a lowering: a step of an einsum.",
    )
)

REARRANGE = register(
    Op(
        name="rearrange",
        operands=("x",),
        infer=_never_inferred,
        private=True,
        doc="Diagonals, sums, axes moved, added and dropped, by a lowering: a step of an einsum.",
    )
)

SLICED_EINSUM = register(
    Op(
        name="sliced_einsum",
        operands=("*operands",),
        infer=_never_inferred,
        private=True,
        doc="An einsum that is computed in slices, since the whole would take too much memory.",
    )
)
