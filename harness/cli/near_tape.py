"""``wavecheck replay --search``: look for a failure near its old tape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cli.catalogue import invariant_doc
from harness.cli.output import Output, Progress, cannot_write
from harness.failure import FailureFile, write_failure
from harness.replay import OpenFailure
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.reports.text import replay_command
from harness.reports.wording import counted, order_lines
from harness.shrink.budget import Budget
from harness.shrink.neighbourhood import Hunted, search_near
from harness.verdict import ExitCode
from harness.version import tool_version

SEARCH_S = 30.0
"""Seconds of a search by default."""
SCHEDULES_MAX = 1_000_000
"""More than any neighbourhood has: time ends a search, or the last of its schedules."""


def replay_head(failure: FailureFile, file: Path) -> dict[str, Any]:
    """What the JSON of every replay says of its file."""
    return {
        "schema": SCHEMA,
        "tool": {"version": tool_version()},
        "file": str(file),
        "scenario": failure.scenario_id,
        "target": failure.target,
        "frontend": failure.frontend,
        "frontend_args": list(failure.frontend_args),
        "frontend_env": dict(failure.request.environment),
        "attach": failure.attach,
        "adapter": failure.adapter,
        "profile": failure.profile,
        "mutant": failure.mutant,
    }


def search_near_tape(opened: OpenFailure, budget_s: float, out: Path | None, output: Output) -> int:
    """Search, tell, and return the exit code.

    Raises:
        CommandError: the new failure file cannot be written.
    """
    progress = Progress()
    budget = Budget(SCHEDULES_MAX, budget_s)
    budget.watch = lambda used: progress.show(f"{counted(used, 'schedule')} near the old tape")
    try:
        hunted = search_near(opened, budget)
    finally:
        progress.clear()
    path: Path | None = None
    if hunted.failure is not None:
        try:
            path = write_failure(hunted.failure, out)
        except OSError as error:
            raise cannot_write(error.filename or "the failure file", error) from error
    kind, text, code = _came_to(opened.failure, hunted)
    output.show(_search_message(opened, hunted, kind, text, path))
    lines = None if hunted.order is None else list(hunted.order.lines)
    output.write(
        {
            **replay_head(opened.failure, opened.path),
            "violated": opened.failure.violated,
            "outcome": kind,
            "text": text,
            "tried": hunted.tried,
            "finished": hunted.finished,
            "departures": lines,
            "failure_file": None if path is None else str(path),
            "exit": int(code),
        }
    )
    return int(code)


def _came_to(failure: FailureFile, hunted: Hunted) -> tuple[str, str, ExitCode]:
    """Outcome, one line about it, and the exit code."""
    name, tried = failure.violated, counted(hunted.tried, "schedule")
    if hunted.order is not None:
        return "found", f"{name} is violated again, in schedule {hunted.tried}", ExitCode.VIOLATION
    if hunted.unplayable == hunted.tried:
        text = f"none of {tried} near the old tape could be judged"
        return "not judged", text, ExitCode.NOT_JUDGED
    if not hunted.exercised:
        text = f"{name} had nothing to judge in {tried} near the old tape"
        return "not judged", text, ExitCode.NOT_JUDGED
    rest = "" if hunted.finished else "; the budget ended before all of them were tried"
    return "gone", f"{name} is not violated in {tried} near the old tape{rest}", ExitCode.OK


def _search_message(
    opened: OpenFailure, hunted: Hunted, kind: str, text: str, path: Path | None
) -> Diagnostic:
    failure = opened.failure
    facts: tuple[tuple[str, str], ...] = (("file", str(opened.path)),)
    if hunted.unplayable:
        facts += (("not judged", counted(hunted.unplayable, "schedule")),)
    if hunted.order is None or hunted.failure is None:
        helps = {"gone": "" if hunted.finished else "a larger --budget tries the rest"}
        return Diagnostic(
            "note", text, code=kind, where=opened.place(), facts=facts, help=helps.get(kind, "")
        )
    broken = hunted.order.promise.broken_in(hunted.order.attempt)
    assert broken is not None, "a schedule that was found breaks the promise"
    doc = invariant_doc(failure.violated)
    return Diagnostic(
        "violated",
        broken.message,
        code=failure.violated,
        where=opened.place(),
        facts=(
            *facts,
            ("search", text),
            ("statement", doc.get("statement", "")),
            ("order", "\n".join(order_lines(hunted.order.lines))),
        ),
        expected=broken.expected,
        seen=broken.seen,
        evidence=hunted.order.attempt.event_lines(broken.witness),
        why=doc.get("reason", ""),
        source=doc.get("source", ""),
        help=replay_command(str(path)),
    )
