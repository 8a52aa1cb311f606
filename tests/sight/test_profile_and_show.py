"""What steps took, and the picture of a tape."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import backhaul as bh
import backhaul.aio
from backhaul_proto.picture.layers import place
from backhaul_proto.picture.svg import Box, draw
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.stopwatch import Stopwatch
from backhaul_server.engine.tape import Tape


@pytest.fixture
def tape(connection: bh.Connection) -> Iterator[bh.Tape]:
    with bh.Tape(connection) as made:
        yield made


def test_steps_and_derivatives_are_measured_by_op_and_line(tape: bh.Tape) -> None:
    with tape.profile() as profile:
        x = tape.leaf(np.ones((20, 20)))
        for _ in range(3):
            loss = bh.sum(bh.exp(x * 0.5))
            tape.pullback(loss)
    rows = {row.op: row for row in profile.by_op}
    assert set(rows) == {"multiply", "exp", "sum"}
    assert [rows[op].steps for op in ("multiply", "exp", "sum")] == [3, 3, 3]
    assert rows["exp"].nbytes == 3 * 20 * 20 * 8
    assert all(row.seconds > 0 and row.derivative_seconds > 0 for row in rows.values())
    (line,) = profile.by_line
    assert line.source is not None
    assert "test_profile_and_show.py:" in line.source
    assert line.steps == 9
    assert profile.seconds == pytest.approx(sum(row.total for row in profile.rows))
    assert profile.requests == 4  # three questions, and what is sent at its end
    assert "exp" in repr(profile)
    assert "<table" in profile._repr_html_()


def test_nothing_is_measured_outside_of_it(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    with tape.profile() as profile:
        loss = bh.sum(x)
    tape.pullback(loss)
    bh.sum(bh.exp(x)).numpy()
    assert [(row.op, row.derivative_seconds) for row in profile.rows] == [("sum", 0.0)]


def test_a_step_that_ran_before_has_its_derivative_measured(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    loss = bh.sum(bh.exp(x))
    tape.flush()
    with tape.profile() as profile:
        tape.hvp(loss, tangents={x: [1.0, 0.0]})
    rows = {row.op: row for row in profile.by_op}
    assert set(rows) == {"exp", "sum"}
    assert [row.steps for row in rows.values()] == [0, 0]
    assert all(row.derivative_seconds > 0 for row in rows.values())


def test_one_profile_within_another_is_in_both(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    with tape.profile() as outer:
        with tape.profile() as inner:
            bh.exp(x).numpy()
        bh.sin(x).numpy()
    assert {row.op for row in inner.rows} == {"exp"}
    assert {row.op for row in outer.rows} == {"exp", "sin"}


def test_an_empty_profile_says_what_to_do(tape: bh.Tape) -> None:
    assert "with tape.profile()" in repr(tape.profile())


def test_the_steps_of_several_results_are_measured_once() -> None:
    clock = iter(np.arange(100.0))
    stopwatch = Stopwatch(lambda: float(next(clock)))
    tape = Tape(Engine())
    x = tape.leaf(np.array([[2.0, 0.0], [0.0, 3.0]]))
    run = stopwatch.timed(tape.run)
    call = tape.engine.prepare("linalg.qr", {}, (x.aval,))
    q, _ = run(call, [x])
    assert stopwatch.steps == {q: 1.0}
    assert stopwatch.ops == {q: "linalg.qr"}


def test_the_passes_are_measured_by_their_own_clock() -> None:
    clock = iter(np.arange(100.0))
    stopwatch = Stopwatch(lambda: float(next(clock)))
    tape = Tape(Engine())
    x = tape.leaf(np.array([1.0, 2.0]))
    y = tape.apply("exp", [x])
    loss = tape.apply("sum", [y])
    with stopwatch.passes():
        tape.pullback(loss)
    tape.pullback(loss)  # measured no more
    assert stopwatch.derivatives == {loss: 1.0, y: 1.0}


def test_a_table_shows_what_the_server_holds(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 0.0])
    loss = bh.sum(bh.log(x))
    picture = tape.show()
    assert [(each.op, each.trouble) for each in picture.steps] == [
        ("leaf", ""),
        ("log", "1 Inf"),
        ("sum", "1 Inf"),
    ]
    assert "1 Inf" in repr(picture)
    del loss


def test_the_picture_is_an_svg_with_its_marks_and_times(tape: bh.Tape, tmp_path: Path) -> None:
    with tape.profile():
        x = tape.leaf([1.0, -1.0])
        loss = bh.sum(bh.sqrt(x) * tape.constant([1.0, 2.0]))
        tape.pullback(loss)
    picture = tape.show(loss)
    root = ET.fromstring(picture.svg)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"leaf", "sqrt", "constant", "multiply", "sum", "NaN"} <= set(texts)
    assert any(text is not None and text.endswith(" ms") for text in texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == 4
    assert "prefers-color-scheme:dark" in picture.svg
    picture.save(tmp_path / "tape.svg")
    assert (tmp_path / "tape.svg").read_text("utf-8") == picture.svg
    assert picture.svg in picture._repr_html_()


def test_a_large_tape_is_bounded_and_says_so(tape: bh.Tape) -> None:
    total = tape.leaf(0.0)
    for _ in range(300):
        total = total + 1.0
    picture = tape.show(max_nodes=20)
    assert len(picture.steps) == 20
    assert picture.left_out == 282
    assert "282 nodes recorded earlier left out" in repr(picture)
    assert "282 nodes" in picture._repr_html_()
    with pytest.raises(bh.InvalidArgument, match="max_nodes is 0"):
        tape.show(max_nodes=0)


def test_an_empty_tape_has_an_empty_picture(tape: bh.Tape) -> None:
    assert repr(tape.show()) == "The tape is empty."
    assert ET.fromstring(tape.show().svg).tag.endswith("svg")


def test_layers_put_everything_below_what_it_was_made_of() -> None:
    found = place({1: [], 2: [], 3: [1], 4: [3, 2], 5: [4, 1]})
    assert found.rows == {1: 0, 3: 1, 2: 1, 4: 2, 5: 3}
    assert len({(found.rows[i], found.columns[i]) for i in found.rows}) == 5
    assert len(found.lines[1, 5]) == 2  # led past two layers


def test_neighbours_stand_in_the_order_of_what_they_are_made_of() -> None:
    found = place({1: [], 2: [], 3: [], 4: [3], 5: [2], 6: [1]})
    above = sorted((1, 2, 3), key=lambda i: found.columns[i])
    below = sorted((4, 5, 6), key=lambda i: found.columns[i])
    assert [{4: 3, 5: 2, 6: 1}[i] for i in below] == above


def test_what_a_program_gives_is_escaped() -> None:
    drawn = draw({1: Box((), "<script>", ("a&b", '"'), "leaf", 0, "<", "</title>")}, label='"<')
    assert "<script>" not in drawn
    ET.fromstring(drawn)


def test_sights_are_awaited_by_aio() -> None:
    async def main() -> tuple[str, str, set[str], int]:
        async with (
            backhaul.aio.connect("embedded") as connection,
            backhaul.aio.Tape(connection) as tape,
        ):
            async with tape.profile() as profile:
                x, y = tape.leaf([1.0, 0.0]), tape.leaf(1.0)
                loss = bh.sum(bh.log(x))
            explained = await tape.explain(loss)
            blamed = await tape.blame(loss)
            assert blamed.first is not None
            assert explained.unreached[0].leaf.node == y.node_id
            shown = await tape.show()
            return (
                explained.unreached[0].why,
                blamed.first.op,
                {row.op for row in profile.rows},
                len(shown.steps),
            )

    assert asyncio.run(main()) == ("unused", "log", {"log", "sum"}, 4)
