"""Random walks against stalls and exhaustive search, for all pairs of scenario and mutant.

Each pair gets the same budget of schedules from each strategy; where ``stall`` then misses what
random walks killed, ``dfs`` and ``stall`` go on up to ``MORE`` schedules, which is said. A pair counts if the situation that
the mutant's invariant guards arises in it at all, with the mutant in FIFO order or without it in
any of the random schedules. What FIFO order kills is killed by the first schedule of ``stall``.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.killing import course, trails
from harness.hunting.plan import Candidate

STRATEGIES = ("random", "stall", "dfs")
MORE = 3_000
"""Schedules that tell whether stalls miss a fault or only come to it later."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One scenario against one mutant: schedules to the kill, ``None`` where it was missed.

    Attributes:
        stall: may be above the budget where ``random`` killed it within.
        dfs: is asked only where ``stall`` missed what ``random`` killed.
        dfs_done: whether it then came to its end.
    """

    mutant: str
    scenario: str
    release: str
    budget: int
    fifo: bool = False
    random: int | None = None
    stall: int | None = None
    dfs: int | None = None
    dfs_done: bool = False

    @property
    def systematic(self) -> bool:
        """Whether one of the two kills it."""
        return self.fifo or self.stall is not None or self.dfs is not None

    @property
    def later(self) -> bool:
        """Whether it took more than the budget that random walks had."""
        return self.random is not None and (self.stall or self.dfs or 0) > self.budget

    @property
    def kind(self) -> str:
        """Which strategies kill it."""
        if self.fifo:
            return "fifo"
        if self.later:
            return "both, later"
        if self.random is None:
            return "stall only" if self.systematic else "none"
        return "both" if self.systematic else "random only"


def pair(
    candidate: Candidate, mutant: str, budget: int, seed: int = 0, *, missed: bool = True
) -> Pair:
    """Give one pair its budget of each strategy.

    ``missed``: ask stalls too where random walks kill nothing.
    """
    names = (mutant, candidate.scenario, candidate.release, budget)
    random = course(candidate, mutant, "random", schedules=budget, seed=seed).kill
    if random is None and not missed:
        return Pair(*names)
    stall = course(candidate, mutant, "stall", schedules=budget, seed=seed).kill
    if random is None or stall is not None:
        return Pair(*names, random=random, stall=stall)
    dfs = course(candidate, mutant, "dfs", schedules=MORE, seed=seed)
    if dfs.kill is None or dfs.kill > budget:
        stall = course(candidate, mutant, "stall", schedules=MORE, seed=seed).kill
    return Pair(*names, random=random, stall=stall, dfs=dfs.kill, dfs_done=dfs.exhausted)


class _Arising:
    """Which invariants a scenario exercises in random order, without a mutant."""

    def __init__(self, budget: int, seed: int) -> None:
        self._budget, self._seed = budget, seed
        self._known: dict[tuple[str, str], frozenset[str]] = {}

    def of(self, candidate: Candidate) -> frozenset[str]:
        key = (candidate.scenario, candidate.release)
        if key not in self._known:
            done = course(candidate, None, "random", schedules=self._budget, seed=self._seed)
            self._known[key] = done.exercised
        return self._known[key]


def table(
    budget: int, seed: int, ids: tuple[str, ...], file: str | None, *, missed: bool = False
) -> bool:
    """Measure and print; whether nothing is killed by random walks alone."""
    print(f"{budget} schedules of each strategy, seed {seed}")
    arising, judged, left_out = _Arising(budget, seed), [], 0
    for mutant, found in trails(ids):
        mine = []
        for candidate in found:
            first = course(candidate, mutant.id, "fifo", schedules=1)
            if first.kill:
                names = (mutant.id, candidate.scenario, candidate.release, budget)
                mine.append(Pair(*names, fifo=True))
            elif mutant.killed_by in first.exercised | arising.of(candidate):
                mine.append(pair(candidate, mutant.id, budget, seed, missed=missed))
            else:
                left_out += 1
        judged += mine
        kinds = Counter(each.kind for each in mine)
        print(
            f"  {mutant.id:44} {', '.join(f'{n} {k}' for k, n in sorted(kinds.items()))}",
            flush=True,
        )
        for each in mine:
            if each.kind not in ("fifo", "both", "none"):
                print(f"    {each.kind:12} {_told(each)}", flush=True)
    _summary(judged, left_out)
    if file is not None:
        document = {
            "budget": budget,
            "seed": seed,
            "not_exercised": left_out,
            "pairs": [{**asdict(each), "kind": each.kind} for each in judged],
        }
        Path(file).write_text(json.dumps(document, indent=1) + "\n")
    return not any(each.kind == "random only" for each in judged)


def _told(each: Pair) -> str:
    counts = ", ".join(
        f"{name} {'-' if (n := getattr(each, name)) is None else n}" for name in STRATEGIES
    )
    return f"{each.scenario} {each.release}: {counts}{' (all)' if each.dfs_done else ''}"


def _summary(judged: list[Pair], left_out: int) -> None:
    kinds = Counter(each.kind for each in judged)
    print(
        f"{len(judged):,} pairs in which the situation arises ({left_out:,} in which it does not): "
        f"{kinds['fifo']:,} killed in FIFO order, {kinds['both']:,} by random walks and by stall "
        f"or dfs, {kinds['both, later']:,} by these only with more schedules, "
        f"{kinds['stall only']:,} by stall alone, {kinds['random only']:,} by random walks "
        f"alone, {kinds['none']:,} by none"
    )
