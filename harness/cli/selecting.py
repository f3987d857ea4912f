"""Which scenarios a command plays: names, a word, a shard, the quick part, what failed last."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from harness.cli.last_failed import Failed
from harness.cli.output import NO_NAME, CommandError, echo, no_name, usage_error
from harness.reports.wording import counted
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.subsets import quick, shard_of
from harness.verdict import ExitCode

Command = TypeVar("Command", bound=Callable[..., Any])
Shard = tuple[int, int]
"""Number of the shard, from 1, and how many there are."""
SHARDS_MAX = 10_000


def _shard(_context: click.Context, parameter: click.Parameter, value: str | None) -> Shard | None:
    if value is None:
        return None
    found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", value)
    shard, shards = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= shard <= shards <= SHARDS_MAX:
        msg = f"'{value}' is not I/N with 1 <= I <= N <= {SHARDS_MAX}, such as 1/4"
        raise click.BadParameter(msg, param=parameter)
    return shard, shards


def part_options(command: Command) -> Command:
    """``-k``, ``--quick``, ``--shard`` and ``--last-failed``."""
    for option in (
        click.option(
            "--last-failed",
            is_flag=True,
            help="Only what failed in the last run with the same --out.",
        ),
        click.option(
            "--shard",
            metavar="I/N",
            callback=_shard,
            help="Only part I of N, counted from 1. A scenario's part follows from its id; all "
            "parts together are everything.",
        ),
        click.option(
            "--quick",
            is_flag=True,
            help="Only scenarios that are played once and wait for no deadline, cheapest first, "
            "so that one frontend takes less than a minute.",
        ),
        click.option(
            "-k", "word", metavar="WORD", help="Only scenarios with WORD in their id or title."
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which part of what is named is wanted; ``failed``: what failed in the last run."""

    word: str | None = None
    quick: bool = False
    shard: Shard | None = None
    failed: Sequence[Failed] | None = None


def chosen(names: Sequence[str], part: Part) -> list[LoadedScenario]:
    """Load the scenarios that are named, and keep the part that is wanted, in stable order.

    Raises:
        CommandError: a name is none, a file is not valid, or nothing is left (exit code 2).
    """
    try:
        loaded = selection.load_all(selection.select(_named(names, part.failed)))
    except selection.SelectionError as error:
        raise usage_error(str(error), help_text=error.help) from error
    except OSError as error:
        # What failed last may have any name, if somebody wrote the list.
        if error.errno in NO_NAME and error.filename is not None:
            raise no_name(error) from error
        raise
    except selection.InvalidScenariosError as error:
        found = [diagnostic for one in error.errors for diagnostic in one.diagnostics()]
        raise CommandError(found, ExitCode.USAGE) from error
    for name in selection.shadowed(names):
        note = f"note: '{name}' is the built-in one; write ./{name} for the path here"
        echo(note, err=True)
    if part.failed is not None:
        ids = {one.scenario for one in part.failed}
        loaded = _kept(loaded, [one for one in loaded if one.id in ids], "failed in the last run")
    if part.word is not None:
        word = f"has '{part.word}' in its id or title"
        loaded = _kept(loaded, selection.matching(loaded, part.word), word)
    if part.quick:
        loaded = _kept(loaded, quick(loaded), "is quick")
    if part.shard is not None:
        shard, shards = part.shard
        loaded = _kept(loaded, shard_of(loaded, shard, shards), f"is in shard {shard}/{shards}")
    return loaded


def _named(names: Sequence[str], failed: Sequence[Failed] | None) -> list[str]:
    """Names to select by; what failed in the last run where nothing is named."""
    if names or failed is None:
        return list(names)
    builtin = {found.id for found in selection.builtin()}
    return list(
        dict.fromkeys(one.scenario if one.scenario in builtin else one.path for one in failed)
    )


def _kept(
    before: Sequence[LoadedScenario], after: list[LoadedScenario], what: str
) -> list[LoadedScenario]:
    if not after:
        msg = f"none of {counted(len(before), 'scenario')} {what}"
        raise usage_error(msg, help_text="see `wavecheck list scenarios`")
    return after
