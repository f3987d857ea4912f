"""From a scenario that was found to a file, a verdict and a failure file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.generate.files import write_found
from harness.generate.hunt import Batch, Found, Limits, real_clock
from harness.generate.trial import Stage, failed_result
from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.verdict import VIOLATED

TRIALS = 3
"""On real sockets a found scenario is played so often again."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A found scenario, as small as there was time for.

    Attributes:
        path: of the scenario file.
        result: of playing that file.
        found_s: when it was first seen, on the monotonic clock.
        shrinks, shrink_s: runs and seconds for making it small.
        seen_once: it was not violated when it was played again, on a target whose order of events
            cannot be chosen.
    """

    found: Found
    path: Path
    result: ScenarioResult
    found_s: float | None
    shrinks: int
    shrink_s: float
    seen_once: bool = False


def work_out(
    found: Found, options: RunOptions, *, hunt_seed: int, shrink_s: float, command: str
) -> Finding:
    """Make a found scenario small, write it, play it from its file.

    Raises:
        OSError: the scenario cannot be written.
    """
    began = real_clock()
    stage = Stage(options)
    limits = Limits(real_clock, began + shrink_s, shrink_s)
    batch = Batch(stage, hunt_seed, found.batch, limits)
    small = batch.run(wanted=found.violated)
    # On real sockets what was seen may not come again.
    best = found if small is None or small.size > found.size else small
    took = real_clock() - began
    folder = options.out if options.out is not None else Path()
    loaded = write_found(best, folder, command)
    again = replace(options, seed=best.seed)
    if not stage.deterministic:
        again = replace(again, schedules=TRIALS)
    result = run_scenario(loaded, again)
    seen_once = result.status != VIOLATED
    if seen_once:
        result = failed_result(loaded, best.evidence, options)
    return Finding(best, loaded.path, result, found.found_s, batch.tally.shrinks, took, seen_once)
