"""The table of docs/promotion.md: every pair of dtypes and kind of Python number, inferred and computed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backhaul as bh

PAGE = Path(__file__).parents[2] / "docs" / "promotion.md"
_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_NUMBERS: dict[str, Any] = {"True": True, "2": 2, "2.0": 2.0, "2j": 2j}


def _dtype(short: str) -> np.dtype[Any]:
    return np.dtype("bool" if short == "b" else _KINDS[short[0]] + short[1:])


def _table() -> list[tuple[str, str, str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    _, *columns = _cells(lines[0])
    found = []
    for line in lines[2:]:
        row, *results = _cells(line)
        found += [
            (row.strip("*"), column, result)
            for column, result in zip(columns, results, strict=True)
        ]
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"\|", line)[1:-1]]


TABLE = _table()


def test_the_table_is_whole() -> None:
    assert len(TABLE) == (13 + 4) * 13
    assert {row for row, _, _ in TABLE} == {column for _, column, _ in TABLE} | set(_NUMBERS)


@pytest.mark.parametrize("row", sorted({row for row, _, _ in TABLE}))
def test_a_row(row: str, tape: bh.Tape) -> None:
    """Both orders, by an op that promotes; the value has the dtype that was inferred."""
    sums = []
    for _, column, expected in (each for each in TABLE if each[0] == row):
        x = tape.constant(np.ones(2, _dtype(column)))
        given = _NUMBERS[row] if row in _NUMBERS else np.ones(2, _dtype(row))
        for y in (bh.multiply(x, given), bh.multiply(given, x)):
            assert y.dtype == _dtype(expected), (row, column)
            sums.append(y)
    for y, value in zip(sums, bh.fetch(*sums), strict=True):
        assert value.dtype == y.dtype
        np.testing.assert_array_equal(value, np.full(2, abs(_NUMBERS.get(row, 1))) * _unit(row))


def _unit(row: str) -> complex:
    """What the product's elements are to be divided by their size: 1, or the imaginary unit."""
    return 1j if row == "2j" else 1


@pytest.mark.parametrize("row", ["f32", "f64", "c64", "c128"])
def test_gradients_keep_their_operands_dtype(row: str, tape: bh.Tape) -> None:
    for _, column, expected in (each for each in TABLE if each[0] == row):
        x = tape.leaf(np.ones(2, _dtype(row)))
        y = x * np.full(2, 1, _dtype(column))
        gradient = tape.pullback(y, cotangent=np.ones(2, _dtype(expected)))[x]
        assert gradient.dtype == x.dtype
        np.testing.assert_array_equal(gradient, np.ones(2))
