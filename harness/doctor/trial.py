"""Whether scenarios are there, and one of them can be played."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.doctor.finding import Finding
from harness.doctor.libraries import pip_install
from harness.reports.wording import counted
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.verdict import HELD

PLAYED = "waves/stale-first-request"
"""A scenario that takes a hundredth of a second, and every part of the machinery."""


def scenarios() -> Iterator[Finding]:
    """The built-in scenarios, and a run of one of them in simulation."""
    found = {one.id: one for one in selection.builtin()}
    again = pip_install(["--force-reinstall", "--no-deps", "wavecheck"])
    if PLAYED not in found:
        yield Finding(
            name="scenarios",
            good=False,
            found=f"{PLAYED} is not among the {counted(len(found), 'built-in scenario')}",
            used_for="`wavecheck run` without a path",
            mend=again,
        )
        return
    with TemporaryDirectory() as out:
        (loaded,) = selection.load_all([found[PLAYED]])
        result = run_scenario(loaded, RunOptions(out=Path(out)))
    yield Finding(
        name="scenarios",
        good=result.status == HELD,
        found=f"{counted(len(found), 'built-in scenario')}; {PLAYED} in simulation: "
        f"{result.error or result.status}",
        used_for="every run",
        mend=again,
    )
