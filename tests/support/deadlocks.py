"""Reports of deadlocks as text: each fault that lets ranks wait or step for ever, in one scenario.

``python -m tests.support.deadlocks`` writes them anew; read the difference before it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from client.protocol.profiles import RELEASES
from harness.evidence import evidence_of
from harness.hunting.killers import KILLERS
from harness.hunting.plan import release_for
from harness.mutants import discover, find_mutant
from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from tests.harness.mutants.test_kills import SEARCHED
from tests.support.collection import every_scenario

GOLDEN = Path(__file__).parents[1] / "golden" / "deadlocks"
INVARIANTS = ("lockstep.no-rank-waits-alone", "lockstep.comes-to-rest")
WIDTH_MAX = 160
LINES_MAX = 30
"""What fits on a screen, with the lines that a run puts round it."""


class Case(NamedTuple):
    """A scenario with a mutant, or in a release that has the fault."""

    scenario: str
    mutant: str | None
    release: str
    invariant: str


def cases() -> Mapping[str, Case]:
    """Every fault that these invariants are there for, by the name of its report."""
    found: dict[str, Case] = {}
    for mutant in discover():
        if mutant.killed_by in INVARIANTS and mutant.id in KILLERS and mutant.id not in SEARCHED:
            scenario = KILLERS[mutant.id]
            (loaded,) = selection.load_all(selection.select([scenario]))
            release = release_for(find_mutant(mutant.id), loaded.scenario)
            assert release is not None
            found[mutant.id] = Case(scenario, mutant.id, release.release, mutant.killed_by)
    for loaded in every_scenario():
        for known in loaded.scenario.known:
            if known.invariant in INVARIANTS:
                name = loaded.id.replace("/", "-")
                affected = _newest(known.fixed_in, loaded.scenario.profiles)
                found[name] = Case(loaded.id, None, affected, known.invariant)
    return found


def _newest(fixed_in: str | None, profiles: str | None) -> str:
    played = [r for r in RELEASES if Version(r) in SpecifierSet(profiles or "")]
    return [r for r in played if fixed_in is None or Version(r) < Version(fixed_in)][-1]


def report(case: Case) -> str:
    """Play a case in the plain order, and tell what was found, without event numbers."""
    (loaded,) = selection.load_all(selection.select([case.scenario]))
    options = RunOptions(mutant=case.mutant, profile=case.release)
    return told(run_scenario(loaded, options), case.invariant)


def told(result: ScenarioResult, invariant: str) -> str:
    """What the verdict says. Numbers of events differ with every change of the harness."""
    (verdict,) = [v for v in result.verdicts if v.invariant == invariant]
    if verdict.verdict != "violated":
        return f"{verdict.verdict}: {verdict.reason or result.error}\n"
    # Without number, time and fields: what happened, and where.
    texts = [line.split(maxsplit=2)[2] for line in evidence_of(result, verdict)]
    witness = [re.split(r" \w+=", text)[0] for text in texts]
    lines = [
        verdict.message,
        f"expected: {verdict.expected}",
        "seen:",
        *(f"  {_narrow(line)}" for line in verdict.seen.splitlines()),
        "witness:",
        *(f"  {line}" for line in witness),
    ]
    return re.sub(r"#\d+", "#n", "\n".join(lines)) + "\n"


def _narrow(line: str) -> str:
    """Columns at one distance: their widths follow the numbers of events."""
    return re.sub(r"(?<=\S) {2,}", "  ", line)


def main() -> None:
    """Write all of them; forget those whose fault is gone."""
    for old in GOLDEN.glob("*.txt"):
        old.unlink()
    for name, case in cases().items():
        (GOLDEN / f"{name}.txt").write_text(report(case), encoding="utf-8")


if __name__ == "__main__":
    main()
