"""When a frontend never gets ready, whatever the scenario: then more of them tell nothing.

A missing library or a wrong option fails every start in the same way. Three starts of different
scenarios show that; three hundred cost an hour and say no more.
"""

from __future__ import annotations

import re

from harness.results import ScenarioResult
from harness.targets.base import StartFailed
from harness.verdict import ERROR, NOT_JUDGED

ALIKE = 3
"""So many starts of different scenarios that fail alike, before any succeeded, end the run."""
_NUMBER = re.compile(r"(?<!exit code )\b\d+(?:\.\d+)?")
"""A number that is no exit code: a port, a process id, seconds."""


def start_failure(error: StartFailed) -> str:
    """What starts that fail alike have in common: the first line, but for its numbers."""
    return _NUMBER.sub("#", str(error).partition("\n")[0])


class StartFailures:
    """The starts of one frontend, over the scenarios of a run.

    Attributes:
        hopeless: it fails always, and there is nothing to judge.
        count: how many starts failed.
    """

    def __init__(self) -> None:
        self.hopeless = False
        self.count = 0
        self._ready = False
        self._how: str | None = None

    @property
    def title(self) -> str:
        """Say that it is hopeless."""
        return f"the frontend never got ready in {self.count} starts, which failed alike"

    def take(self, result: ScenarioResult, *, connect_fails: bool) -> bool:
        """Take a result; whether the frontend is hopeless.

        Args:
            result: of a scenario that was played, or not.
            connect_fails: the scenario expects a failed start, so what it shows is no start.
        """
        if result.start_failure is not None:
            alike = self._how in (None, result.start_failure)
            self._how = result.start_failure
            self.count = self.count + 1 if alike else 1
            self.hopeless = not self._ready and self.count >= ALIKE
        elif result.status == ERROR or not (connect_fails or result.status == NOT_JUDGED):
            self._ready = True
        return self.hopeless
