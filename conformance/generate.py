"""Writes the vectors, or with --check says whether the committed ones are current.

The corpus of checked cases gives answers that other libraries agree on; all else is answered by the
project's own engine, whose derivatives its tests compare with finite differences.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance import goldens
from conformance.cases import derivatives, dtypes, einsum, errors, ops, sessions, streams
from conformance.comparison import difference
from conformance.vector import FOLDER, GROUPS, Vector, read, text

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

    Answers are compared within their tolerance: the last bits are another machine's business.
    """
    committed = (
        {each.name: each for each in read(group)} if (FOLDER / f"{group}.json").is_file() else {}
    )
    if list(committed) != [each.name for each in made]:
        return "other cases"
    for each in made:
        old = committed[each.name]
        if each.case != old.case or dict(each.tolerance) != dict(old.tolerance):
            return f"{each.name}: another case"
        if (wrong := difference(old, {"name": each.name, **each.expect})) is not None:
            return f"{each.name}: {wrong}"
    return None


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
