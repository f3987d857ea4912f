"""The baseline of one command: its options, its file, and what it makes of all results."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from harness.baseline.clock import utc_today
from harness.baseline.file import BaselineFile, load_baseline
from harness.baseline.gate import Comparison, meaning
from harness.baseline.model import parse_day
from harness.baseline.ruling import Rule
from harness.baseline.session import BaselineSession
from harness.cli.output import CommandError, usage_error
from harness.reports.diagnostic import Diagnostic
from harness.results import ScenarioResult
from harness.scenario import selection
from harness.scenario.problems import ScenarioFileError
from harness.verdict import ExitCode, exit_code

Command = TypeVar("Command", bound=Callable[..., Any])


def _day(_context: click.Context, parameter: click.Parameter, value: str | None) -> dt.date | None:
    if value is None:
        return None
    try:
        day = parse_day(value)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from error
    assert isinstance(day, dt.date)
    return day


def today_option(command: Command) -> Command:
    """``--today``."""
    return click.option(
        "--today",
        metavar="DAY",
        callback=_day,
        help="Count expiry from this day, YYYY-MM-DD, to see what will be red then. Default: today, in UTC.",
    )(command)


def opened(path: Path) -> BaselineFile:
    """Load a baseline file for a command.

    Raises:
        CommandError: it is none (exit code 2).
    """
    try:
        return load_baseline(path)
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error


def day_of(today: dt.date | None) -> dt.date:
    """The day that expiry is counted from."""
    return utc_today() if today is None else today


def is_builtin_scenario() -> Callable[[str], bool]:
    """Whether there is a built-in scenario of a name."""
    known = {found.id for found in selection.builtin()}
    return lambda name: name in known


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        meaning: of the exit code, where a baseline decides it, else ``""``.
        comparison: with the baseline, or ``None``.
        document: the same as JSON, or ``None``.
        messages: what is told behind the results.
    """

    code: ExitCode
    meaning: str = ""
    comparison: Comparison | None = None
    document: dict[str, Any] | None = None
    messages: tuple[Diagnostic, ...] = ()


def outcome(
    results: Sequence[ScenarioResult],
    session: BaselineSession | None,
    *,
    allow_known: bool,
    strict: bool,
    interrupted: bool,
    partial: bool,
) -> Outcome:
    """Decide the exit code of a run.

    Args:
        results: of all scenarios that were played.
        session: the baseline, if there is one.
        allow_known: as in ``harness.verdict.exit_code``.
        strict: as there.
        interrupted: whether the run was.
        partial: whether a part was played on purpose.
    """
    if session is None:
        code = exit_code(results, allow_known=allow_known, strict=strict, interrupted=interrupted)
        return Outcome(code)
    comparison = session.compare(
        results, exists=is_builtin_scenario(), partial=partial or interrupted
    )
    code = comparison.exit_code((r.status for r in results), interrupted=interrupted)
    return Outcome(
        code,
        meaning(comparison.words, code),
        comparison,
        session.document(comparison),
        tuple(session.messages(comparison)),
    )


def rule_of(session: BaselineSession | None) -> Rule | None:
    """What decides on one result, if there is a baseline."""
    return None if session is None else session.rule


def check_day(today: dt.date | None, baseline: object) -> None:
    """Refuse a day without a baseline. Raises ``CommandError``."""
    if today is not None and baseline is None:
        msg = "--today does not go without --baseline"
        raise usage_error(msg)
