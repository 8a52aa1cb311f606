"""How an einsum is lowered: which array calls it comes down to, in which order, and what is cached."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.einsum import resolve
from backhaul_proto.errors import InvalidArgument
from backhaul_server.engine.arrays import Namespace, numpy_namespace
from backhaul_server.engine.einsum.plan import Binary, Plan, make_plan
from backhaul_server.engine.einsum.search import find_order
from backhaul_server.engine.engine import Engine, PreparedCall

Array = np.ndarray[Any, Any]
F64 = np.dtype("float64")


class Recorder:
    """An engine whose namespace writes down which functions are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        xp = numpy_namespace()
        names = (
            "dot",
            "matmul",
            "multiply",
            "einsum",
            "sum",
            "diagonal",
            "conj",
            "broadcast_to",
            "add",
        )
        supplied = {name: self._recorded(name, getattr(xp, name)) for name in names}
        self.engine = Engine(Namespace("recorded", xp, supplied))

    def _recorded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            self.calls.append(name)
            return function(*args, **keywords)

        return call

    def forward(self, subscripts: str, *operands: Array, **attributes: Any) -> list[str]:
        """The calls that the value takes."""
        self.operands = operands
        avals = tuple(aval(x.shape, x.dtype) for x in operands)
        attributes["subscripts"] = subscripts
        self.call: PreparedCall = self.engine.prepare("einsum", attributes, avals)
        result = self.call.forward(*operands)
        self.y = result[0] if self.call.keeps else result
        self.residual = result[1] if self.call.keeps else None
        return self._taken()

    def backward(self, needs: Sequence[bool] | None = None) -> list[str]:
        """The calls that the cotangents take."""
        self.sent = self.call.cotangents(
            self.engine.plain,
            np.ones_like(self.y),
            self.y,
            self.operands,
            needs or [True] * len(self.operands),
            **({"residual": self.residual} if self.call.keeps else {}),
        )
        return self._taken()

    def _taken(self) -> list[str]:
        taken, self.calls = self.calls, []
        return taken


def evaluate(call: PreparedCall, operands: Sequence[Array]) -> tuple[Array, dict[str, Any]]:
    """The value, and what the derivatives get as keywords."""
    if not call.keeps:
        return call.forward(*operands), {}
    y, residual = call.forward(*operands)
    return y, {"residual": residual}


def ones(*shape: int, dtype: Any = F64) -> Array:
    return np.ones(shape, dtype)


def plan_of(subscripts: str, *shapes: tuple[int, ...], **attributes: Any) -> Plan:
    einsum = resolve(shapes, subscripts=subscripts, **attributes)
    return make_plan(einsum, (F64,) * len(shapes), F64)


def pairs(plan: Plan) -> list[tuple[int, int]]:
    """The slots that each step with two operands reads."""
    return [(step.first, step.second) for step in plan.steps if isinstance(step, Binary)]


class TestLowering:
    @pytest.mark.parametrize(
        ("subscripts", "shapes", "forward", "backward"),
        [
            ("ij,jk->ik", [(2, 3), (3, 4)], ["dot"], ["dot", "dot"]),
            ("ji,kj->ki", [(3, 2), (4, 3)], ["dot"], ["dot", "dot"]),
            ("ij,ij->", [(2, 3), (2, 3)], ["dot"], ["multiply", "multiply"]),
            ("bij,bjk->bik", [(5, 2, 3), (5, 3, 4)], ["matmul"], ["matmul", "matmul"]),
            ("aij,ajk->aik", [(64, 2, 3), (64, 3, 4)], ["einsum"], ["einsum", "einsum"]),
            ("ij,ij->ij", [(2, 3), (2, 3)], ["multiply"], ["multiply", "multiply"]),
            ("i,j->ij", [(2,), (3,)], ["multiply"], ["dot", "dot"]),
            ("i,j->ij", [(256,), (256,)], ["einsum"], ["dot", "dot"]),
            (",ij->ij", [(), (2, 3)], ["multiply"], ["dot", "multiply"]),
            ("ij->ij", [(2, 3)], [], []),
            ("ij->ji", [(2, 3)], [], []),
            ("ij->i", [(2, 3)], ["sum"], ["broadcast_to"]),
            ("ii->i", [(3, 3)], ["diagonal"], []),
            ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)], ["dot"] * 2, ["dot"] * 4),
        ],
    )
    def test_calls(
        self, subscripts: str, shapes: Any, forward: list[str], backward: list[str]
    ) -> None:
        recorder = Recorder()
        assert recorder.forward(subscripts, *(ones(*shape) for shape in shapes)) == forward
        assert recorder.backward() == backward

    def test_a_label_of_three_operands_is_split_into_pairs(self) -> None:
        recorder = Recorder()
        calls = recorder.forward("ia,ja,ka->ijk", ones(2, 3), ones(4, 3), ones(5, 3))
        assert calls == ["multiply", "dot"]
        assert np.array_equal(recorder.y, np.full((2, 4, 5), 3.0))

    def test_reverse_shares_the_tree(self) -> None:
        recorder = Recorder()
        chain = [ones(2, 2) for _ in range(5)]
        assert len(recorder.forward("ab,bc,cd,de,ef->af", *chain)) == 4
        assert len(recorder.backward()) == 8  # two a step, whatever the number of operands

    def test_operands_without_need_cost_nothing(self) -> None:
        recorder = Recorder()
        recorder.forward("ab,(bc,cd)->ad", ones(2, 2), ones(2, 2), ones(2, 2))
        assert recorder.backward([True, False, False]) == ["dot"]
        assert recorder.backward([False, True, False]) == ["dot", "dot"]
        assert [g is None for g in recorder.sent] == [True, False, True]

    def test_only_complex_operands_are_conjugated(self) -> None:
        recorder = Recorder()
        recorder.forward("ij,jk->ik", ones(2, 2), ones(2, 2, dtype=np.complex128))
        assert recorder.backward() == ["conj", "dot", "dot"]
        assert [g.dtype for g in recorder.sent if g is not None] == [F64, np.complex128]

    def test_a_broadcast_axis_is_never_filled(self) -> None:
        recorder = Recorder()
        calls = recorder.forward("ij,jk->ik", ones(2, 1), ones(3, 4))
        assert calls == ["sum", "multiply"]
        assert np.array_equal(recorder.y, np.full((2, 4), 3.0))


class TestDtypes:
    def test_what_lies_between_is_computed_in_the_results_precision(self) -> None:
        a = np.array([1e-3, 1.0], np.float32)
        call = Recorder()
        call.forward("i,i,i->i", a, a, np.ones(2), path=((0, 1), (0, 1)))
        assert call.y[0] == np.float64(a[0]) * np.float64(a[0])

    def test_small_integers_do_not_overflow_on_the_way(self) -> None:
        call = Recorder()
        small = np.array([100], np.int8)
        call.forward("i,i,i->i", small, small, np.array([1]), path=((0, 1), (0, 1)))
        assert call.y[0] == 10000


class TestOrder:
    def test_parentheses_are_kept(self) -> None:
        plan = plan_of("ij,(jk,kl)->il", (2, 3), (3, 400), (400, 4))
        assert pairs(plan) == [(1, 2), (0, 3)]

    def test_a_path_is_kept(self) -> None:
        shapes = ((2, 3), (3, 4), (4, 5))
        plan = plan_of("ij,jk,kl->il", *shapes, path=((0, 2), (0, 1)))
        assert pairs(plan) == [(0, 2), (1, 3)]

    def test_a_path_that_names_the_later_operand_first(self) -> None:
        recorder = Recorder()
        a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
        recorder.forward("ij,jk->ik", a, b, path=((1, 0),))
        assert np.array_equal(recorder.y, a @ b)

    def test_a_shared_batch_does_not_spoil_the_search(self) -> None:
        """A tree of matrices with a batch of vectors at its leaves: vectors go in first."""
        batch, depth = 99, 4
        members = [frozenset({n, 2 * n, 2 * n + 1} - {1}) for n in range(1, 2**depth)]
        leaves = [frozenset({batch, n}) for n in range(2**depth, 2 ** (depth + 1))]
        sizes = dict.fromkeys(range(2 ** (depth + 1)), 8) | {batch: 10**5}
        inputs = [*members, *leaves]
        labels, uses = list(inputs), dict.fromkeys(sizes, 2) | {batch: len(leaves) + 1}
        largest = 0
        for first, second in find_order(inputs, frozenset({batch}), sizes):
            both = labels[first] & labels[second]
            for label in both:
                uses[label] -= 1
            labels.append((labels[first] | labels[second]) - {x for x in both if uses[x] == 1})
            largest = max(largest, int(np.prod([sizes[label] for label in labels[-1]])))
        assert largest <= 10**5 * 8**2

    def test_is_the_same_in_every_process(self) -> None:
        program = (
            "from backhaul_server.engine.einsum.search import find_order\n"
            "ring = [frozenset({i, (i + 1) % 30, 30 + i // 3}) for i in range(30)]\n"
            "print(find_order(ring, frozenset({33}), {i: 40 + i % 7 for i in range(40)}))\n"
        )
        found = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for seed in ("1", "2")
        }
        assert len(found) == 1


class TestLimits:
    def test_more_labels_than_letters(self) -> None:
        n = 120
        labels = tuple((i, i + 1) for i in range(n))
        avals = (aval((2, 2), F64),) * n
        call = Engine().prepare("einsum", {"labels": labels, "output": (0, n)}, avals)
        y, _ = evaluate(call, [np.eye(2)] * n)
        assert np.array_equal(y, np.eye(2))

    def test_axes_of_size_one_do_not_count(self) -> None:
        left, right = tuple(range(40)), tuple(range(30, 70))
        engine = Engine()
        avals = (aval((1,) * 40, F64),) * 2
        call = engine.prepare("einsum", {"labels": (left, right), "output": (5, 65)}, avals)
        x = np.full((1,) * 40, 3.0)
        y, kept = evaluate(call, (x, x))
        assert np.array_equal(y, [[9.0]])
        sent = call.cotangents(engine.plain, y, y, (x, x), (True, True), **kept)
        assert [g.shape for g in sent] == [x.shape, x.shape]

    def test_an_order_through_too_many_axes_is_refused(self) -> None:
        n = 66
        labels = tuple((i,) for i in range(n)) * 2
        path = ((0, 1), *((0, left - 1) for left in range(2 * n - 1, 1, -1)))
        with pytest.raises(InvalidArgument, match="65 axes") as caught:
            Engine().prepare("einsum", {"labels": labels, "path": path}, (aval((2,), F64),) * 2 * n)
        assert caught.value.reason == "EINSUM_RANK"


class TestCache:
    def test_expressions_that_differ_in_letters_share_a_plan(self) -> None:
        assert plan_of("ij,jk->ik", (2, 3), (3, 4)) is plan_of("ab,bc->ac", (2, 3), (3, 4))
        assert plan_of("ij,jk->ik", (2, 3), (3, 4)) is not plan_of("ij,jk->ik", (2, 3), (3, 5))

    def test_is_bounded(self) -> None:
        assert make_plan.cache_info().maxsize == 1024
        assert resolve.cache_info().maxsize == 1024

    def test_may_be_filled_from_many_threads(self) -> None:
        def run(n: int) -> bool:
            recorder = Recorder()
            recorder.forward("ij,jk,kl->il", ones(n, n), ones(n, n), ones(n, n))
            return bool(np.array_equal(recorder.y, np.full((n, n), float(n * n))))

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(run, [n % 10 + 2 for n in range(200)]))
