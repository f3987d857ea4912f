"""``wavecheck report``: results as a page, or in the form of another program."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click
from msgspec.structs import replace as replaced

from harness.cli.catalogue import invariant_doc
from harness.cli.output import (
    STDOUT,
    CommandError,
    Progress,
    cannot_write,
    check_writable,
    echo,
    to_stdout,
    unknown_word,
    usage_error,
)
from harness.cli.pool import interruptible
from harness.files import write_text
from harness.reports.diagnostic import Diagnostic
from harness.reports.exports.formats import FORMS, HTML, CannotTellError, form_of
from harness.reports.exports.markdown import markdown
from harness.reports.inputs.failures import Tracing
from harness.reports.inputs.files import InputError
from harness.reports.inputs.report import Made, make_report
from harness.reports.told.model import Report
from harness.verdict import ExitCode

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Names the file that a CI job shows on its page; several steps add to it."""
FOLDER_PAGE = "report.html"


@click.command(
    "report",
    epilog="""\b
Exit codes:
  0  written
  2  the input is not there, cut off, or of another form or version; wrong use
  3  the report cannot be written

\b
Examples:
  wavecheck run --json run.json; wavecheck report run.json
  wavecheck report wavecheck-out/FILE.json -o failure.html
  wavecheck report wavecheck-out/matrix -o matrix-report.html
  wavecheck report run.json --format junit -o wavecheck.xml
  wavecheck report run.json --step-summary
  wavecheck report wavecheck-out/FILE.json --format mermaid
""",
)
@click.argument("given", metavar="RUN|FAILURE", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    "output_file",
    metavar="FILE",
    help="Where it goes; - is standard output. Default: for html a page beside the input, else "
    "standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(list(FORMS)),
    help="Default: what the ending of FILE means, else html.",
)
@click.option("--scenario", metavar="ID", help="Tell of this scenario alone.")
@click.option(
    "--step-summary",
    is_flag=True,
    help=f"Add the Markdown summary to the file that ${SUMMARY_VARIABLE} names; without -o and "
    "--format nothing else is written.",
)
def report_command(
    given: Path, output_file: str | None, form: str | None, scenario: str | None, step_summary: bool
) -> int:
    """Tell results as a page to look at, or in a form that other programs read.

    RUN is the JSON of `wavecheck run --json` or `wavecheck matrix`, or their output folder; FAILURE
    is a failure file. A failure of the simulation is played again for its events and their bytes;
    of a real frontend the events are those that the failure file holds.

    The page loads nothing and can be sent as it is.
    """
    alone = step_summary and output_file is None and form is None
    name = form or (None if output_file is None else form_of(output_file)) or HTML
    place = None if alone else _place(given, output_file, name)
    summary = _summary_file() if step_summary else None
    if place is not None and place != STDOUT and given.exists() and Path(place).exists():
        _check_not_input(given, Path(place))
    made = _made(given, events=step_summary or FORMS[name].events)
    if scenario is not None:
        made = _only(made, scenario)
    try:
        text = None if alone else FORMS[name].text(made, invariant_doc)
    except CannotTellError as error:
        raise usage_error(str(error)) from error
    for note in made.report.notes:
        CommandError([Diagnostic("note", note)], ExitCode.OK).show()
    if summary is not None:
        _add_summary(summary, made.report)
    if text is not None and place is not None:
        _write(place, text)
    return int(ExitCode.OK)


def _place(given: Path, output_file: str | None, form: str) -> str:
    """Where the report goes."""
    if output_file is None:
        if form != HTML:
            return STDOUT
        return check_writable(str(_page_beside(given)), "-o")
    return output_file if output_file == STDOUT else check_writable(output_file, "-o")


def _page_beside(given: Path) -> Path:
    if given.is_dir():
        return given / FOLDER_PAGE
    suffix = FORMS[HTML].suffixes[0]
    page = given.with_suffix(suffix)
    # A matrix has a page of that name already.
    return (
        given.with_suffix(f".report{suffix}") if page.exists() and given.stem == "matrix" else page
    )


def _check_not_input(given: Path, place: Path) -> None:
    if given.samefile(place):
        msg = f"-o: {place} is the file that is read"
        raise usage_error(msg, expected="another file")


def _summary_file() -> Path:
    named = os.environ.get(SUMMARY_VARIABLE, "")
    if not named:
        msg = f"--step-summary: ${SUMMARY_VARIABLE} is not set"
        help_text = "CI sets it; elsewhere: --format markdown -o FILE"
        raise usage_error(msg, help_text=help_text)
    return Path(check_writable(named, f"${SUMMARY_VARIABLE}"))


def _made(given: Path, *, events: bool) -> Made:
    progress = Progress()
    try:
        with interruptible():
            return make_report(given, invariant_doc, Tracing(wanted=events, progress=progress.show))
    except InputError as error:
        raise usage_error(error.title, help_text=error.help) from error
    finally:
        progress.clear()


def _only(made: Made, scenario: str) -> Made:
    """The part of a report that is about one scenario."""
    report = made.report
    kept = [result for result in report.results if result.scenario == scenario]
    if not kept:
        msg = "scenario of this report"
        raise unknown_word(msg, scenario, dict.fromkeys(r.scenario for r in report.results))
    violations = [v for v in report.violations if v.scenario == scenario]
    numbers = {id(v): number for number, v in enumerate(violations)}
    results = [
        result
        if result.violation is None
        else replaced(result, violation=numbers[id(report.violations[result.violation])])
        for result in kept
    ]
    counts = {status: sum(r.status == status for r in kept) for status in report.counts}
    part = replaced(
        report,
        headline=scenario,
        results=results,
        violations=violations,
        counts={status: number for status, number in counts.items() if number},
        matrix=None,
    )
    run = None if made.run is None else made.run.only(scenario)
    return replace(made, report=part, run=run)


def _add_summary(path: Path, report: Report) -> None:
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(markdown(report))
    except OSError as error:
        raise cannot_write(path, error) from error


def _write(place: str, text: str) -> None:
    if place == STDOUT:
        to_stdout(text)
        return
    try:
        write_text(Path(place), text)
    except OSError as error:
        raise cannot_write(place, error) from error
    echo(f"written: {place}", err=True)


__all__ = ["report_command"]
