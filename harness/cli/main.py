"""The ``wavecheck`` command: its group, and how errors become exit codes."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.cli.commands import Commands
from harness.cli.output import (
    NO_NAME,
    CommandError,
    NoStandardOutputError,
    echo,
    is_writable,
    no_name,
)
from harness.cli.pool import describe_error
from harness.reports.diagnostic import Diagnostic
from harness.targets.base import TargetError
from harness.verdict import ExitCode
from harness.version import tool_version

TRACEBACK_VARIABLE = "WAVECHECK_TRACEBACK"
"""Environment variable: set to anything, an error of ours shows where it comes from."""

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of a standard output that takes nothing any more; errors of files have a file name."""

NAMING = ("WAVECHECK_", "TMPDIR")
"""How the names of environment variables begin that name files to us."""

EPILOG = """\b
Examples:
  wavecheck list scenarios                  what there is to play
  wavecheck run                             everything, in simulation
  wavecheck run waves --target zmq          one chapter, over real sockets
  wavecheck run my-scenario.yaml            a file of your own
  wavecheck run --mutant coordinator-rewinds   show what a known bug looks like
  wavecheck new my-story --template wave    begin a scenario of your own
  wavecheck explain my-story.yaml           what a scenario does, in prose
  wavecheck frontend fetch 0.33.0           get a release of the real frontend
  wavecheck run --target vllm-rs --frontend 0.33.0 --allow-known
  wavecheck replay wavecheck-out/FILE       play a failure again
  wavecheck shrink wavecheck-out/FILE       make it small
  wavecheck report wavecheck-out/FILE       look at it in a browser
  wavecheck matrix                          everything on every release, as one table
  wavecheck mutants                         which known bugs are caught, and by what
  wavecheck bisect utility/failing-beside-hanging   in which release that changed

\b
Exit codes:
  0    no violation, and at least one scenario held
  1    a violation, or repeats that differ
  2    bad input, wrong use, or nothing selected
  3    the target or the harness failed
  4    nothing could be judged (replay: diverged)
  130  interrupted (Ctrl-C, SIGTERM, SIGHUP)
  141  whoever read the output closed it early (as with | head)
"""

COMMANDS = Commands()


class WavecheckGroup(click.Group):
    """A group whose errors end in the documented exit codes, never in a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit with its code."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        name = prog_name or "wavecheck"
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A message in full matters more than one sign that the terminal cannot show.
                stream.reconfigure(errors="backslashreplace")
        try:
            code = self._code(args, name, complete_var, windows_expand_args, extra)
            _flush()
        except BrokenPipeError:
            # The reader of our output left. Nobody is there to tell, and no flush may fail.
            _mute()
            code = int(ExitCode.CLOSED_PIPE)
        except OSError as error:
            code = _unwritable(error)
        sys.exit(code)

    def _code(
        self,
        args: Sequence[str] | None,
        prog_name: str,
        complete_var: str | None,
        windows_expand_args: bool,
        extra: dict[str, Any],
    ) -> int:
        stdout = sys.stdout
        try:
            result = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except CommandError as error:
            error.show()
            return int(error.code)
        except click.ClickException as error:
            # It quotes words of the command line, which a shell may have made of names of files.
            text = io.StringIO()
            error.show(file=text)
            echo(text.getvalue().removesuffix("\n"), err=True)
            return int(ExitCode.USAGE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            return int(ExitCode.INTERRUPTED)
        except SystemExit:
            if sys.stdout is not stdout:
                # What click does if a reader left, before it exits with 1.
                sys.stdout = stdout
                raise BrokenPipeError from None
            raise
        except BrokenPipeError:
            raise
        except Exception as error:
            if isinstance(error, OSError):
                if isinstance(error, NoStandardOutputError) or _is_of_stdout(error):
                    raise
                if error.errno in NO_NAME and _was_named(error.filename, args):
                    no_name(error).show()
                    return int(ExitCode.USAGE)
            return _fault(error)
        return result if isinstance(result, int) else int(ExitCode.OK)


def _flush() -> None:
    # There is none if the process was started with a closed standard output.
    if sys.stdout is not None:
        sys.stdout.flush()


def _mute() -> None:
    """Let what still waits to be written go nowhere: Python itself flushes at its end."""
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        with contextlib.suppress(io.UnsupportedOperation):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _unwritable(error: OSError) -> int:
    """Standard output takes nothing, e.g. since its disk is full."""
    title = f"cannot write to standard output: {error.strerror or error}"
    with contextlib.suppress(OSError):
        CommandError([Diagnostic("error", title)], ExitCode.HARNESS).show()
    _mute()
    return int(ExitCode.HARNESS)


def _is_of_stdout(error: OSError) -> bool:
    """Whether standard output takes nothing; one that never could raises EBADF, as bugs do."""
    if error.filename is not None:
        return False
    return error.errno in NO_ROOM or (error.errno == errno.EBADF and not is_writable(sys.stdout))


def _was_named(file: object, args: Sequence[str] | None) -> bool:
    """Whether whoever began the command named this file, or a folder of it, or its last part."""
    if not isinstance(file, (str, os.PathLike)):
        return False
    given = [text for name, text in os.environ.items() if name.startswith(NAMING)]
    for word in sys.argv[1:] if args is None else args:
        given += [word, word.partition("=")[2]]
    path = Path(os.path.abspath(file))
    for name in filter(None, given):
        parts = Path(os.path.normpath(name)).parts
        # Where names are looked for in a folder of ours, a suffix may have been put behind.
        tail = path.parts[-len(parts) :] if parts else ()
        if tail and tail[:-1] == parts[:-1] and f"{tail[-1]}.".startswith(f"{parts[-1]}."):
            return True
        if path.is_relative_to(os.path.abspath(name)):
            return True
    return False


def _fault(error: Exception) -> int:
    """Report what went wrong in the target or in us."""
    if isinstance(error, TargetError):
        message = Diagnostic("error", str(error))
    else:
        message = Diagnostic(
            "error",
            f"a fault in wavecheck: {describe_error(error)}",
            help=f"set {TRACEBACK_VARIABLE}=1 to see where, and please report it",
        )
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    CommandError([message], ExitCode.HARNESS).show()
    return int(ExitCode.HARNESS)


@click.group(
    cls=WavecheckGroup,
    commands=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(tool_version(), prog_name="wavecheck")
def cli() -> None:
    """Check a vLLM frontend against mock data-parallel engines.

    Scenarios tell mock engines to hang, fail, lie, pause and complete waves on command;
    invariants judge what the frontend did. The frontend is our reference client in a
    deterministic simulation (sim) or over real ZMQ sockets (zmq), or the real Rust
    frontend of a vLLM release (vllm-rs).
    """
