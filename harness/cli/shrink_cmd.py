"""``wavecheck shrink``: make a stored failure small."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from harness.cli.catalogue import invariant_doc
from harness.cli.output import (
    CommandError,
    Folder,
    Output,
    Progress,
    cannot_write,
    check_folder,
    json_option,
    usage_error,
)
from harness.cli.pool import interruptible
from harness.cli.search_flags import seconds
from harness.failure import FailureFileError
from harness.replay import open_failure
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.reports.text import replay_command
from harness.reports.wording import counted, order_lines
from harness.scenario.problems import ScenarioFileError
from harness.shrink.budget import Budget
from harness.shrink.reduction import (
    CANDIDATES,
    NotReproducedError,
    Reduced,
    Weight,
    reduce_failure,
    write_reduced,
)
from harness.shrink.scenario import Case
from harness.verdict import ExitCode
from harness.version import tool_version

BUDGET = "60s"


@click.command(
    "shrink",
    epilog="""\b
Exit codes:
  0    reduced, or nothing could be left out
  4    the failure is not seen any more, so there is nothing to reduce
  2    the file cannot be replayed
  130  interrupted; the smallest so far has been written

\b
Example:
  wavecheck shrink wavecheck-out/FILE --budget 2m
""",
)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--budget",
    metavar="TIME",
    callback=seconds,
    default=BUDGET,
    show_default=True,
    help="Time (60s, 2m) after which nothing more is tried.",
)
@click.option(
    "--out",
    type=Folder(),
    metavar="DIR",
    help="Where the scenario and the failure file go. Default: wavecheck-out.",
)
@json_option
def shrink_command(file: Path, budget: float, out: Path | None, json_file: str | None) -> int:
    """Make the failure in FILE, which `wavecheck run` wrote, small.

    First its schedule: as few departures from FIFO order as possible. Then its scenario: fewer
    steps, engines, rules, tokens. Every candidate is played, and only the same violation counts.
    The result is a scenario file and a failure file.
    """
    output = Output(json_file)
    if out is not None:
        check_folder(out, "--out")
    progress = Progress()
    began = time.monotonic()  # noqa: TID251 - duration for people

    def watch(case: Case, tried: int) -> None:
        steps, engines, *_ = case.size
        progress.show(f"{counted(steps, 'step')}, {counted(engines, 'engine')}, after {tried} runs")

    try:
        with interruptible():
            reduced = reduce_failure(open_failure(file), Budget(CANDIDATES, budget), watch)
    except FailureFileError as error:
        raise usage_error(str(error)) from error
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error
    except NotReproducedError as error:
        return _not_reproduced(output, file, str(error))
    finally:
        progress.clear()
    try:
        scenario, failure = write_reduced(reduced, out)
    except OSError as error:
        raise cannot_write(error.filename or "the reduced failure", error) from error
    code = ExitCode.INTERRUPTED if reduced.interrupted else ExitCode.OK
    took_s = time.monotonic() - began  # noqa: TID251
    output.show(_message(reduced, scenario, failure, took_s))
    output.say(reduced.text)
    output.write(_document(reduced, file, scenario, failure, code))
    return int(code)


def _not_reproduced(output: Output, file: Path, text: str) -> int:
    code = ExitCode.NOT_JUDGED
    help_text = "wavecheck replay --search looks near the old tape"
    output.show(
        Diagnostic(
            "note", text, code="not reproduced", facts=(("file", str(file)),), help=help_text
        )
    )
    output.write({**_head(file), "outcome": "not reproduced", "text": text, "exit": int(code)})
    return int(code)


def _head(file: Path) -> dict[str, Any]:
    return {"schema": SCHEMA, "tool": {"version": tool_version()}, "file": str(file)}


def _document(
    reduced: Reduced, file: Path, scenario: Path, failure: Path, code: ExitCode
) -> dict[str, Any]:
    kept = reduced.failure
    return {
        **_head(file),
        "outcome": "reduced",
        "scenario": kept.scenario_id,
        "target": kept.target,
        "profile": kept.profile,
        "mutant": kept.mutant,
        "violated": kept.violated,
        "before": asdict(reduced.before),
        "after": asdict(reduced.after),
        "departures": None if reduced.order is None else list(reduced.order),
        "scenario_file": str(scenario),
        "failure_file": str(failure),
        "tried": reduced.tried,
        "finished": reduced.finished,
        "exit": int(code),
    }


def _message(reduced: Reduced, scenario: Path, failure: Path, took_s: float) -> Diagnostic:
    kept = reduced.failure
    name = kept.violated
    tried = f"{counted(reduced.tried, 'run')} in {took_s:.1f} s"
    if not reduced.finished:
        tried += "; interrupted" if reduced.interrupted else "; more may be possible (--budget)"
    order = () if reduced.order is None else (("order", "\n".join(order_lines(reduced.order))),)
    return Diagnostic(
        "note",
        f"{_weight(reduced.before)} came down to {_weight(reduced.after)}",
        code=name,
        where=f"{kept.scenario_id} ({', '.join(kept.settings)})",
        facts=(
            ("statement", invariant_doc(name).get("statement", "")),
            *order,
            ("tried", tried),
            ("scenario", str(scenario)),
        ),
        expected=reduced.expected,
        seen=reduced.seen,
        evidence=reduced.witness_lines,
        help=replay_command(str(failure)) + ("" if reduced.order is None else " --step"),
    )


def _weight(weight: Weight) -> str:
    parts = [
        counted(weight.steps, "step"),
        counted(weight.engines, "engine"),
        counted(weight.events, "event"),
    ]
    if weight.departures is not None:
        parts.append(counted(weight.departures, "departure"))
    return ", ".join(parts)
