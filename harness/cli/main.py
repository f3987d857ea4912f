"""The ``wavecheck`` command: its group, and how errors become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from harness.cli.engine_cmd import engine
from harness.cli.frontend_cmd import frontend
from harness.cli.list_cmd import list_command
from harness.cli.output import CommandError
from harness.cli.pool import describe_error
from harness.cli.replay_cmd import replay_command
from harness.cli.run_cmd import run_command
from harness.cli.validate_cmd import validate_command
from harness.reports.diagnostic import Diagnostic
from harness.targets.base import TargetError
from harness.verdict import ExitCode
from harness.version import tool_version

TRACEBACK_VARIABLE = "WAVECHECK_TRACEBACK"
"""Environment variable: set to anything, an error of ours shows where it comes from."""

EPILOG = """\b
Examples:
  wavecheck list scenarios                  what there is to play
  wavecheck run                             everything, in simulation
  wavecheck run waves --target zmq          one chapter, over real sockets
  wavecheck run my-scenario.yaml            a file of your own
  wavecheck run --mutant coordinator-rewinds   show what a known bug looks like
  wavecheck frontend fetch 0.33.0           get a release of the real frontend
  wavecheck run --target vllm-rs --frontend 0.33.0 --allow-known
  wavecheck replay wavecheck-out/FILE       play a failure again

\b
Exit codes:
  0    no violation, and at least one scenario held
  1    a violation
  2    bad input, wrong use, or nothing selected
  3    the target or the harness failed
  4    nothing could be judged (replay: diverged)
  130  interrupted
"""


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
        sys.exit(self._code(args, name, complete_var, windows_expand_args, extra))

    def _code(
        self,
        args: Sequence[str] | None,
        prog_name: str,
        complete_var: str | None,
        windows_expand_args: bool,
        extra: dict[str, Any],
    ) -> int:
        try:
            result = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except click.UsageError as error:
            error.show()
            return int(ExitCode.USAGE)
        except CommandError as error:
            error.show()
            return int(error.code)
        except click.ClickException as error:
            error.show()
            return int(ExitCode.USAGE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            return int(ExitCode.INTERRUPTED)
        except BrokenPipeError:
            # The reader of our output left. Nobody is there to tell, and no flush may fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return int(ExitCode.HARNESS)
        except Exception as error:  # noqa: BLE001 - the outermost place
            return _fault(error)
        return result if isinstance(result, int) else int(ExitCode.OK)


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


cli.add_command(run_command)
cli.add_command(replay_command)
cli.add_command(validate_command)
cli.add_command(list_command)
cli.add_command(frontend)
cli.add_command(engine)
