"""Nothing of ours turns bytes into objects or code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_OURS = sorted(
    path
    for folder in ("client/backhaul", "server/backhaul_server", "proto/backhaul_proto", "examples")
    for path in (_ROOT / folder).rglob("*.py")
)
_MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
_CALLS = {"eval", "exec", "compile", "__import__"}
_OF_NUMPY = {"load", "save", "savez"}
"""Their files may have pickles in them."""
_OF_A_USER = {
    "client/backhaul/commands/einsum.py": ["np.load", "allow_pickle=False", "np.savez"],
}
"""Files that the one who runs a command names: read without pickles, and written of numbers alone."""


def _uses(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [each.name for each in names if each.name.split(".")[0] in _MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in _MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
                found.append(name)
            case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr=name) if name in _OF_NUMPY:
                found.append(f"np.{name}")
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=False)):
                found.append("allow_pickle=False")
            case ast.keyword(arg="allow_pickle"):
                found.append("allow_pickle")
            case ast.Constant(value=str(text)) if text in _MODULES:
                found.append(text)  # as for importlib
    return found


def test_the_sources_are_there() -> None:
    assert len(_OURS) > 150


@pytest.mark.parametrize("path", _OURS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_no_module_reads_objects_or_code(path: Path) -> None:
    allowed = _OF_A_USER.get(path.relative_to(_ROOT).as_posix(), [])
    assert sorted(_uses(ast.parse(path.read_text("utf-8")))) == sorted(allowed)


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import a, cloudpickle.fast",
        "from dill import loads",
        "eval(text)",
        "np.load(file)",
        "f(allow_pickle=False)",
        "f(allow_pickle=True)",
        "import_module('marshal')",
    ],
)
def test_what_is_looked_for_is_found(source: str) -> None:
    assert len(_uses(ast.parse(source))) == 1
