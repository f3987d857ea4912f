"""``wavecheck migrate``: bring files of older formats to the current one."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.output import CommandError, Output, cannot_write, usage_error
from harness.failure import FailureFileError
from harness.files import write_text
from harness.migrating import Step, migration
from harness.reports.inputs.files import InputError
from harness.reports.wording import counted
from harness.scenario.problems import ScenarioFileError
from harness.verdict import ExitCode


@click.command(
    "migrate",
    epilog="""\b
Examples:
  wavecheck migrate wavecheck-out/*.json
  wavecheck migrate --check scenarios-of-mine/*.yaml baseline.yaml

\b
Exit codes:
  0  every file is of its current format now
  1  with --check: some are not
  2  some cannot be brought to it: not ours, not valid, too old, or of a newer wavecheck
  3  a file cannot be written
""",
)
@click.argument(
    "paths", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--check", is_flag=True, help="Change nothing; end with 1 if a file is older.")
def migrate_command(paths: tuple[Path, ...], check: bool) -> int:
    """Rewrite files of an older format as the current one, in place.

    FILE is a scenario, a baseline, a failure file, or JSON of a run, a matrix or a report. Files of
    older formats are read as they are, as docs/formats.md says; what is rewritten is read longer.
    """
    output = Output(None)
    older = bad = 0
    for path in paths:
        try:
            step = _step(path)
        except CommandError as error:
            error.show()
            bad += 1
            continue
        older += step.text is not None
        output.say(f"{path}: {_said(step, check=check)}")
        if step.text is not None and not check:
            try:
                write_text(path, step.text)
            except OSError as error:
                raise cannot_write(path, error) from error
    output.say(_summary(len(paths), older, bad, check=check))
    if bad:
        return int(ExitCode.USAGE)
    return int(ExitCode.VIOLATION if check and older else ExitCode.OK)


def _step(path: Path) -> Step:
    try:
        return migration(path)
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error
    except InputError as error:
        raise usage_error(error.title, help_text=error.help) from error
    except FailureFileError as error:
        raise usage_error(str(error)) from error


def _said(step: Step, *, check: bool) -> str:
    form = step.form
    if step.text is None:
        return f"{form.id}, {form.key} {step.version}, which is current"
    word = "can be migrated" if check else "migrated"
    return f"{form.id}, {word} from {form.key} {step.version} to {form.current}"


def _summary(files: int, older: int, bad: int, *, check: bool) -> str:
    word = "older" if check else "migrated"
    left = f", {bad} refused" if bad else ""
    return f"{counted(files, 'file')}: {files - older - bad} current, {older} {word}{left}"
