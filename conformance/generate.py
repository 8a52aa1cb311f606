"""Writes the vectors, or with --check says whether the committed ones are current.

The corpus of checked cases gives answers that other libraries agree on; all else is answered by the
project's own engine, whose derivatives its tests compare with finite differences.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance import goldens
from conformance.cases import derivatives, dtypes, einsum, errors, ops, sessions, streams
from conformance.comparison import difference
from conformance.vector import FOLDER, GROUPS, Vector, array_of, read, text

ROOT: Final = Path(__file__).parents[1]
CORPUS: Final = Path(os.environ.get("BACKHAUL_CORPUS", ROOT.parent / "shared" / "corpus"))
MEND: Final = "make vectors"

MAKERS: Final[dict[str, Callable[[Path], list[Vector]]]] = {
    "ops": ops.vectors,
    "einsum": einsum.vectors,
    "derivatives": derivatives.vectors,
    "dtypes": dtypes.vectors,
    "errors": errors.vectors,
    "streams": streams.vectors,
    "sessions": sessions.vectors,
}


def stale(group: str, made: list[Vector]) -> str | None:
    """In words how the committed vectors differ from these; None when they do not.

    Answers are compared within their tolerance, and operands within rounding: the last bits of a matrix
    product are another machine's business.
    """
    committed = (
        {each.name: each for each in read(group)} if (FOLDER / f"{group}.json").is_file() else {}
    )
    if list(committed) != [each.name for each in made]:
        return "other cases"
    for each in made:
        old = committed[each.name]
        if not alike(each.case, old.case) or not alike(each.tolerance, old.tolerance):
            return f"{each.name}: another case"
        if (wrong := difference(old, {"name": each.name, **each.expect})) is not None:
            return f"{each.name}: {wrong}"
    return None


def alike(made: Any, old: Any) -> bool:
    """Whether two parts of a case are the same but for rounding of floating-point numbers."""
    if isinstance(made, Mapping) and isinstance(old, Mapping):
        if "data" in made and made != old:
            return _alike_tensors(made, old)
        return made.keys() == old.keys() and all(alike(made[key], old[key]) for key in made)
    if isinstance(made, list) and isinstance(old, list):
        return len(made) == len(old) and all(map(alike, made, old))
    if isinstance(made, float) and isinstance(old, float | int):
        return math.isclose(made, old, rel_tol=0.1)
    return bool(made == old)


def _alike_tensors(made: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    kind = [(each.get("dtype"), each.get("shape")) for each in (made, old)]
    if kind[0] != kind[1] or np.dtype(made["dtype"]).kind not in "fc":
        return False
    first, second = array_of(dict(made)), array_of(dict(old))
    rounding = 100 * float(np.finfo(first.dtype).eps)
    return bool(np.allclose(first, second, rounding, rounding, equal_nan=True))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; status 1 if not current"
    )
    check: bool = parser.parse_args().check
    if not (CORPUS / "cases.jsonl").is_file():
        sys.exit(f"no corpus at {CORPUS}: set BACKHAUL_CORPUS to its folder")
    failed = False
    for group in GROUPS:
        made = MAKERS[group](CORPUS)
        if check:
            if (wrong := stale(group, made)) is not None:
                print(f"{group}: {wrong}. To mend it: {MEND}", file=sys.stderr)
                failed = True
            continue
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{group}.json").write_text(text(group, made), encoding="utf-8")
        print(f"{group}: {len(made)} vectors")
    made_goldens = goldens.make()
    if not check:
        goldens.write(made_goldens)
        print(f"wire: {len(made_goldens)} requests")
    elif made_goldens != goldens.read():
        print(f"wire: other files. To mend it: {MEND}", file=sys.stderr)
        failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
