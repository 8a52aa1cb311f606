"""Write the table of settings in docs/serving.md from the server's settings.

python tools/gen_settings.py           write it
python tools/gen_settings.py --check   fail when it is not current
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from backhaul_server.described import table

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "serving.md"
_TABLE: Final = re.compile(r"(?<=<!-- settings: made by make settings -->\n)(\|.*\n)*")


def main(arguments: Sequence[str]) -> int:
    """Write the table, or compare it; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(arguments).check
    before = PAGE.read_text(encoding="utf-8")
    now = current(before)
    if check and before != now:
        print(f"{PAGE.name}: not current\nTo mend it: make settings", file=sys.stderr)
        return 1
    PAGE.write_text(now, encoding="utf-8")
    return 0


def current(page: str) -> str:
    """The page with the table as it should be."""
    assert _TABLE.search(page), f"{PAGE.name} has no mark where the table belongs"
    return _TABLE.sub(lambda _: table(), page, count=1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
