"""What each trial came to, one line of JSON each, so that a run can be stopped and taken up."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tests.chaos.trial import Kill


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
        head, kills = _read(path) if resume else ("", [])
        if head not in ("", asked):
            msg = f"{path} is about another run ({head}); leave --resume out, or give another --out"
            raise ValueError(msg)
        self.kills = {kill.number: kill for kill in kills}
        lines = [json.dumps({"asked": asked}), *(json.dumps(kill.to_json()) for kill in kills)]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def add(self, kill: Kill) -> None:
        """Keep a result, at once."""
        self.kills[kill.number] = kill
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(kill.to_json()) + "\n")

    def left(self, numbers: Iterable[int]) -> list[int]:
        """Those that were not tried, and those that found something: it may be mended."""
        done = {number for number, kill in self.kills.items() if not kill.findings}
        return [number for number in numbers if number not in done]


def _read(path: Path) -> tuple[str, list[Kill]]:
    if not path.exists():
        return "", []
    head, *rest = path.read_text(encoding="utf-8").splitlines() or ["{}"]
    kills: dict[int, Kill] = {}
    for line in rest:
        try:
            kill = Kill(**json.loads(line))
        except (ValueError, TypeError):
            continue  # the line that was being written when the run was stopped: tried again
        kills[kill.number] = kill
    return json.loads(head).get("asked", ""), list(kills.values())
