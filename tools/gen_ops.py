"""Write what follows from the op catalog: the client's functions, its exports, and docs/ops.md.

python tools/gen_ops.py           write the files
python tools/gen_ops.py --check   fail when one of them is not current
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np

from backhaul_proto.catalog.avals import FLOAT64, Aval, aval
from backhaul_proto.catalog.ops import CATALOG, Attribute, Op, Sample, bind
from backhaul_server.engine import ops as rules
from backhaul_server.engine.rules import derivatives

assert rules.__all__  # importing the package is what fills the registry

ROOT: Final = Path(__file__).resolve().parent.parent
CLIENT: Final = ROOT / "client" / "backhaul"
BY_HAND: Final = frozenset(
    {
        "argsort",
        "clip",
        "concat",
        "diff",
        "einsum",
        "getitem",
        "linalg.solve_triangular",
        "linalg.svd_truncated",
        "pad",
        "quantile",
        "scatter_add",
        "sort",
        "std",
        "var",
    }
)
"""Public ops whose function is written by hand, each in the client's file of its family."""
LINALG_BY_HAND: Final = MappingProxyType(
    {
        "cho_solve": "backhaul.triangular.cho_solve",
        "matrix_norm": "backhaul.norms.matrix_norm",
        "norm": "backhaul.norms.norm",
        "solve_triangular": "backhaul.triangular.solve_triangular",
        "svd_truncated": "backhaul.truncation.svd_truncated",
    }
)
"""Functions of the module linalg that are written by hand, with where they are."""

TYPES: Final = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "string": "str",
    "dtype": "DTypeLike",
    "ints": "Sequence[int]",
    "axes": "int | Sequence[int]",
    "int_lists": "Sequence[Sequence[int]]",
    "paired_axes": "int | Sequence[int | Sequence[int]]",
    "index": "Index",
}
SHOWN: Final = {"getitem": "x[index]", "scatter_add": "bh.scatter_add(x, index, updates)"}
"""How an op is called whose function takes its index and operands in an order of its own."""

WIDTH: Final = 100


def main(arguments: Sequence[str]) -> int:
    """Write the files, or compare them; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(arguments).check
    stale = []
    for path, text in generated():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(path.relative_to(ROOT))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for each in stale:
        print(f"{each}: {'not current' if check else 'written'}")
    if check and stale:
        print("To mend it: make ops", file=sys.stderr)
        return 1
    return 0


def generated() -> Iterable[tuple[Path, str]]:
    """Each generated file with its text."""
    public = [CATALOG[name] for name in sorted(CATALOG) if not CATALOG[name].private]
    written = [op for op in public if op.name not in BY_HAND]
    plain = [op for op in written if "." not in op.name]
    linear = [op for op in written if op.name.startswith("linalg.")]
    shared = {
        alias.removeprefix("linalg."): f"backhaul._ops.{op.name}"
        for op in plain
        for alias in op.aliases
        if alias.startswith("linalg.")
    }
    yield CLIENT / "_ops.py", module("The ops of the catalog as functions.", plain)
    yield (
        CLIENT / "linalg.py",
        module(
            "Linear algebra, named as in the array API: ``bh.linalg.cholesky``.",
            linear,
            {**shared, **LINALG_BY_HAND},
        ),
    )
    init = CLIENT / "__init__.py"
    package = exports(init.read_text(encoding="utf-8"), "backhaul._ops", names(plain))
    yield init, package
    init = CLIENT / "aio" / "__init__.py"
    yield init, exports(init.read_text(encoding="utf-8"), "backhaul", all_of(package))
    yield ROOT / "docs" / "ops.md", page(public)


# ---------------------------------------------------------------- functions


def module(title: str, ops: Sequence[Op], further: Mapping[str, str] = MappingProxyType({})) -> str:
    """A module with a function for each op; ``further`` maps more names to functions of other modules."""
    functions = "\n\n".join(function(op) for op in ops)
    types = {TYPES[each.kind] for op in ops for each in op.attributes}
    sequences = any("Sequence" in each for each in types) or any(op.variadic for op in ops)
    several = any(op.several for op in ops)
    recorders = "record, record_several" if several else "record"
    lines = [
        f'"""{title}\n\nGenerated from the catalog by tools/gen_ops.py: `make ops`.\n"""',
        "from __future__ import annotations",
        "from typing import TYPE_CHECKING, Final",
        f"from backhaul.recording import {recorders}",
        *(imported(name, origin) for name, origin in further.items()),
        "from backhaul_proto.catalog.ops import get",
        "if TYPE_CHECKING:",
        "    from collections.abc import Sequence" if sequences else "",
        "    from numpy.typing import DTypeLike" if "DTypeLike" in types else "",
        "    from backhaul.recording import Operand",
        "    from backhaul.tensor import TrackedTensor",
        "",
        f"__all__ = {sorted([*names(ops), *further])!r}",
        "",
        "\n".join(f"{constant(op)}: Final = get({op.name!r})" for op in ops),
        functions,
        "\n".join(f"{alias} = {short_name(op)}" for op in ops for alias in aliases(op)),
    ]
    return formatted("\n".join(lines))


def imported(name: str, origin: str) -> str:
    """The import of a function under this name."""
    home, _, function = origin.rpartition(".")
    return f"from {home} import {function} as {name}"


def function(op: Op) -> str:
    """The source of an op's function."""
    parameters = [f"{name}: Operand" for name in op.operands if not name.startswith("*")]
    operands = [name for name in op.operands if not name.startswith("*")]
    if op.variadic:
        rest = op.operands[-1].removeprefix("*")
        parameters.append(f"{rest}: Sequence[Operand]")
        operands.append(f"*{rest}")
    parameters.append("/")
    parameters += [parameter(each) for each in op.attributes if not each.keyword_only]
    keywords = [parameter(each) for each in op.attributes if each.keyword_only]
    parameters += ["*", *keywords] if keywords else []
    result = "tuple[TrackedTensor, ...]" if op.several else "TrackedTensor"
    listed = ", ".join(operands) + ("," if len(operands) == 1 else "")
    call = ", ".join([constant(op), f"({listed})", *(each.name for each in op.attributes)])
    return (
        f"def {short_name(op)}({', '.join(parameters)}) -> {result}:\n"
        f"{textwrap.indent(docstring(op), '    ')}\n"
        f"    return {'record_several' if op.several else 'record'}({call})\n"
    )


def parameter(attribute: Attribute) -> str:
    """An attribute as a parameter."""
    kind = TYPES[attribute.kind]
    if attribute.required:
        return f"{attribute.name}: {kind}"
    optional = " | None" if attribute.default is None else ""
    return f"{attribute.name}: {kind}{optional} = {attribute.default!r}"


def docstring(op: Op) -> str:
    """The docstring of an op's function: the catalog's words, arguments, errors, an example."""
    words, _, raises = op.doc.strip().partition("\n\nRaises:\n")
    names = [name.removeprefix("*") for name in op.operands]
    arguments = [f"{name}: Tensor, array or number." for name in names]
    if op.variadic:
        arguments[-1] = f"{names[-1]}: Tensors, arrays or numbers."
    arguments += [f"{each.name}: {each.doc}" for each in op.attributes]
    errors = [
        "InvalidArgument: an operand or attribute that cannot be right.",
        "MissingNode: an operand is on another tape, or was released.",
        *(line.strip() for line in raises.splitlines()),
    ]
    first, _, rest = words.partition(" ")
    if first in names:  # a name must not be taken for a word that begins a sentence
        words = f"`{first}` {rest}"
    sections = [
        "\n".join(wrapped(line) for line in words.splitlines()),
        "Args:\n" + "\n".join(entry(each) for each in arguments),
        "Raises:\n" + "\n".join(entry(each) for each in errors),
        "Example:\n" + textwrap.indent(example(op), "    "),
    ]
    text = "\n\n".join(sections)
    quotes = 'r"""' if "\\" in text else '"""'
    return f'{quotes}{text}\n"""'


def wrapped(line: str) -> str:
    """A line of a docstring within the width."""
    return textwrap.fill(line, WIDTH - 4) if line else ""


def entry(text: str) -> str:
    """An entry of a docstring's section, its further lines indented."""
    return textwrap.fill(text, WIDTH - 4, initial_indent="    ", subsequent_indent="        ")


def example(op: Op) -> str:
    """A doctest of the op on one of its samples: the result's shape, which is known without a server."""
    sample = next((each for each in op.samples if each.attributes), op.samples[0])
    names = [name.removeprefix("*") for name in op.operands]
    if op.variadic:
        count = len(sample.shapes) - len(names) + 1
        listed = [f"x{i}" for i in range(count)]
        given = [*names[:-1], *listed]
        call = ", ".join([*names[:-1], f"[{', '.join(listed)}]"])
    else:
        given, call = names, ", ".join(names)
    leaves = [
        f">>> {name} = {value(sample, i)}" for i, name in enumerate(given[: len(sample.shapes)])
    ]
    attributes = ", ".join(argument(op, name, v) for name, v in sample.attributes.items())
    prefix = "bh.linalg" if op.name.startswith("linalg.") else "bh"
    called = f"{prefix}.{short_name(op)}({call}{', ' if attributes else ''}{attributes})"
    result = inferred(op, sample)
    if isinstance(result, tuple):
        shown, expected = f"[each.shape for each in {called}]", repr([x.shape for x in result])
    else:
        shown, expected = f"{called}.shape", repr(result.shape)
    return "\n".join(
        [
            ">>> import numpy as np, backhaul as bh",
            ">>> tape = bh.Tape()",
            *leaves,
            f">>> {shown}",
            expected,
        ]
    )


def value(sample: Sample, position: int) -> str:
    """An operand of a sample in an example."""
    if position in sample.constants:
        array = f"np.array({sample.constants[position]!r})"
        return array if len(sample.constants) < len(sample.shapes) else f"tape.constant({array})"
    return f"tape.leaf(np.ones({sample.shapes[position]!r}))"


def argument(op: Op, name: str, value: object) -> str:
    """An attribute as it is given in a call."""
    spec = next(each for each in op.attributes if each.name == name)
    return f"{name}={value!r}" if spec.keyword_only else repr(value)


def inferred(op: Op, sample: Sample) -> Aval | tuple[Aval, ...]:
    """What the op gives for a sample: a tuple for an op with several results."""
    avals = tuple(
        aval(shape, np.asarray(sample.constants[i]).dtype if i in sample.constants else FLOAT64)
        for i, shape in enumerate(sample.shapes)
    )
    return op.infer(avals, **dict(bind(op, sample.attributes)))


def short_name(op: Op) -> str:
    """The op's name within its module."""
    return op.name.rpartition(".")[2]


def names(ops: Sequence[Op]) -> list[str]:
    """The names of the ops' functions in their module, aliases included."""
    return sorted([*map(short_name, ops), *(alias for op in ops for alias in aliases(op))])


def aliases(op: Op) -> tuple[str, ...]:
    """The further names of the op's function in its own module."""
    return tuple(alias for alias in op.aliases if "." not in alias)


def constant(op: Op) -> str:
    """The name of the module's constant for the op."""
    return f"_{short_name(op).upper()}"


def formatted(source: str) -> str:
    """The source as the formatter and the import sorter leave it."""
    for command in (["check", "--fix-only", "--quiet"], ["format"]):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "ruff",
                *command,
                "--stdin-filename",
                str(CLIENT / "_ops.py"),
                "-",
            ],
            input=source,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        source = done.stdout
    return source


# ---------------------------------------------------------------- exports


def exports(source: str, origin: str, names: Sequence[str]) -> str:
    """A package's ``__init__``: these names imported from there, and all that it imports in ``__all__``.

    What it imports from elsewhere under one of these names stands in its place.
    """
    nodes = ast.parse(source).body
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    from_origin = next(node for node in imports if node.module == origin)
    all_names = next(node for node in nodes if isinstance(node, ast.Assign))
    other = [each.name for node in imports if node is not from_origin for each in node.names]
    names = [name for name in names if name not in other]
    lines = source.splitlines()
    # From the end, so that line numbers before it stay right.
    for node, text in (
        (all_names, f"__all__ = {sorted([*other, *names])!r}"),
        (from_origin, f"from {origin} import {', '.join(names)}"),
    ):
        lines[node.lineno - 1 : node.end_lineno] = [text]
    return formatted("\n".join(lines) + "\n")


def all_of(source: str) -> list[str]:
    """What a module has in ``__all__``."""
    listed = next(node for node in ast.parse(source).body if isinstance(node, ast.Assign))
    found: list[str] = ast.literal_eval(listed.value)
    return found


# ---------------------------------------------------------------- docs/ops.md


def page(ops: Sequence[Op]) -> str:
    """The table of ops."""
    lines = [
        "# Ops",
        "",
        "Generated from the catalog by `make ops`. Any of them is called by its function, or by name with",
        "`bh.apply(name, *operands, **attributes)`.",
        "",
        "Dtypes are those of its operands: b bool, i integers, f real and c complex floats. With respect to",
        "float operands an op has the derivatives named: vjp (pullback), jvp (pushforward), H·v.",
        "",
        "| function | attributes | what it computes | dtypes | derivatives |",
        "| --- | --- | --- | --- | --- |",
    ]
    for op in ops:
        listed = op.variadic and op.name != "einsum"  # the function takes them as one sequence
        operands = ", ".join(x.removeprefix("*") if listed else x for x in op.operands)
        attributes = "<br>".join(cell(attribute_text(each)) for each in op.attributes)
        first_line = op.doc.strip().splitlines()[0]
        if op.aliases:
            first_line += f" Also: {', '.join(f'`{alias}`' for alias in op.aliases)}."
        call = SHOWN.get(op.name, f"bh.{op.name}({operands})")
        dtypes = " ".join(kind for kind in "bifc" if kind in op.kinds)
        lines.append(
            f"| `{call}` | {attributes} | {cell(first_line)} | {dtypes} | {differentiable(op)} |"
        )
    return "\n".join(lines) + "\n"


def differentiable(op: Op) -> str:
    """The derivatives that an op has."""
    found = derivatives(op)
    named = (("vjp", found.vjp), ("jvp", found.jvp), ("H·v", found.hvp))
    return ", ".join(name for name, has in named if has) or "none: a constant"


def attribute_text(attribute: Attribute) -> str:
    """An attribute in the table."""
    default = "" if attribute.required else f" = {attribute.default!r}"
    return f"`{attribute.name}: {attribute.kind}{default}` {attribute.doc}"


def cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
