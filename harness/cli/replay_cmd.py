"""``wavecheck replay``: play a stored failure again."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from harness.cli.catalogue import invariant_doc
from harness.cli.output import CommandError, Output, json_option, usage_error
from harness.cli.pool import interruptible
from harness.failure import FailureFile, FailureFileError
from harness.replay import ReplayKind, ReplayOutcome, replay
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.runner import expectation_name
from harness.scenario.problems import ScenarioFileError
from harness.verdict import VIOLATED, ExitCode
from harness.version import tool_version

CODES = {
    ReplayKind.REPRODUCED: ExitCode.VIOLATION,
    ReplayKind.GONE: ExitCode.OK,
    ReplayKind.DIVERGED: ExitCode.NOT_JUDGED,
}


@click.command(
    "replay",
    epilog="""\b
Exit codes:
  1  reproduced: the same invariant is violated again
  0  no longer violated
  4  diverged: the run took another way than the recorded one (the message says where)
  2  the file cannot be replayed

\b
Example:
  wavecheck replay wavecheck-out/FILE
""",
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@json_option
def replay_command(file: Path, json_file: str | None) -> int:
    """Play a failure again from the FILE that `wavecheck run` wrote.

    The file holds the scenario, the target and every choice of the failing run, so that a
    simulated failure comes back event by event. A failure on a real target is tried a few times.
    """
    output = Output(json_file)
    try:
        with interruptible():
            outcome = replay(file)
    except FailureFileError as error:
        raise usage_error(str(error)) from error
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error
    code = CODES[outcome.kind]
    output.show(_message(outcome, file))
    failure = outcome.failure
    output.write(
        {
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
            "violated": failure.violated,
            "outcome": outcome.kind.value,
            "text": outcome.text,
            "digest": outcome.attempt.digest or None if outcome.attempt is not None else None,
            "digest_matches": outcome.digest_matches,
            "witness": list(outcome.witness_lines),
            "exit": int(code),
        }
    )
    return int(code)


def _setting(failure: FailureFile) -> list[str]:
    """What the failure was seen on and how it was started, as far as it was not the default."""
    given = {
        "target": failure.target,
        "frontend": failure.frontend,
        "attached to": failure.attach,
        "adapter": failure.adapter,
        "profile": failure.profile,
        "mutant": failure.mutant,
    }
    told = [f"{name} {value}" for name, value in given.items() if value is not None]
    told += [f"frontend-arg {shlex.quote(word)}" for word in failure.frontend_args]
    told += [f"frontend-env {name}" for name, _ in failure.request.environment]
    return told


def _message(outcome: ReplayOutcome, file: Path) -> Diagnostic:
    failure = outcome.failure
    where = f"{failure.scenario_id} ({', '.join(_setting(failure))})"
    if outcome.kind is not ReplayKind.REPRODUCED:
        helps = {
            ReplayKind.GONE: "nothing to do; delete the file",
            ReplayKind.DIVERGED: "the code changed since; run the scenario again",
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
        facts=(("replay", outcome.text), ("statement", doc.get("statement", ""))),
        expected=shown.expected if shown is not None else "",
        seen=shown.seen if shown is not None else "",
        evidence=outcome.witness_lines,
        why=doc.get("reason", ""),
        source=doc.get("source", ""),
    )
