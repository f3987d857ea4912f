"""What a run shows meanwhile and on request: counts, the slowest scenario, every event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from harness.evidence import numbers_of
from harness.failure import FailureFileError, read_failure
from harness.reports.text import label
from harness.reports.visible import printable
from harness.results import ScenarioResult

SLOW_S = 1.0
"""A scenario that took less is not worth naming."""


class SoFar:
    """Results by status, and the slowest scenario; ``str`` is the end of a line of progress."""

    def __init__(self, allow_known: bool) -> None:
        self._allow_known = allow_known
        self._counts: Counter[str] = Counter()
        self._slowest: ScenarioResult | None = None

    def take(self, result: ScenarioResult) -> None:
        """Count one result."""
        self._counts[label(result, allow_known=self._allow_known)] += 1
        if self._slowest is None or result.duration_s > self._slowest.duration_s:
            self._slowest = result

    def __str__(self) -> str:
        counts = ", ".join(f"{n} {word.replace('_', ' ')}" for word, n in self._counts.items())
        text = f"  ({counts})" if counts else ""
        slowest = self._slowest
        if slowest is not None and slowest.duration_s >= SLOW_S:
            text += f"  slowest: {slowest.scenario} {slowest.duration_s:.1f} s"
        return text


def event_list(result: ScenarioResult) -> Iterator[str]:
    """Every event of the failing run, one line each; ``>`` marks those that show the violation."""
    if result.failure_file is None:
        why = result.failure_file_error or "no failure file was written"
        yield f"  events: not there: {why}"
        return
    try:
        failure = read_failure(Path(result.failure_file))
    except FailureFileError as error:
        yield f"  events: not there: {error}"
        return
    shows = {f"#{number}" for number in {*failure.witness, *numbers_of(result.witness_lines)}}
    yield f"  events ({len(failure.events)}, > shows the violation):"
    for line in failure.events:
        mark = ">" if line.partition(" ")[0] in shows else " "
        yield f"  {mark} {printable(line)}"
