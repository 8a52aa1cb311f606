"""The open columns of a tape, and the blocks that they become."""

from __future__ import annotations

import numpy as np
import pytest

from backhaul.columns import Columns, translated
from backhaul.known_blocks import SMALL_BLOCK, WrittenBlocks
from backhaul_proto import codec
from backhaul_proto.messages import CONSTANT, LEAF, Block, Call

LEAF_CALL = Call(LEAF)
CONSTANT_CALL = Call(CONSTANT)
MULTIPLY = Call("multiply", (), 2)
NEGATIVE = Call("negative", (), 1)
UNSTACK = Call("unstack", (("axis", 0),), 1, 2)


def columns(base: int, *steps: tuple[Call, list[int]]) -> Columns:
    """Columns of these steps; a source's array holds its place among the steps."""
    made = Columns(base)
    for place, (call, operands) in enumerate(steps):
        made.steps.append(made.place(call))
        made.operands += operands
        if call.op in (LEAF, CONSTANT):
            made.tensors.append(np.array(float(place)))
            made.nbytes += 8
    return made


@pytest.mark.parametrize("count", [1, 500])
def test_operands_are_numbered_by_inputs_then_results(count: int) -> None:
    # Base 10: 7 and 3 are inputs, in the order of their first use; 10 and 12 are own results.
    operands = [10, 7, 3, 12, 7] * count
    numbers, inputs = translated(operands, 10)
    assert inputs == [7, 3]
    assert numbers == [2, 0, 1, 4, 0] * count
    assert all(type(each) is int for each in numbers)


def test_equal_work_has_equal_bytes_wherever_on_the_tape_it_stands() -> None:
    first = columns(5, (LEAF_CALL, []), (MULTIPLY, [5, 2]), (MULTIPLY, [6, 4])).piece(5)
    again = columns(90, (LEAF_CALL, []), (MULTIPLY, [90, 70]), (MULTIPLY, [91, 8])).piece(90)
    assert first is not None
    assert again is not None
    assert codec.write_block(first.block) == codec.write_block(again.block)
    assert (first.base, first.inputs) == (5, [2, 4])
    assert (again.base, again.inputs) == (90, [70, 8])


def test_a_block_holds_each_call_once() -> None:
    piece = columns(2, (MULTIPLY, [1, 1]), (NEGATIVE, [2]), (MULTIPLY, [3, 2])).piece(2)
    assert piece is not None
    assert piece.block.calls == [MULTIPLY, NEGATIVE]
    assert piece.block.steps == [0, 1, 0]
    assert piece.block.operands == [0, 0, 1, 2, 1]


def test_the_steps_from_a_node_on_are_a_block_of_their_own() -> None:
    made = columns(
        1, (LEAF_CALL, []), (NEGATIVE, [1]), (UNSTACK, [2]), (CONSTANT_CALL, []), (MULTIPLY, [4, 5])
    )
    piece = made.piece(5)
    assert piece is not None
    assert piece.block.calls == [CONSTANT_CALL, MULTIPLY]
    assert piece.inputs == [4]
    assert piece.block.operands == [0, 1]
    assert [float(each) for each in piece.tensors] == [3.0]

    rest = made.drop_before(5)
    assert rest.base == 5
    assert rest.piece(5) == piece
    assert rest.nbytes == 8
    assert made.piece(7) is None


def test_what_nothing_needs_is_skipped_and_ids_stay() -> None:
    # 1 leaf, 2 leaf, 3 = -1 (dropped, but 4 needs it), 4 = 3*3, 5 = -2 (dropped), 6, 7 = unstack(4).
    made = columns(
        1,
        (LEAF_CALL, []),
        (LEAF_CALL, []),
        (NEGATIVE, [1]),
        (MULTIPLY, [3, 3]),
        (NEGATIVE, [2]),
        (UNSTACK, [4]),
    )
    kept = made.without_unneeded({2, 3, 5, 6})
    assert kept.skipped() == {2, 5}
    assert [float(each) for each in kept.tensors] == [0.0]
    piece = kept.piece(1)
    assert piece is not None
    assert [piece.block.calls[i].op for i in piece.block.steps] == [
        "leaf",
        "skip",
        "negative",
        "multiply",
        "skip",
        "unstack",
    ]
    assert piece.block.operands == [0, 2, 2, 3]

    assert kept.without_unneeded({1, 2, 3, 4, 5, 6, 7}).skipped() == {1, 2, 3, 4, 5, 6, 7}


def test_what_depends_on_a_failed_node_is_found_through_all_steps() -> None:
    made = columns(5, (NEGATIVE, [3]), (UNSTACK, [5]), (MULTIPLY, [2, 7]), (NEGATIVE, [2]))
    assert made.dependants({3}) == {5: 3, 6: 3, 7: 3, 8: 3}
    assert made.dependants({6}) == {}


def test_a_block_that_comes_again_is_not_written_again() -> None:
    written: list[Block] = []

    def write(block: Block) -> tuple[bytes, bytes]:
        written.append(block)
        return bytes([len(written)]), b""

    blocks = WrittenBlocks(kept=2)
    zero, minus = Call("full", (("value", 0.0),)), Call("full", (("value", -0.0),))
    first, other = Block(1, [zero], [0], [0]), Block(1, [minus], [0], [0])
    assert [blocks.of(each, write)[0] for each in (first, other, first)] == [b"\1", b"\2", b"\1"]
    third = Block(2, [zero], [0], [1])
    assert blocks.of(third, write)[0] == b"\3"
    assert blocks.of(other, write)[0] == b"\4"  # only the latest two are kept
    large = Block(1, [zero], [0] * SMALL_BLOCK, [0] * SMALL_BLOCK)
    assert [blocks.of(large, write)[0] for _ in range(2)] == [b"\5", b"\6"]
