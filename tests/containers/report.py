"""What was checked, what was wrong, and what could not be done and why."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.containers.podman import Failed, NotHere


@dataclass(slots=True)
class Report:
    """Lines on stdout as they come, and the counts for the end.

    Attributes:
        right: checks that held.
        wrong: those that did not.
        not_done: what this machine could not do.
    """

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    not_done: list[str] = field(default_factory=list)

    def check(self, what: str, holds: bool, figure: object = "") -> None:
        """A statement, and whether it held; the figure is shown, and must tell why when it did not."""
        print(
            f"  {'ok    ' if holds else 'FAILED'}  {what}{f': {figure}' if figure != '' else ''}",
            flush=True,
        )
        if holds:
            self.right += 1
        else:
            self.wrong.append(what)

    def equal(self, what: str, found: object, wanted: object) -> None:
        """The same, of two values that have to be equal."""
        self.check(
            what, found == wanted, found if found == wanted else f"{found!r}, not {wanted!r}"
        )

    def skip(self, what: str, why: object) -> None:
        """What could not be done."""
        print(f"  ------  {what}: not done: {why}", flush=True)
        self.not_done.append(what)

    def part(self, title: str, run: Callable[[], None]) -> bool:
        """Run a part of the checks; whether it came to its end."""
        print(f"\n{title}", flush=True)
        try:
            run()
        except NotHere as error:
            self.skip(title, error)
            return False
        except (Failed, subprocess.TimeoutExpired) as error:
            self.check(title, False, error)
            return False
        return True

    def all_of(self, what: str, pairs: Iterable[tuple[str, bool]]) -> None:
        """A statement about many; those that do not hold are named."""
        named = list(pairs)
        against = [name for name, holds in named if not holds]
        self.check(what, bool(named) and not against, ", ".join(against) or len(named))

    def end(self) -> int:
        """The last lines, and the exit status."""
        print(f"\n{self.right} held, {len(self.wrong)} failed, {len(self.not_done)} not done")
        for title, names in (("failed", self.wrong), ("not done", self.not_done)):
            for name in names:
                print(f"  {title}: {name}")
        return 1 if self.wrong else 0
