"""``wavecheck baseline``: write, check, list and prune the file of accepted violations."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from harness.baseline.gate import Comparison, left, meaning
from harness.baseline.inputs import Played
from harness.baseline.making import pruned
from harness.baseline.model import Waiver
from harness.baseline.session import BaselineSession
from harness.cli import annotating
from harness.cli.against_baseline import (
    day_of,
    is_builtin_scenario,
    opened,
    today_option,
)
from harness.cli.baseline_files import edited, results_of, write_file
from harness.cli.baseline_write_cmd import write_command
from harness.cli.output import (
    Output,
    json_option,
    usage_error,
)
from harness.reports.json_report import SCHEMA
from harness.reports.visible import printable
from harness.reports.wording import counted
from harness.verdict import ExitCode
from harness.version import tool_version

_RESULTS = "give the JSON of `wavecheck run --json` or `wavecheck matrix`"
_FILE = click.option(
    "--baseline",
    "file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="The baseline file.",
)
_PARTIAL = click.option(
    "--partial",
    is_flag=True,
    help="RUN is of a part on purpose: what the file has beyond it is not missed.",
)


@click.group(
    "baseline",
    epilog="""\b
Examples:
  wavecheck run --json run.json
  wavecheck baseline write run.json -o baseline.yaml --owner @me --reason "..." --expires 90d
  wavecheck run --baseline baseline.yaml
  wavecheck baseline check run.json --baseline baseline.yaml
  wavecheck baseline list baseline.yaml --today 2027-01-01
  wavecheck baseline prune run.json --baseline baseline.yaml
""",
)
def baseline_group() -> None:
    """A committed file of what is expected: fail on regressions only.

    The file pins which scenarios are judged, and waives violations: each waiver names its owner,
    its reason and the last day on which it is valid. `wavecheck run --baseline FILE` compares.
    """


@baseline_group.command(
    "check",
    epilog="""\b
Exit codes:
  0    no regression
  1    a regression: a violation without a waiver, an expired waiver, lost coverage
  2    bad input, wrong use
  3    scenarios in error, and no regression
  4    nothing was judged
  130  the run was interrupted
""",
)
@click.argument("given", metavar="RUN", type=click.Path(path_type=Path))
@_FILE
@click.option("--strict", is_flag=True, help="Stale waivers count, too.")
@_PARTIAL
@today_option
@annotating.annotations_option
@json_option
def check_command(
    given: Path,
    file: Path,
    strict: bool,
    partial: bool,
    today: dt.date | None,
    annotations: str,
    json_file: str | None,
) -> int:
    """Compare finished results with a baseline.

    RUN is the JSON of `wavecheck run --json` or of `wavecheck matrix`.
    """
    output = Output(json_file)
    found, session, comparison = _compared(given, file, today, strict=strict, partial=partial)
    code = comparison.exit_code(
        (one.status for one in found.results), interrupted=found.interrupted
    )
    for message in session.messages(comparison, all_of=True):
        output.show(message)
    if annotating.wanted(annotations):
        annotating.write_annotations(output, annotating.of_baseline(session, comparison))
    output.write(
        {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            "baseline": session.document(comparison),
            "exit": int(code),
        }
    )
    if found.not_run:
        output.say(f"not run: {found.not_run}")
    said = meaning(comparison.words, code) or code.name.lower().replace("_", " ")
    output.say(f"{counted(len(found.results), 'result')}; exit {int(code)}: {said}")
    return int(code)


@baseline_group.command("list")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@today_option
@json_option
def list_command(file: Path, today: dt.date | None, json_file: str | None) -> int:
    """Show the waivers of a file, those that end first at the top, and what it pins.

    Ends with 0, also if some have expired, and with 2 if the file is not valid.
    """
    output = Output(json_file)
    loaded, day = opened(file), day_of(today)
    waivers = sorted(enumerate(loaded.baseline.waivers), key=lambda pair: pair[1].expires)
    for number, waiver in waivers:
        output.say(_waiver_line(waiver, loaded.place_of(number).line, day))
    for pin in loaded.baseline.pins:
        output.say(
            f"pinned     {pin.target} {pin.releases or '(all releases)'}: "
            f"{len(pin.judged)} judged, {len(pin.not_judged)} not judged"
        )
    expired = sum(waiver.days_left(day) < 0 for _, waiver in waivers)
    output.say(f"{counted(len(waivers), 'waiver')}, {expired} expired on {day}")
    output.write(
        {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            "file": str(file),
            "today": day.isoformat(),
            "waivers": [
                {
                    **waiver.model_dump(),
                    "days_left": waiver.days_left(day),
                    "line": loaded.place_of(number).line,
                }
                for number, waiver in waivers
            ],
            "pins": [pin.model_dump() for pin in loaded.baseline.pins],
        }
    )
    return int(ExitCode.OK)


def _waiver_line(waiver: Waiver, line: int, day: dt.date) -> str:
    word = "expired" if waiver.days_left(day) < 0 else "waived"
    where = f"{waiver.target} {waiver.releases}".rstrip()
    text = (
        f"{word:<10} {waiver.scenario} [{waiver.invariant}] on {where}: {left(waiver, day)}; "
        f"{waiver.owner}: {waiver.reason} (line {line})"
    )
    return printable(text)


@baseline_group.command("prune")
@click.argument("given", metavar="RUN", type=click.Path(path_type=Path))
@_FILE
@_PARTIAL
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@today_option
def prune_command(
    given: Path, file: Path, partial: bool, dry_run: bool, today: dt.date | None
) -> int:
    """Remove what a run shows to be stale: waivers of what holds, and scenarios that are gone.

    The rest of the file stays as it is, with its comments. A race may hold by luck: play it often
    (`--repeat`) before its waiver goes.
    """
    output = Output(None)
    _, session, comparison = _compared(given, file, today, strict=False, partial=partial)
    wanted, stale, gone = pruned(session.file.baseline, comparison)
    for number in sorted(stale):
        waiver = session.file.baseline.waivers[number]
        line = session.file.place_of(number).line
        output.say(_waiver_line(waiver, line, session.today).replace("waived ", "stale  ", 1))
    for name in sorted(gone):
        output.say(f"gone       {printable(name)}")
    if (stale or gone) and not dry_run:
        write_file(file, edited(session.file, wanted, frozenset(stale)))
    what = f"{counted(len(stale), 'waiver')} and {counted(len(gone), 'pinned scenario')}"
    output.say(f"{what} {'would go' if dry_run else 'removed'}: {file}")
    return int(ExitCode.OK)


def _compared(
    given: Path, file: Path, today: dt.date | None, *, strict: bool, partial: bool
) -> tuple[Played, BaselineSession, Comparison]:
    loaded = opened(file)
    found = results_of(given)
    if not found.whole:
        msg = f"{given}: failure files do not say what held"
        raise usage_error(msg, help_text=_RESULTS)
    if not found.results:
        msg = f"{given}: holds no results"
        raise usage_error(msg, help_text=_RESULTS)
    session = BaselineSession(loaded, day_of(today), target=found.target, strict=strict)
    comparison = session.compare_observed(
        found.results,
        exists=is_builtin_scenario(),
        partial=partial or bool(found.not_run) or found.interrupted,
    )
    return found, session, comparison


baseline_group.add_command(write_command)
