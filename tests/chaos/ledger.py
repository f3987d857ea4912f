"""What each trial came to, so that a run can be stopped and taken up."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.chaos.trial import Kill
from tests.support import ledger


class Ledger:
    """Results in a file whose first line says what was asked for.

    Attributes:
        kills: by number of the trial.
    """

    def __init__(self, path: Path, asked: str, *, resume: bool) -> None:
        """Begin the file anew, or take it up.

        Raises:
            ValueError: it is to be taken up, and is about something else.
        """
        self._path = path
        self.kills: dict[int, Kill] = {}
        about, rows = ledger.taken_up(path) if resume else ("", [])
        if about not in ("", asked):
            msg = (
                f"{path} is about another run ({about}); leave --resume out, or give another --out"
            )
            raise ValueError(msg)
        self.kills = {kill.number: kill for kill in (Kill(**row) for row in rows)}
        ledger.begin(path, asked, (kill.to_json() for kill in self.kills.values()))

    def add(self, kill: Kill) -> None:
        """Keep a result, at once."""
        self.kills[kill.number] = kill
        ledger.add(self._path, kill.to_json())

    def left(self, numbers: Iterable[int]) -> list[int]:
        """Those that were not tried, and those that found something: it may be mended."""
        done = {number for number, kill in self.kills.items() if not kill.findings}
        return [number for number in numbers if number not in done]
