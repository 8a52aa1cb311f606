"""docs/adapters.md, section by section: each needs a library."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
_NEEDS = {
    "Adapters": (),
    "SciPy": (),
    "JAX": ("jax",),
    "PyTorch": ("torch",),
    "PyTensor and PyMC": ("pytensor",),
    "autoray, cotengra, quimb": ("quimb",),
    "opt_einsum": (),
}


def _sections() -> dict[str, str]:
    found = {}
    for part in f"\n{_PAGE.read_text('utf-8')}".split("\n## "):
        title, _, text = part.strip().removeprefix("# ").partition("\n")
        found[title] = text
    return found


def test_every_section_is_known() -> None:
    assert list(_sections()) == list(_NEEDS)


@pytest.mark.parametrize("title", _NEEDS)
def test_the_examples_of_a_section(title: str) -> None:
    for library in _NEEDS[title]:
        pytest.importorskip(library, reason=f"{library} is not installed: make adapters-test")
    test = doctest.DocTestParser().get_doctest(_sections()[title], {}, title, str(_PAGE), 0)
    assert test.examples
    failed = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed
    assert failed == 0
