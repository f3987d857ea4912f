"""``wavecheck capture``: record what a frontend puts on the wire."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import click

from harness.capture.file import write
from harness.capture.take import PLAYED, Capture
from harness.cli.capturing import (
    capture_of,
    exit_of,
    failures_of,
    load_stories,
    request_of,
    target_options,
)
from harness.cli.frontend_flags import Environment
from harness.cli.output import (
    STDOUT,
    Output,
    Trouble,
    check_writable,
    json_option,
    to_stdout,
    usage_error,
)
from harness.cli.pool import interruptible
from harness.files import write_text
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.reports.wording import counted
from harness.verdict import ExitCode
from harness.version import tool_version

EPILOG = """\b
Examples:
  wavecheck capture --frontend 0.33.0                 the fixed set, into 0.33.0.capture
  wavecheck capture --frontend target/release/vllm-rs --as-release 0.33.0 -o mine.capture
  wavecheck capture --frontend 0.31.0 capture/12-waves utility/is-sleeping-agrees -o -
  wavecheck capture --target sim --frontend 0.28.0

\b
Exit codes:
  0    captured
  2    bad input or wrong use
  3    the target failed, or a story broke (what there is, is written)
  4    no story could be played on this frontend
  130  interrupted; nothing is written
"""


@click.command("capture", epilog=EPILOG)
@click.argument("names", metavar="[PATH|ID]...", nargs=-1)
@click.option(
    "--frontend",
    metavar="V|PATH",
    help="A vLLM release, fetched if need be, or a binary. Default: the newest known release. "
    "With --target sim or zmq: the release that the reference client speaks.",
)
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    help="Where the capture goes; - is standard output. Default: VERSION.capture.",
)
@target_options
@json_option
def capture_command(
    names: tuple[str, ...],
    frontend: str | None,
    file: str | None,
    target: str,
    as_release: str | None,
    frontend_arg: tuple[str, ...],
    frontend_env: Environment,
    json_file: str | None,
) -> int:
    """Record the frames at the mock engines' sockets, in both directions, and the trace.

    Without PATH or ID a fixed set of small stories is played: requests through each surface, the
    admin routes, waves, an engine that dies. Each story runs one thing after the other, so that
    two captures of one release are equal but for ids, times and ports. All engines stay in this
    process: one that a scenario lets vanish closes its sockets instead.
    """
    if file == STDOUT and json_file == STDOUT:
        msg = "-o - and --json - both want standard output"
        raise usage_error(msg)
    if file not in (None, STDOUT):
        check_writable(str(file), "-o")
    stories = load_stories(names)
    request = request_of(target, frontend, as_release, frontend_arg, frontend_env)
    with interruptible():
        capture = capture_of(stories, request)
    output = Output(STDOUT if file == STDOUT else json_file)
    path = file or f"{Path(capture.version).name}.capture"
    trouble = Trouble()
    with trouble.kept("" if path == STDOUT else path):
        _write(capture, path)
    _tell(output, capture, None if trouble else path)
    code = trouble.code(exit_of(capture))
    with trouble.kept():
        Output(json_file).write(_document(capture, path, code))
    trouble.show()
    return int(trouble.code(code))


def _write(capture: Capture, path: str) -> None:
    text = StringIO()
    write(capture, text)
    if path == STDOUT:
        to_stdout(text.getvalue())
        return
    write_text(Path(path), text.getvalue())


def _tell(output: Output, capture: Capture, path: str | None) -> None:
    """``path``: where it is; ``None``: it could not be written."""
    for note in capture.notes:
        output.show(Diagnostic("note", note))
    width = max(len(story.id) for story in capture.stories)
    for story in capture.stories:
        frames = len(story.frames)
        noun = "message" if frames == 1 else "messages"
        what = f"{frames:>5} {noun}" if story.status == PLAYED else story.reason
        output.say(f"{story.status:<8} {story.id:<{width}}  {what}")
    for diagnostic in failures_of(capture):
        output.show(diagnostic)
    played = [story for story in capture.stories if story.status == PLAYED]
    messages = sum(len(story.frames) for story in played)
    where = "" if path is None else f", in {'standard output' if path == STDOUT else path}"
    stories = counted(len(played), "story", "stories")
    output.say(f"{capture.title}: {stories}, {counted(messages, 'message')}{where}")


def _document(capture: Capture, path: str, code: ExitCode) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "tool": {"version": tool_version()},
        "target": capture.target,
        "version": capture.version,
        "notes": list(capture.notes),
        "file": path,
        "stories": [
            {
                "story": story.id,
                "status": story.status,
                "reason": story.reason,
                "release": story.release,
                "messages": len(story.frames),
                "events": len(story.events),
            }
            for story in capture.stories
        ],
        "exit": int(code),
    }
