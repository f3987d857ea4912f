"""Plays a scenario several times, in the process of whoever carries out its job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.cli.pool import Job, Work, execute
from harness.matrix.classify import cell_word
from harness.matrix.model import RED
from harness.repeats import merge_repeats, status_word
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario.loader import LoadedScenario
from harness.verdict import ERROR

RECHECKED = 3
"""How often a red cell is played in all, so that one that flips shows as unstable."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """Work that plays a scenario ``repeat`` times; worker processes import it by name.

    Attributes:
        work: plays it once.
        repeat: how often; a play in error ends it.
        recheck: play what is red ``RECHECKED`` times in all. Then plays are compared as cells
            of a matrix are, else by their status.
        by_known: compare plays as cells of a matrix although nothing is rechecked.
    """

    work: Work
    repeat: int = 1
    recheck: bool = False
    by_known: bool = False

    @property
    def plays(self) -> int:
        """How often a scenario is played at most."""
        return max(self.repeat, RECHECKED) if self.recheck else self.repeat

    def __call__(self, loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
        """Play and merge.

        Raises:
            KeyboardInterrupt: interrupted by a person.
        """
        results: list[ScenarioResult] = []
        while len(results) < self._wanted(results):
            results.append(execute(Job(loaded, options), self.work))
            if results[-1].status == ERROR:
                break
        word = cell_word if self.recheck or self.by_known else status_word
        merged = merge_repeats(results, word)
        for one in results:
            if one.failure_file not in {None, merged.failure_file}:
                # One fault is told once; nothing would name the files of its further plays.
                Path(str(one.failure_file)).unlink(missing_ok=True)
        return merged

    def _wanted(self, results: list[ScenarioResult]) -> int:
        red = self.recheck and any(cell_word(result) in RED for result in results)
        return self.plays if red else self.repeat
