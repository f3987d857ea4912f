"""Which mutants `wavecheck explore` finds by itself, with one seed and the time of one command.

Nothing of the collection is read meanwhile: opening a file of it ends the measurement. A find
counts if the same scenario, in the same schedules, holds without the mutant.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

from harness.generate.hunt import Batch, Limits, Tally, real_clock
from harness.generate.trial import Stage
from harness.mutants import discover, find_mutant
from harness.mutants.base import Mutant
from harness.runner import RunOptions, cached_target
from harness.scenario.loader import builtin_dir
from harness.verdict import HELD, NOT_JUDGED

SCHEDULES, STRATEGY = 3, "auto"
"""The defaults of the command."""
WANTED = 0.75
"""Part of the mutants that is to be found."""


@dataclass(frozen=True, slots=True)
class Hunted:
    """One mutant.

    Attributes:
        violated: what was broken first, ``""`` if nothing was.
        own: whether it is the mutant's own invariant.
        sound: whether it holds without the mutant.
    """

    mutant: str
    violated: str
    own: bool
    sound: bool
    seconds: float
    tally: Tally


def explore(mutant: type[Mutant], *, seed: int, budget_s: float) -> Hunted:
    """Look for one mutant as the command does, without making the find small."""
    options = RunOptions(mutant=mutant.id, schedules=SCHEDULES, strategy=STRATEGY)
    stage, tally, number = Stage(options), Tally(), 0
    began = real_clock()
    until = began + budget_s
    found = None
    while found is None and real_clock() < until:
        batch = Batch(stage, seed, number, Limits(real_clock, until), shrink=False)
        found = batch.run()
        tally.add(batch.tally)
        number += 1
    violated = "" if found is None else found.violated
    took = real_clock() - began
    sound = True
    if found is not None:
        right = Stage(replace(options, mutant=None)).play(found.scenario, found.seed)
        # A startup that is to fail fails, and then there may be nothing to judge.
        sound = right.status in (HELD, NOT_JUDGED) and right.error is None
    return Hunted(mutant.id, violated, violated == mutant.killed_by, sound, took, tally)


def _keep_away(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and str(arguments[0]).startswith(f"{builtin_dir()}/"):
        msg = f"{arguments[0]} was opened: explore is to do without the collection"
        raise RuntimeError(msg)


def table(seed: int, budget_s: float, ids: tuple[str, ...]) -> bool:
    """Measure and print; whether enough of them are found."""
    mutants = [find_mutant(name) for name in ids] or discover()
    cached_target(RunOptions().request)
    sys.addaudithook(_keep_away)
    print(f"explore, seed {seed}, {budget_s:g} s each, no file of the collection read")
    print(f"{'mutant':46}{'s':>6}{'scenarios':>11}{'schedules':>11}  found by")
    found = own = 0
    for mutant in mutants:
        one = explore(mutant, seed=seed, budget_s=budget_s)
        found += bool(one.violated) and one.sound
        own += one.own and one.sound
        by = one.violated or "NOT FOUND"
        if not one.sound:
            by += ", WITHOUT THE MUTANT TOO"
        print(
            f"{one.mutant:46}{one.seconds:>6.1f}{one.tally.scenarios:>11,}"
            f"{one.tally.schedules:>11,}  {by}{'' if one.own or not one.violated else ' (another)'}",
            flush=True,
        )
    print(f"{found} of {len(mutants)} found, {own} by their own invariant first")
    return found >= WANTED * len(mutants)
