"""From one failure file to a smaller one, and to a scenario file that can be read at a glance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from harness.attempt import Again, Attempt
from harness.failure import FailureFile, write_failure
from harness.files import write_own
from harness.invariants import discover
from harness.play import play, schedule_digest
from harness.replay import OpenFailure, ReplayKind, replayed
from harness.reports.wording import order_lines
from harness.runner import cached_target
from harness.scenario.loader import parse
from harness.scenario.writing import comment, scenario_text
from harness.shrink.budget import Budget
from harness.shrink.filing import filed
from harness.shrink.promise import Promise
from harness.shrink.scenario import Case, Casting, ScenarioReduction, data_of
from harness.shrink.schedule import RUNS, Schedule, reduce_schedule
from harness.shrink.stage import Stage, Stalls
from harness.tape import Recorder, Tape
from harness.targets.target import part_for

CANDIDATES = 100_000
"""Runs of one reduction at most; time mostly ends it sooner."""
SUFFIX = "-reduced"
"""What the id of a reduced scenario ends with."""


@dataclass(frozen=True, slots=True)
class Weight:
    """How much there is to read.

    Attributes:
        departures: from FIFO order; ``None`` where nobody chooses the order.
        events: in the trace of the failing run.
    """

    steps: int
    engines: int
    departures: int | None
    events: int


@dataclass(frozen=True, slots=True)
class Reduced:
    """What came of it.

    Attributes:
        text: the scenario file, without its heading.
        order: where the schedule leaves FIFO order, one line each; ``None`` as above.
        tried: runs.
        finished: whether nothing was left to try, rather than no time.
    """

    before: Weight
    after: Weight
    failure: FailureFile
    text: str
    order: tuple[str, ...] | None
    expected: str
    seen: str
    witness_lines: tuple[str, ...]
    tried: int
    finished: bool
    interrupted: bool

    @property
    def heading(self) -> tuple[str, ...]:
        """Lines above the scenario: what breaks, in which order, and how to see it."""
        order = () if self.order is None else order_lines(self.order)
        return (
            f"{self.failure.violated} is broken by {', '.join(self.failure.settings)}",
            *((order[0], *(f"  {line}" for line in order[1:])) if order else ()),
            f"wavecheck replay {self.failure.name}",
        )


class NotReproducedError(Exception):
    """What is to be reduced does not fail any more; the message says what a replay says."""


Watch = Callable[[Case, int], None]
"""Told each smaller case, and how many runs there were."""


def reduce_failure(
    opened: OpenFailure, budget: Budget, watch: Watch = lambda _case, _tried: None
) -> Reduced:
    """Make a failure small: its schedule, its scenario, and its schedule again.

    An interruption ends it; what there is by then is the result.

    Raises:
        NotReproducedError: the failure cannot be seen any more.
        TargetError: the target failed.
    """
    outcome = replayed(opened)
    attempt = outcome.attempt
    if outcome.kind is not ReplayKind.REPRODUCED or attempt is None:
        raise NotReproducedError(outcome.text)
    return _Whole(opened, attempt, budget, watch).run()


class _Whole:
    def __init__(self, opened: OpenFailure, attempt: Attempt, budget: Budget, watch: Watch) -> None:
        self._failure = opened.failure
        self._budget = budget
        self._watch = watch
        target = cached_target(opened.failure.request)
        self._casting = Casting(target, opened.profile, opened.failure.mutant)
        stalls = opened.failure.stalls
        self._case = Case(
            data_of(opened.loaded.scenario),
            opened.loaded.scenario,
            Promise(opened.failure.violated),
            replace(attempt, stalls=None if stalls is None else tuple(stalls)),
        )
        self._before = self._weight(self._case, self._case.attempt.stalls)

    def run(self) -> Reduced:
        interrupted = False
        try:
            self._schedule()
            reduction = ScenarioReduction(self._case, self._casting, self._budget, self._smaller)
            self._case = reduction.run()
            self._schedule()
        except KeyboardInterrupt:
            interrupted = True
        return self._told(interrupted=interrupted)

    def _smaller(self, case: Case) -> None:
        self._case = case
        self._watch(case, self._budget.used)

    def _stage(self, case: Case) -> Stage:
        return self._casting.stage(case.scenario)

    def _schedule(self) -> None:
        """Reduce the schedule of what there is now."""
        case = self._case
        stage = self._stage(case)
        if not stage.ordered:
            return
        order = reduce_schedule(stage, case.promise, case.attempt, self._budget.share(RUNS))
        names: tuple[str, ...] = ()
        if order.stalls:
            names = stage.stalled(order.stalls).names
        self._smaller(
            replace(
                case,
                attempt=replace(order.attempt, stalls=order.stalls),
                stalls=order.stalls,
                names=names,
            )
        )

    def _weight(self, case: Case, stalls: Stalls | None) -> Weight:
        stage = self._stage(case)
        return Weight(
            steps=len(case.scenario.steps),
            engines=len(case.scenario.topology.rank_list),
            departures=len(stage.departures(case.attempt, stalls)) if stage.ordered else None,
            events=len(case.attempt.played.records),
        )

    # --- the end ----------------------------------------------------------------------------

    def _told(self, *, interrupted: bool) -> Reduced:
        """Play the smallest case once more, under its own heading, and write down what is seen."""
        case, failure = self._case, self._failure
        name = failure.scenario_id.removesuffix(SUFFIX) + SUFFIX
        text = scenario_text(self._headed(case))
        loaded = parse(text, Path(f"{name}.yaml"), name=name)
        target = part_for(self._casting.target, loaded.scenario)
        stage = self._casting.stage(loaded.scenario)
        order: Schedule | None = None
        tape: Tape | None = None
        attempt = case.attempt
        if attempt.tape is not None:
            recorder = Recorder(Again(attempt.tape))
            played = play(stage.spec, target.world(recorder, record_labels=True))
            tape = recorder.tape
            attempt = Attempt(played, tape, schedule_digest(tape, played), case.stalls)
            departures = stage.departures(attempt, case.stalls)
            explores = bool(loaded.scenario.explore)
            order = Schedule(case.promise, attempt, case.stalls, departures, explores)
        broken = case.promise.broken_in(attempt)
        assert broken is not None, "the same choices break the same promise"
        reduced = filed(
            replace(failure, scenario_id=name, scenario_text=text),
            case.promise,
            attempt,
            tape=tape,
            order=order,
        )
        return Reduced(
            before=self._before,
            after=Weight(
                steps=len(loaded.scenario.steps),
                engines=len(loaded.scenario.topology.rank_list),
                departures=None if order is None else len(order.departures),
                events=len(attempt.played.records),
            ),
            failure=reduced,
            text=text,
            order=None if order is None else order.lines,
            expected=broken.expected,
            seen=broken.seen,
            witness_lines=attempt.event_lines(broken.witness),
            tried=self._budget.used,
            finished=not self._budget.spent and not interrupted,
            interrupted=interrupted,
        )

    def _headed(self, case: Case) -> dict[str, object]:
        """The scenario under a title that says where it comes from."""
        data = dict(case.data)
        origin = self._failure.scenario_id.removesuffix(SUFFIX)
        data["title"] = f"Reduced from {origin}: {case.promise.name}"
        doc = next((cls.doc() for cls in discover() if cls.id == case.promise.name), None)
        if doc is not None:
            data["promise"] = doc["statement"]
            data["invariants"] = [case.promise.name]
        return data


def write_reduced(reduced: Reduced, out: Path | None) -> tuple[Path, Path]:
    """Write the scenario file and the failure file beside each other.

    Returns:
        Their paths, in this order.

    Raises:
        OSError: they cannot be written.
    """
    failure = write_failure(reduced.failure, out)
    scenario = failure.with_suffix(".yaml")
    comments = "".join(f"{comment(line)}\n" for line in reduced.heading)
    write_own(scenario, comments + reduced.text)
    return scenario, failure
