"""``wavecheck replay``: play a stored failure again, or walk it."""

from __future__ import annotations

from pathlib import Path

import click

from harness.attempt import expectation_name
from harness.cli.catalogue import invariant_doc
from harness.cli.near_tape import SEARCH_S, replay_head, search_near_tape
from harness.cli.output import (
    CommandError,
    Folder,
    Output,
    check_folder,
    json_option,
    usage_error,
)
from harness.cli.pool import interruptible
from harness.cli.search_flags import seconds
from harness.cli.walking import person_at, walk_through
from harness.failure import FailureFile, FailureFileError
from harness.replay import (
    OpenFailure,
    ReplayKind,
    ReplayOutcome,
    open_failure,
    replay,
    replayed,
)
from harness.reports.diagnostic import Diagnostic
from harness.reports.wording import order_lines
from harness.scenario.problems import ScenarioFileError
from harness.verdict import VIOLATED, ExitCode
from harness.walk import Walk

CODES = {
    ReplayKind.REPRODUCED: ExitCode.VIOLATION,
    ReplayKind.GONE: ExitCode.OK,
    ReplayKind.DIVERGED: ExitCode.NOT_JUDGED,
}


@click.command(
    "replay",
    epilog="""\b
Exit codes:
  1  reproduced: the same invariant is violated again (--search: found near the old tape)
  0  no longer violated (--search: in none of the schedules near it)
  4  diverged: the run took another way than the recorded one (the message says where);
     --search: nothing near it could be judged
  2  the file cannot be replayed

\b
Examples:
  wavecheck replay wavecheck-out/FILE
  wavecheck replay wavecheck-out/FILE --step | less
  wavecheck replay wavecheck-out/FILE --search      after a change of the code
""",
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--step",
    is_flag=True,
    help="Walk the run event by event, with every choice; not on a terminal: all of it at once.",
)
@click.option(
    "--search",
    is_flag=True,
    help="Look for the failure in the schedules near the recorded one, which a changed program "
    "does not repeat.",
)
@click.option(
    "--budget",
    metavar="TIME",
    callback=seconds,
    help=f"Time (30s, 2m) that a --search may take. Default: {SEARCH_S:.0f}s.",
)
@click.option(
    "--out",
    type=Folder(),
    metavar="DIR",
    help="Where the failure file of a --search goes. Default: wavecheck-out.",
)
@json_option
def replay_command(
    file: Path,
    step: bool,
    search: bool,
    budget: float | None,
    out: Path | None,
    json_file: str | None,
) -> int:
    """Play a failure again from the FILE that `wavecheck run` wrote.

    The file holds the scenario, the target and every choice of the failing run, so that a
    simulated failure comes back event by event. A failure on a real target is tried a few times.
    """
    output = Output(json_file)
    _check_flags(step=step, search=search, budget=budget, out=out)
    try:
        with interruptible():
            if search:
                opened = _with_tape(file, "--search")
                return search_near_tape(opened, SEARCH_S if budget is None else budget, out, output)
            outcome = _walked(_with_tape(file, "--step"), output) if step else replay(file)
    except FailureFileError as error:
        raise usage_error(str(error)) from error
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error
    code = CODES[outcome.kind]
    output.show(_message(outcome, file))
    failure = outcome.failure
    output.write(
        {
            **replay_head(failure, file),
            "violated": failure.violated,
            "outcome": outcome.kind.value,
            "text": outcome.text,
            "digest": outcome.attempt.digest or None if outcome.attempt is not None else None,
            "digest_matches": outcome.digest_matches,
            "witness": list(outcome.witness_lines),
            "departures": None if failure.departures is None else list(failure.departures),
            "exit": int(code),
        }
    )
    return int(code)


def _check_flags(*, step: bool, search: bool, budget: float | None, out: Path | None) -> None:
    if step and search:
        msg = "--step and --search exclude each other"
        raise usage_error(msg, help_text="walk what the search finds: it writes a failure file")
    for name, value in (("--budget", budget), ("--out", out)):
        if value is not None and not search:
            msg = f"{name} goes with --search only"
            raise usage_error(msg)
    if out is not None:
        check_folder(out, "--out")


def _with_tape(file: Path, flag: str) -> OpenFailure:
    opened = open_failure(file)
    if opened.tape is None:
        msg = f"{flag} needs choices, and nobody chooses the order on {opened.failure.target}"
        help_text = 'the events of the recorded run are in the file, under "events"'
        raise usage_error(msg, help_text=help_text)
    return opened


def _walked(opened: OpenFailure, output: Output) -> ReplayOutcome:
    walk = Walk()
    outcome = replayed(opened, walk)
    walk_through(walk.moments, output, keys=person_at(output))
    return outcome


def _message(outcome: ReplayOutcome, file: Path) -> Diagnostic:
    failure = outcome.failure
    where = f"{failure.scenario_id} ({', '.join(failure.settings)})"
    if outcome.kind is not ReplayKind.REPRODUCED:
        helps = {
            ReplayKind.GONE: "nothing to do; delete the file",
            ReplayKind.DIVERGED: "the code changed since: --search looks near the old tape",
        }
        return Diagnostic(
            "note",
            outcome.text,
            code=outcome.kind.value,
            where=where,
            facts=(("file", str(file)),),
            help=helps[outcome.kind],
        )
    attempt = outcome.attempt
    verdicts = attempt.verdicts if attempt is not None else []
    steps = attempt.expectations if attempt is not None else []
    verdict = next(
        (v for v in verdicts if v.invariant == failure.violated and v.verdict == VIOLATED), None
    )
    step = next(
        (e for e in steps if e.status == VIOLATED and expectation_name(e.step) == failure.violated),
        None,
    )
    doc = invariant_doc(failure.violated) if verdict is not None else {}
    shown = verdict if verdict is not None else step
    return Diagnostic(
        "violated",
        verdict.message if verdict is not None else outcome.text,
        code=failure.violated,
        where=where,
        facts=(
            ("replay", outcome.text),
            ("statement", doc.get("statement", "")),
            *_order(failure),
        ),
        expected=shown.expected if shown is not None else "",
        seen=shown.seen if shown is not None else "",
        evidence=outcome.witness_lines,
        why=doc.get("reason", ""),
        source=doc.get("source", ""),
    )


def _order(failure: FailureFile) -> tuple[tuple[str, str], ...]:
    """The order of events in which it breaks, where the file says."""
    if failure.departures is None:
        return ()
    return (("order", "\n".join(order_lines(failure.departures))),)
