"""``wavecheck mutants``: how good the net is, mutant by mutant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from harness.cli.hunting import Hunt, Limits
from harness.cli.output import (
    Folder,
    Output,
    Progress,
    Trouble,
    check_folder,
    json_option,
    unknown_word,
)
from harness.cli.pool import interruptible
from harness.cli.run_plan import TIMEOUT_S
from harness.cli.selecting import Part, chosen
from harness.hunting.plan import candidates
from harness.hunting.prey import Bag, without_killer
from harness.invariants import discover as discover_invariants
from harness.mutants import discover
from harness.mutants.base import FAMILIES, Mutant
from harness.reports.hunt import hunt_document, hunt_lines, hunt_summary
from harness.reports.wording import counted
from harness.runner import RunOptions, cached_target
from harness.strategies import searches
from harness.targets.client_frontend import CAPABILITIES
from harness.targets.reference import SimTarget
from harness.verdict import ExitCode
from harness.version import tool_version

SCHEDULES = 200
EPILOG = """\b
Examples:
  wavecheck mutants                                   all of them, on all built-in scenarios
  wavecheck mutants coordinator-rewinds fail-fast-fan-out
  wavecheck mutants routing --json kills.json         one family
  wavecheck mutants --full --jobs 2                   every scenario against every mutant

\b
Exit codes:
  0    every mutant is killed by its own invariant
  1    one survives, or falls by a crash or by something else only
  2    bad input
  130  interrupted; what was known by then is reported
"""


@click.command("mutants", epilog=EPILOG)
@click.argument("names", metavar="[ID|FAMILY]...", nargs=-1)
@click.option(
    "--schedules",
    type=click.IntRange(1, 10_000_000),
    default=SCHEDULES,
    show_default=True,
    metavar="N",
    help="Schedules of a scenario in the search for a mutant that FIFO does not kill; 1 = FIFO "
    "alone.",
)
@click.option(
    "--strategy",
    default="auto",
    show_default=True,
    metavar="S",
    help="Who picks the orders in that search.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed of the strategy.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Play every scenario against every mutant, instead of stopping at its first kill.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Worker processes.",
)
@json_option
@click.option(
    "--out",
    type=Folder(),
    metavar="DIR",
    help="Write a failure file of each kill there, for `wavecheck replay`.",
)
def mutants_command(names: tuple[str, ...], **flags: Any) -> int:
    """Show which invariant, scenario and schedule kills each mutant (a known bug, kept alive).

    A mutant is killed when its own invariant is violated with it, and holds without it, on sim.
    Scenarios that are about this invariant come first, in the plain order of events; mutants that
    this does not show are searched for.
    """
    with interruptible():
        return int(_Mutants(names, **flags).go())


@dataclass(frozen=True, kw_only=True)
class _Flags:
    schedules: int
    strategy: str
    seed: int
    full: bool
    jobs: int
    json_file: str | None
    out: Path | None


class _Mutants:
    """One invocation."""

    def __init__(self, names: Sequence[str], **flags: Any) -> None:
        self._flags = _Flags(**flags)
        self._names = names
        self._output = Output(self._flags.json_file)
        self._progress = Progress()

    def go(self) -> ExitCode:
        """Check the words, hunt, report."""
        flags = self._flags
        if flags.strategy not in searches():
            msg = "strategy"
            raise unknown_word(msg, flags.strategy, searches())
        if flags.out is not None:
            check_folder(flags.out, "--out")
        mutants = self._mutants()
        loaded = chosen((), Part())
        options = RunOptions(seed=flags.seed, timeout_s=TIMEOUT_S + flags.schedules, out=flags.out)
        capabilities = CAPABILITIES | SimTarget.extra
        trails = [(mutant, candidates(mutant, loaded, capabilities)) for mutant in mutants]
        how = "FIFO alone" if flags.schedules == 1 else f"strategy {flags.strategy}"
        many = counted(flags.schedules, "schedule")
        self._output.say(
            f"wavecheck {tool_version()}: {counted(len(mutants), 'mutant')}, "
            f"{counted(len(loaded), 'scenario')}, target sim, {how}, {many}, seed {flags.seed}"
        )
        limits = Limits(
            options=options,
            schedules=flags.schedules,
            strategy=flags.strategy,
            processes=flags.jobs,
            full=flags.full,
        )
        if flags.jobs == 1:
            cached_target(options.request)
        bag = Hunt(trails, limits, self._tell).run()
        self._progress.clear()
        return self._report(bag)

    def _mutants(self) -> list[type[Mutant]]:
        """Those that are named, by id or by family, in the order of families."""
        found = sorted(discover(), key=lambda mutant: (FAMILIES.index(mutant.family), mutant.id))
        if not self._names:
            return found
        ids = [mutant.id for mutant in found]
        for name in self._names:
            if name not in {*ids, *FAMILIES}:
                msg = "mutant"
                raise unknown_word(msg, name, [*ids, *FAMILIES])
        return [m for m in found if m.id in self._names or m.family in self._names]

    def _tell(self, phase: str, done: int, total: int) -> None:
        self._progress.show(f"{phase}: {done} of at most {total} runs")

    def _report(self, bag: Bag) -> ExitCode:
        flags = self._flags
        invariants = [invariant.id for invariant in discover_invariants()]
        if not self._names and not bag.interrupted:
            bag = replace(bag, unkilled=without_killer(bag.prey, invariants))
        trouble = Trouble()
        for line in hunt_lines(bag):
            self._output.say(line)
        with trouble.kept():
            self._output.write(
                hunt_document(
                    bag,
                    invariants,
                    strategy=flags.strategy,
                    schedules=flags.schedules,
                    seed=flags.seed,
                )
            )
        code = trouble.code(bag.code)
        self._output.say(hunt_summary(bag))
        trouble.show()
        return code
