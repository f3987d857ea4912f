"""From a result to a cell: held, known, regression, blind, unstable, not judged, error. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.evidence import cut, evidence_of
from harness.matrix import model
from harness.matrix.model import Cell, Row
from harness.repeats import tally
from harness.results import ScenarioResult
from harness.verdict import (
    ERROR,
    EXPECTATION,
    HELD,
    NOT_JUDGED,
    UNSTABLE,
    VIOLATED,
    ExitCode,
    assess,
    most_telling,
    why_not_judged,
)


def cell_word(result: ScenarioResult) -> str:
    """The status of the cell that a result, of one play or of merged repeats, belongs in."""
    if result.status == ERROR:
        return model.ERROR
    if result.status == UNSTABLE:
        return model.UNSTABLE
    found = assess(result)
    if found.unknown:
        return model.REGRESSION
    if blind_names(result):
        return model.BLIND
    if result.status == NOT_JUDGED:
        return model.NOT_JUDGED
    return model.KNOWN if found.known else model.HELD


def blind_names(result: ScenarioResult) -> tuple[str, ...]:
    """What was predicted and not seen although the scenario was played.

    A prediction is made only for what is played, so a run that then exercises nothing has
    lost what it should have seen.
    """
    return result.known if result.status == NOT_JUDGED else assess(result).blind


def cell_of(result: ScenarioResult, row: Row, frontend: str) -> Cell:
    """The cell of a scenario's result on a frontend."""
    word = cell_word(result)
    found = assess(result)
    told = _told(result, row)
    plays = result.repeats or (word,)
    return Cell(
        scenario=row.id,
        frontend=frontend,
        status=word,
        reason=_reason(result, word),
        plays=plays,
        known=found.known,
        regression=found.unknown,
        blind=() if word == model.ERROR else blind_names(result),
        should=found.should,
        held=_held(result, row),
        trials=result.trials,
        race=row.race,
        cut=_cut(result, row, word),
        message=told.message,
        expected=told.expected,
        seen=told.seen,
        evidence=told.evidence,
        duration_s=result.duration_s,
        failure_file=result.failure_file,
    )


def _reason(result: ScenarioResult, word: str) -> str:
    if word == model.ERROR:
        return result.error or "the run could not be judged"
    if word == model.NOT_JUDGED:
        return why_not_judged(result)
    if word == model.UNSTABLE:
        return result.reason or f"repeats differ: {tally(result.repeats)}"
    if word == model.BLIND:
        names = ", ".join(blind_names(result))
        what = f"known to violate {names}, and this was not seen"
        return f"{what}; nothing was exercised" if result.status == NOT_JUDGED else what
    return "" if result.error is None else f"after the violation was seen: {result.error}"


@dataclass(frozen=True, slots=True)
class _Told:
    message: str = ""
    expected: str = ""
    seen: str = ""
    evidence: tuple[str, ...] = ()


def _told(result: ScenarioResult, row: Row) -> _Told:
    """The most telling violation."""
    ends = [e for e in result.expectations if e.status == VIOLATED and e.frontend_ended]
    if ends:
        seen, *last_lines = ends[0].seen.splitlines()
        return _Told(ends[0].title, ends[0].expected, seen, tuple(last_lines))
    broken = [v for v in most_telling(result.verdicts, row.own) if v.level == "must"]
    broken.sort(key=lambda v: v.invariant in result.known)
    if broken:
        worst = broken[0]
        return _Told(worst.message, worst.expected, worst.seen, evidence_of(result, worst))
    steps = [e for e in result.expectations if e.status == VIOLATED]
    if steps:
        return _Told(steps[0].title, steps[0].expected, steps[0].seen, cut(result.witness_lines))
    return _Told()


def _held(result: ScenarioResult, row: Row) -> tuple[str, ...]:
    """Of what the row is about, what was exercised and kept."""
    kept = {v.invariant for v in result.verdicts if v.verdict == HELD}
    statuses = {e.status for e in result.expectations}
    if HELD in statuses and VIOLATED not in statuses:
        kept.add(EXPECTATION)
    return tuple(name for name in row.own if name in kept)


def _cut(result: ScenarioResult, row: Row, word: str) -> bool:
    """Whether a race that saw nothing had fewer trials than make a miss unlikely."""
    if not row.race or result.trials == 0 or word != model.HELD:
        return False
    return result.trials < row.trials_planned * max(1, len(result.repeats))


def table_exit(cells: Sequence[Cell], *, interrupted: bool) -> ExitCode:
    """The exit code of a matrix.

    Red cells stand whatever else failed, so they come before errors; a table in which nothing
    was held or known could not be judged.
    """
    if interrupted:
        return ExitCode.INTERRUPTED
    if any(cell.red for cell in cells):
        return ExitCode.VIOLATION
    statuses = {cell.status for cell in cells}
    if model.ERROR in statuses:
        return ExitCode.HARNESS
    if not statuses & {model.HELD, model.KNOWN}:
        return ExitCode.NOT_JUDGED
    return ExitCode.OK
