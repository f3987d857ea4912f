"""``wavecheck decode``: explain raw frames."""

from __future__ import annotations

import errno
import sys

import click

from client.protocol.profiles import RELEASES
from harness.capture.explain import explain
from harness.capture.explain_report import json_of, text_of
from harness.capture.explanation import Explanation
from harness.capture.file import FILE_BYTES_MAX
from harness.capture.kinds import KINDS, UNKNOWN
from harness.capture.sources import Message, SourceError, messages_of
from harness.cli.output import STDOUT, Output, json_option, unknown_word, usage_error
from harness.reading import NotRegularError, read_bounded, read_regular
from harness.reports.json_report import SCHEMA
from harness.verdict import ExitCode
from harness.version import tool_version

EPILOG = """\b
FILE is one of
  a capture (see `wavecheck capture`), or a file of golden vectors
  lines of hexadecimal frames: one message a line, frames apart by blanks; - is an
    empty frame, text:READY is text, # begins a comment
  anything else: the raw bytes of one frame

\b
Exit codes:
  0  at least one release (with --profile: that one) takes each message
  1  some message is taken by none
  2  the file cannot be read

\b
Examples:
  echo "02 920000" | wavecheck decode -
  wavecheck decode reply.bin --as outputs --profile 0.31.0
  wavecheck decode 0.33.0.capture --message 12
"""


@click.command("decode", epilog=EPILOG)
@click.argument("file", metavar="FILE|-")
@click.option("--profile", metavar="V", help="Ask this release alone, and use its names of fields.")
@click.option(
    "--as",
    "kind",
    metavar="KIND",
    help=f"What the messages are, where it cannot be told from the bytes: "
    f"{', '.join(name for name in KINDS if name != UNKNOWN)}.",
)
@click.option("--binary", is_flag=True, help="FILE is one frame, even if it looks like text.")
@click.option(
    "--message",
    "numbers",
    metavar="N",
    type=click.IntRange(1),
    multiple=True,
    help="Only the N-th message, counted from 1. May be given more than once.",
)
@json_option
def decode_command(
    file: str,
    profile: str | None,
    kind: str | None,
    binary: bool,
    numbers: tuple[int, ...],
    json_file: str | None,
) -> int:
    """Explain raw frames of the protocol.

    For each message: its type, the releases whose receiver takes it, why others refuse it and at
    which byte, and each field by name, with its place in the frame.
    """
    if profile is not None and profile not in RELEASES:
        word = "release"
        raise unknown_word(word, profile, RELEASES)
    if kind is not None and kind not in KINDS:
        word = "kind of message"
        raise unknown_word(word, kind, [name for name in KINDS if name != UNKNOWN])
    messages = _messages(file, binary=binary)
    chosen = _chosen(messages, numbers)
    output = Output(json_file)
    explained = []
    for number in chosen:
        message = messages[number - 1]
        one = explain(
            message.frames,
            kind=message.kind if kind is None else KINDS[kind],
            release=message.release,
            only=profile,
        )
        explained.append((number, message.title, one))
        for line in text_of(number, message.title, one):
            output.say(line)
    code = ExitCode.OK if all(_is_taken(one) for _, _, one in explained) else ExitCode.VIOLATION
    output.write(
        {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            "file": file,
            "messages": [json_of(*one) for one in explained],
            "exit": int(code),
        }
    )
    return int(code)


def _is_taken(one: Explanation) -> bool:
    return bool(one.taken)


def _messages(file: str, *, binary: bool) -> list[Message]:
    name = "standard input" if file == STDOUT else file
    try:
        if file == STDOUT:
            content = read_bounded(sys.stdin.buffer, FILE_BYTES_MAX, name)
        else:
            content = read_regular(file, FILE_BYTES_MAX)
    except OSError as error:
        msg = f"cannot read {name}: {error.strerror}"
        help_text = "for what comes out of a pipe, give -" if _is_no_file(error) else ""
        raise usage_error(msg, help_text=help_text) from error
    try:
        return messages_of(content, binary=binary)
    except SourceError as error:
        msg = f"{name}: {error}"
        help_text = "see `wavecheck decode --help` for what can be read; --binary takes any bytes"
        raise usage_error(msg, help_text=help_text) from error


def _is_no_file(error: OSError) -> bool:
    return isinstance(error, NotRegularError) and error.errno != errno.EISDIR


def _chosen(messages: list[Message], numbers: tuple[int, ...]) -> list[int]:
    for number in numbers:
        if number > len(messages):
            msg = f"there is no message {number}: the file has {len(messages)}"
            raise usage_error(msg)
    return list(dict.fromkeys(numbers)) or list(range(1, len(messages) + 1))
