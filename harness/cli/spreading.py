"""The flags on who plays: worker processes of this machine, or a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from harness.cli.executors import Executor
from harness.cli.executors_dask import (
    INSTALL,
    AddressError,
    ClusterError,
    DaskExecutor,
    MissingError,
    scheduler_of,
)
from harness.cli.output import CommandError, usage_error
from harness.reports.diagnostic import Diagnostic
from harness.verdict import ExitCode

Command = TypeVar("Command", bound=Callable[..., Any])
JOBS_MAX = 256


def spreading_options(default_jobs: str) -> Callable[[Command], Command]:
    """``--jobs`` and ``--executor``. ``default_jobs``: what the help says of the default."""

    def add(command: Command) -> Command:
        command = click.option(
            "--executor",
            metavar="dask://HOST:PORT",
            help="Play on the workers of this Dask cluster, instead of here. They need the same "
            f"wavecheck: {INSTALL}.",
        )(command)
        return click.option(
            "--jobs",
            type=click.IntRange(1, JOBS_MAX),
            metavar="N",
            help="Worker processes. What is played, and what comes out, does not depend on it. "
            f"Default: {default_jobs}.",
        )(command)

    return add


def check_executor(executor: str | None, jobs: int | None, attach: str | None = None) -> None:
    """Refuse an address that is none, and what does not go with a cluster.

    Raises:
        CommandError: as above.
    """
    if executor is None:
        return
    try:
        scheduler_of(executor)
    except AddressError as error:
        msg = f"--executor: {error}"
        raise usage_error(msg) from error
    if jobs is not None:
        msg = "--jobs does not go with --executor"
        raise usage_error(msg, help_text="the cluster has as many workers as you start there")
    if attach is not None:
        msg = "--attach does not go with --executor"
        raise usage_error(msg, help_text="an attached frontend is driven by one process, here")


def open_executor(executor: str | None) -> Executor | None:
    """Reach the cluster; ``None`` if none is named.

    Raises:
        CommandError: it cannot be used (exit code 3), or its library is missing (2).
    """
    if executor is None:
        return None
    try:
        return DaskExecutor(scheduler_of(executor))
    except MissingError as error:
        raise usage_error(str(error)) from error
    except ClusterError as error:
        diagnostic = Diagnostic("error", str(error), where=executor)
        raise CommandError([diagnostic], ExitCode.HARNESS) from error
