"""Where commands write: text, JSON, progress; and errors that end a command."""

from __future__ import annotations

import codecs
import contextlib
import errno
import fcntl
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click
from rich.console import Console
from rich.text import Text

from harness.files import write_text
from harness.reports.annotations import defused
from harness.reports.diagnostic import Diagnostic, render, shorten
from harness.reports.json_report import to_text
from harness.reports.visible import masked, printable
from harness.scenario.problems import did_you_mean
from harness.verdict import ExitCode

STDOUT = "-"
"""File name that means standard output."""
ACTIONS_VARIABLE = "GITHUB_ACTIONS"
"""``true`` in a job of GitHub Actions, which takes some lines of the output for commands."""
NAME_SHOWN = 60
"""Characters of a name that no file can have that are shown."""
NO_NAME = frozenset({errno.ENAMETOOLONG, errno.ELOOP})
"""Errors of such names, where one was looked for."""


class _Console(Console):
    """A console that leaves it to the command what a reader that went away means."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False, file: Any = None) -> Console:
    """A console without colour, bold or dim text where ``NO_COLOR`` is set."""
    plain = bool(os.environ.get("NO_COLOR"))
    return _Console(stderr=stderr, file=file, color_system=None if plain else "auto")


Command = TypeVar("Command", bound=Callable[..., Any])


def guarded(text: Text) -> Text:
    """Text that steers no terminal; in a job of a code host also none that commands that host.

    What is told says itself what its signs are (``printable``); this is the net below it.
    """
    plain = masked(text.plain)
    if plain != text.plain:
        # One sign for one sign: what is styled stays where it is.
        text = text.copy()
        text.plain = plain
    if os.environ.get(ACTIONS_VARIABLE) != "true" or defused(plain) == plain:
        return text
    return text.blank_copy(defused(plain))


def echo(text: str, *, err: bool = False) -> None:
    """Print a line of plain text as ``Output.say`` does, for what has no ``Output``."""
    click.echo(guarded(Text(text)).plain, err=err)


class NoStandardOutputError(OSError):
    """A standard output that was closed before we began, or is open for reading only."""

    def __init__(self) -> None:
        super().__init__(errno.EBADF, os.strerror(errno.EBADF))


def is_writable(stream: TextIO | None) -> bool:
    """Whether a standard stream is there and was opened for writing."""
    if stream is None:
        return False
    try:
        mode = fcntl.fcntl(stream.fileno(), fcntl.F_GETFL) & os.O_ACCMODE
    except io.UnsupportedOperation:
        return True  # it is no file of the system
    except OSError:
        return False
    return mode != os.O_RDONLY


def to_stdout(text: str) -> None:
    """Write a result to standard output, where it was asked for.

    Raises:
        NoStandardOutputError: there is none.
        OSError: it takes nothing.
    """
    if sys.stdout is None or not is_writable(sys.stdout):
        raise NoStandardOutputError
    sys.stdout.write(text)
    sys.stdout.flush()


class CommandError(click.ClickException):
    """Ends a command with messages and an exit code.

    Attributes:
        diagnostics: what is printed to standard error.
        code: the exit code.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], code: ExitCode) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics[0].title)
        self.code = code

    def show(self, file: Any = None) -> None:
        """Print the messages."""
        shown = console(stderr=file is None, file=file)
        for i, diagnostic in enumerate(self.diagnostics):
            shown.print(Text("\n") if i else Text(), end="")
            shown.print(guarded(render(diagnostic)), soft_wrap=True)


def usage_error(title: str, *, expected: str = "", help_text: str = "") -> CommandError:
    """An error of use: exit code 2."""
    return CommandError(
        [Diagnostic("error", title, expected=expected, help=help_text)], ExitCode.USAGE
    )


def no_name(error: OSError) -> CommandError:
    """An error of use: a file was named by what no file can be named."""
    title = f"{shorten(str(error.filename), NAME_SHOWN)}: {error.strerror}"
    return usage_error(title, expected="the name of a file or a folder")


def unknown_word(kind: str, word: str, choices: Iterable[str]) -> CommandError:
    """An error of use: ``word`` is no ``kind``; lists the choices."""
    known = list(choices)
    return usage_error(
        f"unknown {kind} '{word}'",
        expected=f"one of {', '.join(known)}" if known else "(there is none)",
        help_text=did_you_mean(word, known),
    )


def json_option(command: Command) -> Command:
    """The option that every command has."""
    return click.option(
        "--json",
        "json_file",
        metavar="FILE",
        callback=_writable,
        help="Write the result as JSON; - is standard output (then nothing else is written there).",
    )(command)


def _writable(_context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or value == STDOUT:
        return value
    return check_writable(value, parameter.opts[0])


def check_writable(value: str, option: str) -> str:
    """Refuse a file that cannot be written before any work is done.

    Raises:
        CommandError: it is a folder, or its folder does not exist or is read-only.
    """
    path = Path(value)
    if not value:
        msg = f"{option}: the name of the file is empty"
        raise usage_error(msg, expected="the name of a file")
    if path.is_dir():
        msg = f"{option}: {value} is a folder"
        raise usage_error(msg, expected="the name of a file")
    if not path.parent.is_dir():
        msg = f"{option}: there is no folder {path.parent}"
        raise usage_error(msg)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        msg = f"{option}: {value} cannot be written"
        raise usage_error(msg)
    return value


def check_folder(value: Path, option: str) -> None:
    """Refuse a folder in which nothing can be written; it need not exist yet.

    Raises:
        CommandError: it, or what it is to be made in, is no folder or is read-only.
    """
    existing = next(path for path in (value, *value.absolute().parents) if os.path.lexists(path))
    if not existing.is_dir():
        msg = f"{option}: {existing} is not a folder"
        raise usage_error(msg, expected="a folder, which is made if it is not there")
    if not os.access(existing, os.W_OK | os.X_OK):
        msg = f"{option}: nothing can be written in {existing}"
        raise usage_error(msg, expected="a folder that can be written")


def cannot_write(path: Path | str, error: OSError) -> CommandError:
    """A report that was asked for and cannot be written: exit code 3."""
    title = f"cannot write {path}: {error.strerror or error}"
    return CommandError([Diagnostic("error", title)], ExitCode.HARNESS)


class Trouble:
    """What went wrong beside the work, to be told when all else has been."""

    def __init__(self) -> None:
        self._errors: list[CommandError] = []
        self._stdout: OSError | None = None

    def __bool__(self) -> bool:
        return bool(self._errors) or self._stdout is not None

    @contextlib.contextmanager
    def kept(self, path: Path | str = "") -> Iterator[None]:
        """Keep what is raised inside for later.

        ``path``: the file that is written inside; default: standard output.
        """
        try:
            yield
        except CommandError as error:
            self._errors.append(error)
        except BrokenPipeError:
            raise
        except OSError as error:
            if path:
                self._errors.append(cannot_write(path, error))
            else:
                self._stdout = error

    def code(self, otherwise: ExitCode) -> ExitCode:
        """The exit code, which an interruption keeps."""
        return otherwise if otherwise is ExitCode.INTERRUPTED or not self else ExitCode.HARNESS

    def show(self) -> None:
        """Tell it.

        Raises:
            OSError: standard output takes nothing more, which ends any command alike.
        """
        for error in self._errors:
            error.show()
        if self._stdout is not None:
            raise self._stdout


class Folder(click.Path):
    """A folder for output, which need not exist yet; an empty name would mean this one."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty name. Raises ``CommandError``."""
        if value == "":
            option = param.opts[0] if param is not None else "--out"
            msg = f"{option}: the name of the folder is empty"
            raise usage_error(msg, expected="the name of a folder; . is the current one")
        return super().convert(value, param, ctx)


class Output:
    """Text and JSON of one command. Text moves to standard error when JSON goes to stdout."""

    def __init__(self, json_file: str | None) -> None:
        self._json_file = json_file
        self.text = console(stderr=json_file == STDOUT)

    @property
    def columns(self) -> int | None:
        """Width of the terminal that text goes to; ``None``: it goes elsewhere."""
        return self.text.width if self.text.is_terminal else None

    def say(self, line: str | Text) -> None:
        """Print one line (or more) of text, never wrapped or marked up."""
        text = Text(line) if isinstance(line, str) else line
        self.text.print(guarded(text), soft_wrap=True)

    def raw(self, line: str) -> None:
        """Print a line that is a command to the CI system that reads the output."""
        self.text.print(Text(line), soft_wrap=True)

    def show(self, diagnostic: Diagnostic) -> None:
        """Print a message, set off by empty lines."""
        self.say(Text("\n").join([Text(), render(diagnostic), Text()]))

    def write(self, document: Any) -> None:
        """Write the JSON document, where it was asked for.

        Raises:
            CommandError: the file cannot be written.
        """
        if self._json_file is None:
            return
        if self._json_file == STDOUT:
            unicode = sys.stdout is not None and _is_utf8(sys.stdout)
            text = to_text(document, ascii_only=not unicode)
            # Names of files may hold bytes that are no UTF-8.
            to_stdout(text.encode("utf-8", "backslashreplace").decode("utf-8"))
            return
        text = to_text(document)
        try:
            write_text(Path(self._json_file), text)
        except OSError as error:
            raise cannot_write(self._json_file, error) from error


def _is_utf8(stream: TextIO) -> bool:
    try:
        return codecs.lookup(stream.encoding).name == "utf-8"
    except (LookupError, TypeError):
        return False


class Progress:
    """One line on a terminal's standard error that says what goes on; silent elsewhere."""

    def __init__(self) -> None:
        self._live = (
            sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        )
        self._shown = False

    def show(self, line: str) -> None:
        """Replace the line."""
        if self._live:
            width = max(20, Console(stderr=True).width - 1)
            sys.stderr.write(f"\r\x1b[K{printable(line)[:width]}")
            sys.stderr.flush()
            self._shown = True

    def clear(self) -> None:
        """Remove the line, before other output."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
