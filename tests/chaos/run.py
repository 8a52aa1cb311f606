"""The programs of this folder, one after the other: ``make chaos``.

Each prints its seed and its counts, and ends with a status that is not 0 when something was wrong.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Program:
    """One of them.

    Attributes:
        name: by which it is chosen.
        module: the module in this folder.
        option: what says how much it does.
        size: so much.
        more: further arguments.
    """

    name: str
    module: str
    option: str
    size: int
    more: tuple[str, ...] = ()

    def arguments(self, seed: int, short: bool) -> list[str]:
        """Those of its command line."""
        size = self.size // 10 if short else self.size
        return [self.option, str(size), "--seed", str(seed), *self.more]


PROGRAMS: Final = (
    Program("kills", "kills", "--kills", 500),
    Program("faults", "faults", "--faults", 2000),
    Program("killed_clients", "killed_clients", "--clients", 1000),
    Program("fuzz", "fuzz", "--count", 1_000_000, ("--jobs", "2")),
    Program("fuzz_socket", "fuzz", "--count", 100_000, ("--socket",)),
    Program("overload", "overload", "--seconds", 60),
    Program("soak", "soak", "--minutes", 30),
)
NAMES: Final = tuple(each.name for each in PROGRAMS)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, help="this one; may be repeated")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    parser.add_argument("--short", action="store_true", help="a tenth of each")
    given = parser.parse_args()
    failed = []
    for program in PROGRAMS:
        if program.name not in (given.only or NAMES):
            continue
        arguments = program.arguments(given.seed, given.short)
        print(f"=== {program.name}: {' '.join(arguments)}", flush=True)
        began = time.monotonic()
        command = [sys.executable, "-m", f"tests.chaos.{program.module}", *arguments]
        status = subprocess.run(command, check=False).returncode
        took = time.monotonic() - began
        print(f"--- {program.name}: {'FAILED' if status else 'ok'} after {took:.0f} s", flush=True)
        if status:
            failed.append(program.name)
    if failed:
        again = f"make chaos ONLY={failed[0]} SEED={given.seed}{' SHORT=1' * given.short}"
        print(f"failed: {', '.join(failed)}; one again with: {again}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
