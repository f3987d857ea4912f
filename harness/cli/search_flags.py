"""Flags on which orders of events are tried, shared by all commands that simulate."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from harness.cli.completing import strategy_names
from harness.cli.output import unknown_word, usage_error
from harness.strategies import Limits, searches

Command = TypeVar("Command", bound=Callable[..., Any])
SCHEDULES_MAX = 10_000_000
BUDGET_S = 60.0
"""Seconds that a search for everything gets where neither schedules nor a budget are named."""
SEARCH_FLAGS = ("strategy", "schedules", "seed", "stalls", "depth", "budget")
"""Names of the parameters that ``search_options`` adds."""
_WHOLE = frozenset({"dfs", "stall"})
"""Searches that come to an end of their own."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(_context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Read ``60s``, ``2m``, ``1.5h`` or a number of seconds; click calls this."""
    if value is None:
        return None
    found = _DURATION.fullmatch(value.strip())
    length = float(found[1]) * _SECONDS[found[2] or "s"] if found else 0.0
    if not 0 < length <= 7 * 24 * 3600:
        msg = f"{value!r} is no duration; expected 60s, 2m or 1.5h, up to a week"
        raise click.BadParameter(msg, param=parameter)
    return length


def search_options(command: Command) -> Command:
    """``--schedules``, ``--strategy``, ``--stalls``, ``--depth``, ``--budget``, ``--seed``."""
    for option in (
        click.option(
            "--seed",
            type=click.IntRange(0, 2**63 - 1),
            default=0,
            show_default=True,
            metavar="N",
            help="Seed of the strategy; the same seed plays the same schedules anywhere.",
        ),
        click.option(
            "--budget",
            metavar="TIME",
            callback=seconds,
            help="Time (60s, 2m) after which no further schedule of a scenario is tried. "
            "Default: none; for stall and dfs without --schedules 60s.",
        ),
        click.option(
            "--depth",
            type=click.IntRange(1, 20),
            default=Limits().depth,
            show_default=True,
            metavar="N",
            help="Ordering constraints that a fault may need, for --strategy pct.",
        ),
        click.option(
            "--stalls",
            type=click.IntRange(1, 4),
            default=Limits().stalls,
            show_default=True,
            metavar="N",
            help="Tasks or messages that are left out at once at most, for --strategy stall.",
        ),
        click.option(
            "--strategy",
            metavar="S",
            shell_complete=strategy_names,
            help=f"Who picks the orders: {', '.join(searches())}. "
            "Default: auto, or fifo for a single schedule.",
        ),
        click.option(
            "--schedules",
            type=click.IntRange(1, SCHEDULES_MAX),
            metavar="N",
            help="How many orders of events are tried for each scenario. Default: 1; with "
            "--budget, stall or dfs as many as there is time for.",
        ),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class SearchFlags:
    """What the flags come to."""

    strategy: str
    schedules: int
    seed: int
    limits: Limits
    budget_s: float | None

    @classmethod
    def of(
        cls,
        *,
        strategy: str | None,
        schedules: int | None,
        seed: int,
        stalls: int,
        depth: int,
        budget: float | None,
    ) -> SearchFlags:
        """Fill in what is left to the program.

        Raises:
            CommandError: there is no such strategy.
        """
        if strategy is not None and strategy not in searches():
            msg = "strategy"
            raise unknown_word(msg, strategy, searches())
        if schedules is None and budget is None and strategy in _WHOLE:
            budget = BUDGET_S
        if schedules is None:
            schedules = 1 if budget is None else SCHEDULES_MAX
        if strategy is None:
            strategy = "fifo" if schedules == 1 else "auto"
        return cls(strategy, schedules, seed, Limits(stalls=stalls, depth=depth), budget)

    @property
    def open_ended(self) -> bool:
        """Whether time alone, or the search itself, ends a campaign."""
        return self.schedules == SCHEDULES_MAX

    def check_ordered(self, target: str, *, ordered: bool) -> None:
        """Refuse a budget where the order of events is not ours to choose.

        Raises:
            CommandError: as above.
        """
        if ordered or self.budget_s is None:
            return
        msg = f"--budget does not go with --target {target}"
        raise usage_error(
            msg, help_text="nobody can choose the order there: --schedules N plays N trials"
        )
