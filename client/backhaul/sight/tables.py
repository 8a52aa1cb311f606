"""Tables of plain text and of HTML: what sights of a tape look like in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

_STYLE: Final = (
    "<style>table.bh-table{border-collapse:collapse;font:12px ui-monospace,monospace}"
    "table.bh-table th,table.bh-table td{text-align:left;padding:2px 10px 2px 0;white-space:nowrap}"
    "table.bh-table th{opacity:.65;font-weight:600}table.bh-table td.bh-n{text-align:right}</style>"
)


def text_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """Lines of cells in columns. Those of the bits of ``numbers`` stand at their right side.

    >>> print(text_table(["op", "n"], [["exp", "5"], ["multiply", "12"]], numbers=0b10))
    op         n
    exp        5
    multiply  12
    """
    table = [columns, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(columns))]
    lines = []
    for row in table:
        cells = [
            cell.rjust(width) if numbers >> i & 1 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: int = 0) -> str:
    """The same in HTML, escaped."""

    def cell(i: int, text: str) -> str:
        return (
            f'<td class="bh-n">{escape(text)}</td>'
            if numbers >> i & 1
            else f"<td>{escape(text)}</td>"
        )

    head = "".join(f"<th>{escape(each)}</th>" for each in columns)
    body = "".join(
        f"<tr>{''.join(cell(i, text) for i, text in enumerate(row))}</tr>" for row in rows
    )
    return f'{_STYLE}<table class="bh-table"><tr>{head}</tr>{body}</table>'


def html_text(text: str) -> str:
    """A paragraph of plain text, escaped."""
    return f'<p style="white-space:pre-wrap;margin:.4em 0">{escape(text)}</p>'


def milliseconds(seconds: float) -> str:
    """A time for people, in ms.

    >>> milliseconds(0.0), milliseconds(2.5e-6), milliseconds(1.5)
    ('', '0.003', '1500')
    """
    if not seconds:
        return ""
    ms = seconds * 1e3
    return f"{ms:.3f}" if ms < 10 else f"{ms:.1f}" if ms < 1000 else f"{ms:.0f}"
