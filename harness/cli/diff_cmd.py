"""``wavecheck diff``: two captures, or two releases, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from harness.capture.compare import compare
from harness.capture.compare_report import json_of, text_of
from harness.capture.file import CaptureFileError, is_capture, read_file
from harness.capture.take import Capture
from harness.cli.capturing import (
    capture_of,
    exit_of,
    failures_of,
    load_stories,
    request_of,
    target_options,
)
from harness.cli.frontend_flags import Environment
from harness.cli.output import CommandError, Output, json_option, usage_error
from harness.cli.pool import interruptible
from harness.reading import open_regular
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.scenario.loader import LoadedScenario
from harness.targets.request import TargetRequest
from harness.verdict import ExitCode
from harness.version import tool_version

EPILOG = """\b
Examples:
  wavecheck diff 0.31.0 0.33.0                     two releases, captured now
  wavecheck diff 0.33.0.capture target/release/vllm-rs --as-release 0.33.0
  wavecheck diff old.capture new.capture --json -
  wavecheck diff 0.32.0 0.33.0 --story capture/12-waves

\b
Exit codes:
  0  no difference
  1  differences
  2  bad input or wrong use
  3  the target failed, or a story broke
  4  no story was played on both
"""


@click.command("diff", epilog=EPILOG)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--story",
    "names",
    metavar="PATH|ID",
    multiple=True,
    help="Play and compare only this story or scenario. May be given more than once.",
)
@click.option("--all", "everything", is_flag=True, help="Show every line of each section.")
@target_options
@json_option
def diff_command(
    first: str,
    second: str,
    names: tuple[str, ...],
    everything: bool,
    target: str,
    as_release: str | None,
    frontend_arg: tuple[str, ...],
    frontend_env: Environment,
    json_file: str | None,
) -> int:
    """Compare two frontends: fields of messages, their order at each engine, answers to callers.

    A and B are captures, or releases or binaries that are captured now. Ids, times, ports and
    paths are left out of the comparison, and so are the harness's own fences.
    """
    stories = load_stories(names)
    sides: list[Capture | TargetRequest] = [
        _side(name, target, as_release, frontend_arg, frontend_env) for name in (first, second)
    ]
    with interruptible():
        captures = [_capture(side, stories, names) for side in sides]
    output = Output(json_file)
    broken = [diagnostic for capture in captures for diagnostic in failures_of(capture)]
    difference = compare(captures[0], captures[1])
    for line in text_of(captures[0], captures[1], difference, everything=everything):
        output.say(line)
    for diagnostic in broken:
        output.show(diagnostic)
    if broken:
        code = ExitCode.HARNESS
    elif not difference.compared:
        code = ExitCode.NOT_JUDGED
    else:
        code = ExitCode.OK if difference.is_empty else ExitCode.VIOLATION
    output.write(
        {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            **json_of(captures[0], captures[1], difference),
            "exit": int(code),
        }
    )
    return int(code)


def _side(
    name: str,
    target: str,
    as_release: str | None,
    arguments: tuple[str, ...],
    environment: Environment,
) -> Capture | TargetRequest:
    """Read a capture, or say how a frontend is had.

    Raises:
        CommandError: a file that is a broken capture, or an unknown release.
    """
    if _is_capture(Path(name)):
        try:
            return read_file(Path(name))
        except CaptureFileError as error:
            raise usage_error(str(error)) from error
    return request_of(target, name, _for_a_file(name, as_release), arguments, environment)


def _for_a_file(name: str, as_release: str | None) -> str | None:
    """``--as-release`` is for the one that is a file, the other may be a release."""
    return as_release if Path(name).is_file() else None


def _is_capture(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return is_capture(file.readline(1 << 16).decode("utf-8", "replace"))
    except OSError:
        return False


def _capture(
    side: Capture | TargetRequest, stories: Sequence[LoadedScenario], names: Sequence[str]
) -> Capture:
    if isinstance(side, TargetRequest):
        capture = capture_of(stories, side)
        if exit_of(capture) == ExitCode.NOT_JUDGED:
            what = "; ".join(f"{story.id}: {story.reason}" for story in capture.stories)
            error = Diagnostic("error", f"no story could be played on {capture.title}: {what}")
            raise CommandError([error], ExitCode.NOT_JUDGED)
        return capture
    return only(side, [story.id for story in stories]) if names else side


def only(capture: Capture, ids: Sequence[str]) -> Capture:
    """Keep some stories of a capture."""
    kept = tuple(story for story in capture.stories if story.id in ids)
    return replace(capture, stories=kept)
