"""The reader of YAML that the other tests here use."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.deploy.yaml_text import read, read_all

TEXT = """# A comment.
name: a b  # another
"app/x": "1 # not one"
number: -12
part: 0.25
empty: {}
none:
flow: {a: [1, "x, y", true], b: {}}
items:
- one
- key: value
  deep:
    - - 1
      - 2
text: |
  # kept
    indented

  last
folded: >-
  two
  lines
"""


def test_all_that_it_knows(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(TEXT, encoding="utf-8")
    assert read(path) == {
        "name": "a b",
        "app/x": "1 # not one",
        "number": -12,
        "part": 0.25,
        "empty": {},
        "none": None,
        "flow": {"a": [1, "x, y", True], "b": {}},
        "items": ["one", {"key": "value", "deep": [[1, 2]]}],
        "text": "# kept\n  indented\n\nlast\n",
        "folded": "two lines",
    }
    path.write_text("a: 1\n---\n# none\n---\n- 2\n", encoding="utf-8")
    assert read_all(path) == [{"a": 1}, None, [2]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2\n", "'a' twice"),
        ("a: yes\n", "double quotes"),
        ("a: 0644\n", "double quotes"),
        ("a: &x 1\n", "double quotes"),
        ("a: 'x'\n", "double quotes"),
        ("a: b: c\n", "double quotes"),
        ("a:\n\t- 1\n", "a tab"),
        ("a: one\n  two\n", "not expected"),
        ("a:\n    b: 1\n  c: 2\n", "not expected"),
        ("a: [1, 2\n", "does not end"),
    ],
)
def test_all_else_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read(path)
