"""The einsum notation: what it accepts, what shape comes out, and how each mistake is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.einsum import EINSUM, Einsum, einsum_attributes, resolve
from backhaul_proto.catalog.ops import bind, infer
from backhaul_proto.errors import InvalidArgument

Shape = tuple[int, ...]
Shapes = Sequence[Shape]
F32, F64, C64, I64, BOOL = map(np.dtype, ("float32", "float64", "complex64", "int64", "bool"))


def shape_of(subscripts: str, *shapes: Shape, **attributes: Any) -> Shape:
    """The result's shape through the catalog, as both sides find it."""
    avals = tuple(aval(shape, F64) for shape in shapes)
    bound = bind(EINSUM, {"subscripts": subscripts, **attributes})
    return infer(EINSUM, bound, avals)[0].shape


def resolved(args: Sequence[Any], **keywords: Any) -> Einsum:
    """What a call means, its operands given as shapes."""
    shapes, attributes = einsum_attributes(args, **keywords)
    return resolve(tuple(shapes), **dict(bind(EINSUM, attributes)))


@pytest.mark.parametrize(
    ("subscripts", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)], (2, 4)),
        (" i j , j k  ->\ti k\n", [(2, 3), (3, 4)], (2, 4)),
        ("ij,jk", [(2, 3), (3, 4)], (2, 4)),
        ("ba", [(2, 3)], (3, 2)),  # implicit output is sorted
        ("bA", [(2, 3)], (3, 2)),  # capitals first
        ("ii", [(3, 3)], ()),
        ("ii->i", [(3, 3)], (3,)),
        ("iij,jkk->ik", [(2, 2, 3), (3, 4, 4)], (2, 4)),
        ("->", [()], ()),
        (",", [(), ()], ()),
        ("i,->i", [(3,), ()], (3,)),
        ("", [()], ()),
        ("ij->", [(0, 3)], ()),
        ("...", [(2, 3)], (2, 3)),
        ("...->...", [()], ()),
        ("...->", [(2, 3)], ()),  # an explicit output without the ellipsis sums over it
        ("...ij,...jk", [(5, 2, 3), (3, 4)], (5, 2, 4)),
        ("...i,...i->...", [(5, 1, 3), (2, 3)], (5, 2)),
        ("i...->...i", [(2, 3, 4)], (3, 4, 2)),
        ("ij->...ij", [(2, 3)], (2, 3)),
        ("ij,jk->ik", [(2, 1), (3, 4)], (2, 4)),
        ("i,i", [(1,), (3,)], ()),
        ("ij,ij->ij", [(1, 3), (2, 1)], (2, 3)),
        ("ικ,κλ->ιλ", [(2, 3), (3, 4)], (2, 4)),
        ("行列,列×->行×", [(2, 3), (3, 4)], (2, 4)),
        ("a\u038b,\u038bb->ab", [(2, 3), (3, 4)], (2, 4)),  # a code point without a character
        ("0a,a1->01", [(2, 3), (3, 4)], (2, 4)),
        ("i->ii", [(3,)], (3, 3)),
        ("ij->jij", [(2, 3)], (3, 2, 3)),
        ("ij,(jk,kl)->il", [(2, 3), (3, 4), (4, 5)], (2, 5)),
        ("((ij,jk),kl)", [(2, 3), (3, 4), (4, 5)], (2, 5)),
        ("(,(i,j),...k)", [(), (2,), (3,), (7, 4)], (7, 2, 3, 4)),
    ],
)
def test_shape_of_what_is_accepted(subscripts: str, shapes: Shapes, expected: Shape) -> None:
    assert shape_of(subscripts, *shapes) == expected


@pytest.mark.parametrize(
    ("reason", "subscripts", "shapes", "details"),
    [
        ("EINSUM_SYNTAX", "i..", [(2,)], {}),
        ("EINSUM_SYNTAX", "......", [(2,)], {}),
        ("EINSUM_SYNTAX", "... ...", [(2,)], {}),
        ("EINSUM_SYNTAX", "a->..a", [(2,)], {}),
        ("EINSUM_SYNTAX", "a->b->c", [(2,)], {}),
        ("EINSUM_SYNTAX", "a-b", [(2,)], {}),
        ("EINSUM_SYNTAX", "ij-->ji", [(2, 2)], {}),
        ("EINSUM_SYNTAX", "a->1", [(2,)], {"label": "'1'"}),
        ("EINSUM_SYNTAX", "&,a->", [(), (2,)], {}),
        ("EINSUM_SYNTAX", "i->i,i", [(2,)], {}),
        ("EINSUM_SYNTAX", "a\x00->a", [(2, 2)], {}),
        ("EINSUM_SYNTAX", "(i)", [(2,)], {}),
        ("EINSUM_SYNTAX", "()", [()], {}),
        ("EINSUM_SYNTAX", "(ij,jk", [(2, 3), (3, 4)], {}),
        ("EINSUM_SYNTAX", "ij,jk)", [(2, 3), (3, 4)], {}),
        ("EINSUM_SYNTAX", "i(j,k)", [(2,), (3,)], {}),
        ("EINSUM_SYNTAX", "(i,j)k", [(2,), (3,)], {}),
        ("EINSUM_SYNTAX", "(i,j)(k,l)", [(2,)] * 4, {}),
        ("EINSUM_SYNTAX", "i,j->(i,j)", [(2,), (3,)], {}),
        ("EINSUM_OPERAND_COUNT", "i,j", [(2,)], {"expected": "2", "actual": "1"}),
        ("EINSUM_OPERAND_COUNT", "", [], {}),
        ("EINSUM_OPERAND_COUNT", "i", [(2,), (2,)], {}),
        ("EINSUM_RANK", "i", [()], {"operand": "0", "expected": "1", "actual": "0"}),
        ("EINSUM_RANK", "i,ij", [(2,), (2,)], {"operand": "1"}),
        ("EINSUM_RANK", "ij...", [(2,)], {"expected": "at least 2"}),
        ("EINSUM_RANK", "i", [(2, 3)], {"actual": "2"}),
        (
            "EINSUM_DIMENSION",
            "ij,jk->ik",
            [(2, 3), (4, 5)],
            {"operand": "1", "label": "'j'", "expected": "3", "actual": "4"},
        ),
        ("EINSUM_DIMENSION", "ii->i", [(1, 3)], {"operand": "0", "label": "'i'"}),
        ("EINSUM_DIMENSION", "...k,...k->...", [(6, 5, 3), (6, 4, 3)], {"operand": "1"}),
        ("EINSUM_DIMENSION", "i,i,i", [(1,), (2,), (3,)], {"operand": "2"}),
        ("EINSUM_OUTPUT", "i->ij", [(2,)], {"label": "'j'"}),
    ],
)
def test_what_is_refused_says_where(
    reason: str, subscripts: str, shapes: Shapes, details: Mapping[str, str]
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        shape_of(subscripts, *shapes)
    assert caught.value.reason == reason
    assert details.items() <= caught.value.details.items()


def test_a_message_names_operand_label_sizes_and_remedy() -> None:
    with pytest.raises(InvalidArgument) as caught:
        shape_of("ij,jk->ik", (2, 3), (4, 5))
    assert caught.value.message == (
        "Label 'j' has size 3 in operand 0 (shape (2, 3)) and size 4 in operand 1 (shape (4, 5)). "
        "Equal sizes or 1 would do: check the order of the axes, or use another label."
    )


def test_expressions_that_differ_in_letters_alone_are_equal() -> None:
    shapes = ((2, 3), (3, 4))
    assert resolve(shapes, subscripts="ij,jk->ik") == resolve(shapes, subscripts="ab,bγ->aγ")
    assert resolve(shapes, subscripts="ij,jk->ik") == resolve(
        shapes, labels=((7, 900), (900, 0)), output=(7, 0)
    )
    assert resolve(shapes, subscripts="ij,jk->ik") != resolve(shapes, subscripts="ij,jk->ki")


def test_labels_are_numbered_and_ellipsis_axes_have_their_own() -> None:
    found = resolve(((5, 2, 3), (1, 3)), subscripts="...ij,...j->...i")
    assert found.inputs == ((0, 1, 2), (0, 2))
    assert found.output == (0, 1)
    assert found.sizes == (5, 2, 3)
    assert found.shape == (5, 2)


def test_ellipses_of_different_rank_align_at_their_right() -> None:
    found = resolve(((7, 5, 2), (5,)), subscripts="...i,...->...i")
    assert found.inputs == ((0, 1, 2), (1,))


class TestInterleaved:
    def test_is_the_same_as_subscripts(self) -> None:
        a, b = (2, 3), (3, 4)
        assert resolved((a, [0, 1], b, [1, 2], [0, 2])) == resolved(("ij,jk->ik", a, b))
        assert resolved((a, ["x", "yy"], b, ["yy", 5])).shape == (4, 2)  # integers sort first

    def test_operands_are_handed_back_as_they_are(self) -> None:
        a, b = object(), object()
        operands, attributes = einsum_attributes((a, [0, 1], b, [1, 2]))
        assert operands == [a, b]
        assert attributes == {"labels": [[0, 1], [1, 2]]}

    def test_ellipsis(self) -> None:
        a, b = (5, 2, 3), (3, 4)
        found = resolved((a, [..., 0, 1], b, [1, 2], [..., 0, 2]))
        assert found == resolved(("...ij,jk->...ik", a, b))

    def test_integers_sort_by_value_however_large(self) -> None:
        assert resolved(((2, 3), [2**80, 10])).shape == (3, 2)
        assert resolved(((2, 3), [10, 9])).shape == (3, 2)
        assert resolved(((2, 3), [np.int64(9), 10])).shape == (2, 3)

    def test_thousands_of_labels(self) -> None:
        args: list[Any] = []
        for i in range(3000):
            args += [(2, 2), [i, i + 1]]
        assert resolved([*args, [0, 3000]]).shape == (2, 2)

    @pytest.mark.parametrize(
        ("args", "reason"),
        [
            (((2,), [-1]), "EINSUM_SYNTAX"),
            (((2, 2), [..., 0, ...]), "EINSUM_SYNTAX"),
            (((2,), [0], [-1]), "EINSUM_SYNTAX"),
            (((2,), [1.5]), "EINSUM_SYNTAX"),
            (((2,), [True]), "EINSUM_SYNTAX"),
            (((2,), [""]), "EINSUM_SYNTAX"),
            (((2,), "i"), "EINSUM_SYNTAX"),
            (((2,), 3), "EINSUM_SYNTAX"),
            (((2, 3), [0]), "EINSUM_RANK"),
            (((2,), [0], [1]), "EINSUM_OUTPUT"),
            ((), "EINSUM_OPERAND_COUNT"),
            (([0],), "EINSUM_OPERAND_COUNT"),
        ],
    )
    def test_mistakes(self, args: Sequence[Any], reason: str) -> None:
        with pytest.raises(InvalidArgument) as caught:
            resolved(args)
        assert caught.value.reason == reason


class TestSizes:
    def test_give_labels_of_the_output_alone(self) -> None:
        assert resolved(("i->ik", (2,)), sizes={"k": 4}).shape == (2, 4)
        assert resolved(("->kk", ()), sizes={"k": 0}).shape == (0, 0)
        assert resolved(((2,), [0], [0, 7]), sizes={7: 4}).shape == (2, 4)
        assert resolved(((2,), ["i"], ["i", "new"]), sizes={"new": 4}).shape == (2, 4)

    def test_may_repeat_what_is_known(self) -> None:
        assert resolved(("ij->i", (2, 3)), sizes={"i": 2, "j": 3}).shape == (2,)

    @pytest.mark.parametrize(
        ("sizes", "reason"),
        [
            ({"i": 3}, "EINSUM_DIMENSION"),
            ({"k": -1}, "EINSUM_DIMENSION"),
            ({"k": 2, "z": 3}, "EINSUM_OUTPUT"),
            ({"k": 2.5}, "INVALID_ATTRIBUTE"),
            ({"kk": 2}, "EINSUM_SYNTAX"),
            ({0: 2}, "EINSUM_SYNTAX"),
        ],
    )
    def test_mistakes(self, sizes: Mapping[Any, Any], reason: str) -> None:
        with pytest.raises(InvalidArgument) as caught:
            resolved(("i->ik", (2,)), sizes=sizes)
        assert caught.value.reason == reason

    def test_do_not_broadcast_an_operand(self) -> None:
        with pytest.raises(InvalidArgument, match="does not broadcast") as caught:
            resolved(("ij->ij", (1, 3)), sizes={"i": 4})
        assert caught.value.reason == "EINSUM_DIMENSION"

    def test_on_the_wire_come_in_pairs(self) -> None:
        with pytest.raises(InvalidArgument, match="in pairs"):
            resolve(((2,),), subscripts="i->ik", size_labels=(ord("k"),), size_values=())


class TestOrder:
    def test_parentheses_make_groups(self) -> None:
        shapes = ((2, 3), (3, 4), (4, 5), (5, 6))
        assert resolve(shapes, subscripts="ij,jk,kl,lm").groups == ((0, 1, 2, 3),)
        assert resolve(shapes, subscripts="ij,(jk,kl),lm").groups == ((1, 2), (0, 4, 3))
        assert resolve(shapes, subscripts="((ij,jk),(kl,lm))").groups == ((0, 1), (2, 3), (4, 5))

    def test_a_path_makes_groups(self) -> None:
        shapes = ((2, 3), (3, 4), (4, 5))
        found = resolved(("ij,jk,kl", *shapes), path=[(1, 2), (0, 1)])
        assert found.groups == ((1, 2), (0, 3))
        assert resolved(("ij,jk,kl", *shapes), path=[(0, 1, 2)]).groups == ((0, 1, 2),)
        assert resolved(("ij", (2, 3)), path=[(0,)]).groups == ()
        assert resolved(("ij,jk,kl", *shapes), path=[(1,), (0, 2), (0, 1)]).groups == (
            (0, 1),
            (2, 3),
        )

    def test_deep_nesting_needs_no_recursion(self) -> None:
        n = 3000
        subscripts = "(" * n + ",".join(["i", *["i)"] * n]) + "->i"
        assert len(resolve(((2,),) * (n + 1), subscripts=subscripts).groups) == n

    @pytest.mark.parametrize("path", [[(0, 3)], [(0, 0)], [(0, 1)], [(-1, 0)], [()], "greedy", 3])
    def test_paths_that_do_not_fit(self, path: Any) -> None:
        with pytest.raises(InvalidArgument) as caught:
            resolved(("ij,jk,kl", (2, 3), (3, 4), (4, 5)), path=path)
        assert caught.value.reason == "INVALID_ATTRIBUTE"

    def test_parentheses_and_a_path_are_too_much(self) -> None:
        with pytest.raises(InvalidArgument) as caught:
            resolved(("(ij,jk)", (2, 3), (3, 4)), path=[(0, 1)])
        assert caught.value.reason == "EINSUM_SYNTAX"


def optimized(count: int, optimize: Any, subscripts: str | None = None, **others: Any) -> Any:
    """The einsum of a chain of matrices, or of some in parentheses."""
    terms = subscripts or ",".join(chr(945 + i) + chr(946 + i) for i in range(count))
    shapes = ((2, 2),) * count
    return resolved((terms, *shapes), optimize=optimize, **others)


class TestOptimize:
    @pytest.mark.parametrize(
        ("given", "search"),
        [
            (None, None),
            (True, None),
            (np.True_, None),
            ("auto", None),
            (False, "naive"),
            (np.False_, "naive"),
            ("auto-hq", "auto-hq"),
            ("Greedy", "greedy"),
            ("eager", "greedy"),
            ("opportunistic", "greedy"),
            ("dynamic-programming", "dp"),
            ("cotengra", "cotengra"),
        ],
    )
    def test_names(self, given: Any, search: str | None) -> None:
        assert optimized(4, given).search == search

    def test_where_there_is_nothing_to_choose_plans_are_shared(self) -> None:
        assert optimized(2, "optimal") == optimized(2, None)
        assert optimized(4, "optimal") != optimized(4, None)

    @pytest.mark.parametrize("path", [[(1, 2), (0, 1)], ["einsum_path", (1, 2), (0, 1)]])
    def test_a_path(self, path: Any) -> None:
        assert optimized(3, path) == optimized(3, None, path=[(1, 2), (0, 1)])

    def test_parentheses_leave_it_the_order_in_a_group(self) -> None:
        found = optimized(4, "greedy", "(ab,bc,cd),de")
        assert (found.groups, found.search) == (((0, 1, 2), (4, 3)), "greedy")

    def test_an_unknown_name_is_told_the_nearest(self) -> None:
        with pytest.raises(InvalidArgument, match="'greedy'") as caught:
            optimized(3, "gredy")
        assert caught.value.reason == "INVALID_ATTRIBUTE"

    @pytest.mark.parametrize(
        ("name", "most"), [("optimal", 14), ("branch-all", 7), ("branch-2", 14), ("dp", 25)]
    )
    def test_exhaustive_searches_have_a_limit(self, name: str, most: int) -> None:
        assert optimized(most, name).search == name
        with pytest.raises(InvalidArgument, match=f"at most {most}.*auto-hq") as caught:
            optimized(most + 1, name)
        assert caught.value.reason == "INVALID_ATTRIBUTE"

    def test_the_limit_is_for_a_group(self) -> None:
        terms = [chr(97 + i) + chr(98 + i) for i in range(20)]
        subscripts = f"({','.join(terms[:10])}),({','.join(terms[10:])})"
        assert optimized(20, "optimal", subscripts).search == "optimal"

    @pytest.mark.parametrize("given", [3, ("greedy", 1000), object(), max, "", [(0, 5)]])
    def test_what_it_cannot_be(self, given: Any) -> None:
        with pytest.raises(InvalidArgument) as caught:
            optimized(3, given)
        assert caught.value.reason == "INVALID_ATTRIBUTE"

    @pytest.mark.parametrize("optimize", ["greedy", "auto", False, [(0, 1), (0, 1)]])
    def test_not_beside_a_path(self, optimize: Any) -> None:
        with pytest.raises(InvalidArgument, match="Leave one of them out") as caught:
            optimized(3, optimize, path=[(1, 2), (0, 1)])
        assert caught.value.reason == "INVALID_ATTRIBUTE"

    def test_a_server_trusts_no_client(self) -> None:
        with pytest.raises(InvalidArgument):
            resolve(((2,),) * 3, subscripts="a,b,c", optimize="best")
        with pytest.raises(InvalidArgument):
            resolve(((2,),) * 3, subscripts="a,b,c", optimize="dp", path=((0, 1), (0, 1)))


def test_a_surrogate_is_refused_before_it_travels() -> None:
    with pytest.raises(InvalidArgument) as caught:
        einsum_attributes(("a\udc80->a", (2, 2)))
    assert caught.value.reason == "EINSUM_SYNTAX"


def test_a_result_of_too_many_axes_is_refused() -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolve(((1,),) * 65, labels=tuple((i,) for i in range(65)))
    assert caught.value.reason == "EINSUM_RANK"
    assert caught.value.details == {"expected": "64", "actual": "65"}


@pytest.mark.parametrize(
    "attributes", [{}, {"output": (0,)}, {"subscripts": "i", "labels": ((0,),)}]
)
def test_one_notation_at_a_time(attributes: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        resolve(((2,),), **attributes)
    assert caught.value.reason == "EINSUM_SYNTAX"


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([F32, F64], F64),
        ([F32, C64], C64),
        ([F64, C64], np.dtype("complex128")),
        ([F32, I64], F32),
        ([BOOL, F32], F32),
        ([BOOL, I64], I64),
        ([BOOL, BOOL], BOOL),
    ],
)
def test_dtype(dtypes: Sequence[np.dtype[Any]], expected: np.dtype[Any]) -> None:
    avals = tuple(aval((2,), dtype) for dtype in dtypes)
    assert infer(EINSUM, bind(EINSUM, {"subscripts": "i,i->i"}), avals)[0].dtype == expected
