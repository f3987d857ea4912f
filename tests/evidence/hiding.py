"""Lies about runs that break a promise: what a mutant did, with one event removed, doubled or moved.

A violation is seen in an event or in the want of one, so one lie can hide it: whoever removes the only
event that shows a fault has removed the fault from the evidence. That cannot be mended, and says how
much an invariant rests on. What must hold is that no checker raises over such a trace, and that a
run which was broken at several places is not made clean by one lie.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.hunting.plan import candidates
from harness.mutants.base import Mutant
from harness.scenario.loader import LoadedScenario
from harness.targets.reference import SimTarget
from harness.trace.events import Record
from tests.evidence.mutate import CHANGED, OPERATIONS, Lie, lies, mutated, spread
from tests.evidence.runs import Run, record
from tests.evidence.table import VIOLATED

SEEDS = tuple(range(1, 11))
"""Random walks that are tried where FIFO order shows nothing …"""
SEARCHED = 4
"""… in so many of the likeliest scenarios."""
STEPS = 50_000
"""Steps of the loop after which a run of a mutant spins, and shows nothing."""
WITNESS, ALL = "of the witness", "the whole witness"


def broken_run(mutant: type[Mutant], loaded: Sequence[LoadedScenario]) -> Run | None:
    """A run in which the mutant breaks the invariant that is to kill it; ``None``: none was found."""
    target = SimTarget()
    capabilities = target.info.capabilities
    found = candidates(mutant, loaded, capabilities)
    tries = [(one, None) for one in found]
    tries += [(one, seed) for one in found[:SEARCHED] for seed in SEEDS]
    for one, seed in tries:
        run = record(one.loaded, release=one.release, mutant=mutant.id, seed=seed, steps=STEPS)
        if run is not None and _broken(run, mutant.killed_by, run.records):
            return run
    return None


def _broken(run: Run, invariant: str, records: Sequence[Record]) -> bool:
    verdict = run.judged(records).get(invariant)
    return verdict is not None and verdict.verdict == VIOLATED


def _none_is_broken(run: Run, records: Sequence[Record]) -> bool:
    return not any(one.verdict == VIOLATED for one in run.judged(records).values())


def without(records: Sequence[Record], places: Iterable[int]) -> list[Record]:
    """The evidence without some events, numbered anew."""
    gone = set(places)
    kept = [one for one in records if one.seq not in gone]
    return [Record(seq, one.time_us, one.event) for seq, one in enumerate(kept)]


@dataclass
class Hiding:
    """Counts over broken runs, by kind of lie.

    Attributes:
        runs: how many.
        not_found: mutants of which no such run was found.
        told: lies.
        vanished: those behind which the invariant that kills the mutant is not broken any more.
        clean: those behind which nothing is.
        raised: checkers that raised, with where.
    """

    runs: int = 0
    not_found: list[str] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    vanished: Counter[str] = field(default_factory=Counter)
    clean: Counter[str] = field(default_factory=Counter)
    raised: dict[str, str] = field(default_factory=dict)

    def add(self, run: Run, invariant: str, most: int) -> None:
        """Lie about a run: about its witness, and at most so many other places."""
        self.runs += 1
        witness = run.verdicts[invariant].witness
        places = sorted({*witness, *spread(len(run.records), most)})
        for lie in lies(run.records, places):
            if lie.operation == CHANGED:  # it may have a shape that no trace has
                continue
            kind = f"{lie.operation} {WITNESS}" if lie.place in witness else lie.operation
            self._count(kind, run, invariant, mutated(run.records, lie), lie)
        self._count(f"removed: {ALL}", run, invariant, without(run.records, witness), None)

    def _count(
        self, kind: str, run: Run, invariant: str, records: Sequence[Record], lie: Lie | None
    ) -> None:
        self.told[kind] += 1
        try:
            vanished = not _broken(run, invariant, records)
            clean = _none_is_broken(run, records)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is what we look for)
            where = traceback.extract_tb(error.__traceback__)[-1]
            name = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}"
            self.raised.setdefault(name, f"{run.name}: {kind} {'' if lie is None else lie.what}")
            return
        self.vanished[kind] += vanished
        self.clean[kind] += clean

    def markdown(self) -> Iterator[str]:
        """A row for each kind of lie."""
        yield "| lie | told | the violation vanishes | the run is clean |"
        yield "|---|---:|---:|---:|"
        kinds = [k for o in OPERATIONS for k in (f"{o} {WITNESS}", o)] + [f"removed: {ALL}"]
        for kind in kinds:
            if self.told[kind]:
                counts = (self.told[kind], self.vanished[kind], self.clean[kind])
                yield f"| {kind} | {' | '.join(f'{count:,}' for count in counts)} |"
