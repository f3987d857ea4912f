"""Runs one scenario on one target: schedules or trials, merged verdicts, a failure file."""

from __future__ import annotations

import functools
import gc
import math
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.specifiers import SpecifierSet

from client.components import Components
from client.protocol.profiles import RELEASES, Profile, profile_for
from harness.attempt import Again, Attempt, expectation_name
from harness.capture.kept import keep
from harness.capture.listening import Listening
from harness.failure import EVENTS_MAX, FailureFile, failure_text, write_failure
from harness.interruption import heard
from harness.mutants import find_mutant
from harness.play import PlaySpec, play, schedule_digest
from harness.results import ScenarioResult
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Known, Scenario
from harness.scenario.needs import needs
from harness.shrink.promise import Promise
from harness.shrink.retelling import retold
from harness.shrink.schedule import Schedule, reduce_schedule
from harness.shrink.stage import Stage, stalls_of
from harness.start_failures import start_failure
from harness.strategies import Limits, Search, Seen, Strategy, make_search
from harness.strategies.base import Redundant
from harness.strategies.window import window_of
from harness.tally import Part, Tally
from harness.tape import Recorder as TapeRecorder
from harness.tape import Tape
from harness.targets.base import StartFailed, TargetError
from harness.targets.registry import open_target, takes_mutant
from harness.targets.request import TargetRequest, is_reference
from harness.targets.target import Target, part_for, program_of
from harness.trace.history import history_of
from harness.verdict import (
    ERROR,
    NOT_JUDGED,
    VIOLATED,
    applying,
    most_telling,
    reasons_of,
)
from mock_engines.parts import EngineParts

MISS_ACCEPTED = 0.001
"""A race scenario runs until a miss is less likely than this."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one invocation fixes for all its scenarios."""

    target: str = "sim"
    frontend: str | None = None
    profile: str | None = None
    schedules: int = 1
    strategy: str = "fifo"
    seed: int = 0
    mutant: str | None = None
    timeout_s: float | None = None
    allow_known: bool = False
    strict: bool = False
    out: Path | None = None
    frontend_args: tuple[str, ...] = ()
    frontend_env: tuple[tuple[str, str], ...] = ()
    attach: str | None = None
    adapter: str | None = None
    race_budget_s: float | None = None
    """Seconds after which a race in which nothing is predicted gets no further trial."""
    limits: Limits = field(default_factory=Limits)
    """How far a search goes; its number of schedules is ``schedules``."""
    budget_s: float | None = None
    """Seconds after which a simulated campaign plays no further schedule."""
    shrink: bool = False
    """Whether a failing schedule is reduced to few departures from FIFO before it is told."""
    failures_travel: bool = False
    """Whether a failure file is part of the result instead of a file: who plays is elsewhere."""

    def search(self) -> Search:
        """What decides the schedules of a campaign, from its beginning."""
        limits = replace(self.limits, schedules=self.schedules)
        return make_search(self.strategy, self.seed, limits)

    @property
    def request(self) -> TargetRequest:
        """What the target is asked for."""
        return TargetRequest(
            kind=self.target,
            frontend=self.frontend,
            profile=self.profile,
            arguments=self.frontend_args,
            environment=self.frontend_env,
            mutant=self.mutant if takes_mutant(self.target) else None,
            attach=self.attach,
            adapter=self.adapter,
        )


@functools.lru_cache(maxsize=32)
def cached_target(request: TargetRequest) -> Target:
    """Open a target once in each process."""
    target = open_target(request)
    gc.collect()
    gc.freeze()  # what is imported now lives on; a collection after a run then costs little
    return target


def choose_profile(target: Target, scenario: Scenario, asked: str | None) -> Profile | None:
    """The profile to judge by: the target's own, the one asked for, or the newest that applies.

    ``None``: the scenario does not apply to it.
    """
    applies = SpecifierSet(scenario.profiles)
    fixed = target.profile(asked)
    if fixed is None and asked is not None:
        fixed = profile_for(asked)
    if fixed is not None:
        return fixed if fixed.version in applies else None
    newest_first = (profile_for(release) for release in reversed(RELEASES))
    return next((p for p in newest_first if p.version in applies), None)


def planned_trials(scenario: Scenario) -> int:
    """How many trials of a real frontend make a miss unlikely enough; 1 if it is no race."""
    if scenario.trials is None:
        return 1
    needed = math.ceil(math.log(MISS_ACCEPTED) / math.log(scenario.trials.miss))
    return min(needed, scenario.trials.max)


def run_scenario(loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
    """Run one scenario to its result; never raises for a broken target.

    Raises:
        KeyboardInterrupt: interrupted; nothing of the run is left behind.
    """
    began = time.monotonic()  # noqa: TID251 - duration for people, no decision
    with heard(signal.default_int_handler):
        result = _run(loaded, options)
    return replace(result, duration_s=round(time.monotonic() - began, 3))  # noqa: TID251


def _run(loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
    base, campaign = prepare(loaded, options)
    if campaign is None:
        return base
    try:
        return campaign.run(base)
    except TargetError as error:
        return broken(base, error)


def prepare(loaded: LoadedScenario, options: RunOptions) -> tuple[ScenarioResult, Campaign | None]:
    """What is known of a scenario without playing it, and what plays it.

    Without a campaign the result says why nothing is to be played.
    """
    scenario = loaded.scenario
    base = ScenarioResult(
        scenario=loaded.id,
        title=scenario.title,
        refs=tuple(scenario.refs),
        profile=options.profile or "",
        mutant=options.mutant,
        status=NOT_JUDGED,
        strategy=options.strategy,
        seed=options.seed,
    )
    try:
        target = part_for(cached_target(options.request), scenario)
        profile = choose_profile(target, scenario, options.profile)
        if profile is None:
            fixed = target.profile(options.profile)
            release = fixed.release if fixed is not None else options.profile
            why = f"does not apply to {release} (applies to {scenario.profiles})"
            return replace(base, profile=str(release or ""), error=None, reason=why), None
        base = replace(base, profile=profile.release)
        if missing := sorted(needs(scenario) - target.capabilities(profile)):
            return replace(base, reason=f"target lacks {', '.join(missing)}"), None
        if (unsupported := target.unsupported(scenario, profile)) is not None:
            return replace(base, reason=unsupported), None
        if program_of(target) and options.mutant and not is_reference(options.frontend):
            why = "a mutant is a variant of the reference client"
            return replace(base, reason=why), None
        return base, Campaign(loaded, options, target, profile)
    except TargetError as error:
        return broken(base, error), None


def broken(base: ScenarioResult, error: TargetError) -> ScenarioResult:
    """The result where the target or the harness failed before anything could be judged."""
    start = start_failure(error) if isinstance(error, StartFailed) else None
    return replace(base, status=ERROR, error=str(error), start_failure=start)


class Campaign:
    """All schedules or trials of one scenario on one target and profile."""

    def __init__(
        self, loaded: LoadedScenario, options: RunOptions, target: Target, profile: Profile
    ) -> None:
        self._loaded = loaded
        self._options = options
        self._target = target
        self._profile = profile
        self._spec = make_spec(loaded.scenario, target, profile, options.mutant)
        self._search: Search | None = None

    def _count(self) -> int:
        """How many schedules, or trials on a target whose order cannot be chosen."""
        if self._target.deterministic:
            return self._options.schedules
        wanted = self._options.schedules
        # A violation that is predicted is looked for; our own client shows the others in simulation.
        if self._target.black_box or self._applying():
            wanted = max(wanted, planned_trials(self._loaded.scenario))
        return wanted

    def _applying(self) -> list[Known]:
        """The ``known`` entries that speak of what is played here.

        Most entries speak of releases, not of our own client or server.
        """
        program = program_of(self._target)
        if program is None or is_reference(self._options.frontend):
            program = ""
        return applying(self._loaded.scenario.known, self._profile.version, program)

    def _deadline(self) -> float | None:
        """When a race has used up its budget, on the monotonic clock; ``None``: it has none.

        A predicted violation is looked for to the end: a missing one must not be missing for
        want of time.
        """
        scenario, budget = self._loaded.scenario, self._options.race_budget_s
        if budget is None or scenario.trials is None or not self._target.black_box:
            return None
        if self._applying():
            return None
        return time.monotonic() + budget  # noqa: TID251 - real time is what is spent

    @property
    def exhausted(self) -> bool:
        """Whether what its search explores has been explored to the end."""
        return self._search is not None and self._search.finished

    def attempts(self) -> Iterator[Attempt]:
        """Play one schedule after the other, or trials where the order cannot be chosen."""
        return self._schedules() if self._target.deterministic else self._trials()

    def _trials(self) -> Iterator[Attempt]:
        deadline = self._deadline()
        for index in range(self._count()):
            if index and deadline is not None and time.monotonic() >= deadline:  # noqa: TID251
                return
            # What happens on real sockets happens once: what a report shows is kept now.
            listening = Listening(self._spec.engine_profile)
            spec = replace(self._spec, tap=listening.tap, tap_spares_processes=True)
            played = play(spec, self._target.world(None), listening.event)
            yield Attempt(played, None, "", listening=listening)

    def _schedules(self) -> Iterator[Attempt]:
        """Play what the search asks for, until it has nothing left or has had its share."""
        options, budget = self._options, self._options.budget_s
        self._search = search = options.search()
        # Real time decides how much is played, never what: that is the search's alone.
        deadline = None if budget is None else time.monotonic() + budget  # noqa: TID251
        played = 0
        while played < options.schedules and (strategy := search.next()) is not None:
            if played and deadline is not None and time.monotonic() >= deadline:  # noqa: TID251
                return
            try:
                attempt, seen = self.play_as(strategy, history=search.wants_history)
            except Redundant:
                continue
            played += 1
            search.saw(seen)
            yield attempt

    def play_as(self, strategy: Strategy, *, history: bool = False) -> tuple[Attempt, Seen]:
        """Play one schedule, and tell what a search wants to know of it.

        Raises:
            Redundant: the strategy left it.
            TargetError: it cannot be judged.
        """
        window = window_of(self._loaded.scenario, strategy)
        chooser = TapeRecorder(window)
        played = play(self._spec, self._target.world(chooser))
        past = history_of(played.records) if history else 0
        seen = Seen(window.asked, past, tuple(strategy.places))
        tape = chooser.tape
        return Attempt(played, tape, schedule_digest(tape, played), stalls_of(strategy)), seen

    def run(self, base: ScenarioResult) -> ScenarioResult:
        """Play until the first violation or the last schedule, and merge."""
        tally, failed = Tally(), None
        for attempt in self.attempts():
            tally.add(Part.of(attempt))
            if attempt.violated:
                failed = attempt
                break
        result = self.summed(base, tally, self._search, held=failed is None)
        return result if failed is None else self.concluded(result, failed)

    def summed(
        self, base: ScenarioResult, tally: Tally, search: Search | None, *, held: bool
    ) -> ScenarioResult:
        """What all attempts came to. ``held``: whether none of them shows a violation."""
        result = tally.result(
            base,
            own_invariants=self._loaded.scenario.invariants,
            deterministic=self._target.deterministic,
        )
        known = self._applying()
        return replace(
            result,
            known=tuple(dict.fromkeys(entry.invariant for entry in known)),
            known_because=reasons_of(known),
            explored="" if search is None else search.told(held=held),
            exhausted=search is not None and search.finished,
        )

    def concluded(self, result: ScenarioResult, failed: Attempt) -> ScenarioResult:
        """The result of a campaign that ended at this violation."""
        return self.with_failure(replace(result, error=failed.played.broke), failed)

    def _labelled(self, tape: Tape) -> Tape:
        """The same run once more, recording what each option is called."""
        recorder = TapeRecorder(Again(tape))
        play(self._spec, self._target.world(recorder, record_labels=True))
        return recorder.tape

    def with_failure(self, result: ScenarioResult, failed: Attempt) -> ScenarioResult:
        """Write the failure file of the most telling violation; keep all witnesses as text.

        With ``RunOptions.shrink`` both are of the same violation in the schedule with the fewest
        departures from FIFO order.
        """
        if not self._options.shrink or failed.tape is None:
            return self._told(result, failed)
        promise = Promise(self._most_telling(failed)[0])
        try:
            order = reduce_schedule(Stage(self._spec, self._target), promise, failed)
        except KeyboardInterrupt:
            # What was found is worth more than a shorter way to it.
            self._told(result, failed)
            raise
        return self._told(retold(result, order), order.attempt, order)

    def _most_telling(self, failed: Attempt) -> tuple[str, tuple[int, ...]]:
        """What a failure file is about: its name, and the events that show it."""
        preferred = list(self._loaded.scenario.invariants)
        if self._options.mutant is not None:
            preferred.insert(0, find_mutant(self._options.mutant).killed_by)
        broken = most_telling(failed.verdicts, preferred)
        if broken and broken[0].level == "must":
            return broken[0].invariant, broken[0].witness
        step = next(r for r in failed.played.story.results if r.outcome.status == VIOLATED)
        return expectation_name(step.step), step.outcome.witness

    def _told(
        self, result: ScenarioResult, failed: Attempt, order: Schedule | None = None
    ) -> ScenarioResult:
        name, witness = self._most_telling(failed)
        if order is not None:
            name, witness = order.promise.name, order.witness
        broken = [v.witness for v in failed.verdicts if v.verdict == VIOLATED]
        steps = [r.outcome for r in failed.played.story.results if r.outcome.status == VIOLATED]
        shown = [n for numbers in [*broken, *(step.witness for step in steps)] for n in numbers]
        result = replace(result, witness_lines=failed.event_lines(tuple(shown)))
        failure = FailureFile.of(
            loaded=self._loaded,
            options=self._options,
            profile=self._profile.release,
            violated=name,
            witness=list(witness),
            attempt_digest=failed.digest,
            tape=None if failed.tape is None else self._labelled(failed.tape),
            events=failed.event_lines(tuple(range(len(failed.played.records)))),
            departures=None if order is None else order.lines,
            stalls=None if order is None else order.stalls,
            recording=(
                None
                if failed.listening is None
                else keep(failed.played.records, failed.listening, EVENTS_MAX)
            ),
        )
        if self._options.failures_travel:
            return replace(result, failure_unwritten=(failure.name, failure_text(failure)))
        try:
            path = write_failure(failure, self._options.out)
        except OSError as error:
            # The violation stands, and is worth more than its file.
            return replace(result, failure_file_error=str(error))
        return replace(result, failure_file=str(path))


def _of_engines(scenario: Scenario, profile: Profile) -> Profile:
    """The release that the engines speak and follow."""
    release = scenario.topology.engine_release
    return profile if release is None else profile_for(release)


def make_spec(scenario: Scenario, target: Target, profile: Profile, mutant: str | None) -> PlaySpec:
    """Fix everything of a run but its choices."""
    components, parts = Components(), EngineParts()
    if mutant is not None:
        components = find_mutant(mutant).components(components)
        if not target.black_box:
            parts = find_mutant(mutant).engine_parts(parts)
    return PlaySpec(
        scenario=scenario,
        profile=profile,
        engine_profile=_of_engines(scenario, profile),
        capabilities=target.capabilities(profile),
        components=components,
        make_frontend=target.frontend(),
        black_box=target.black_box,
        chapters=getattr(target, "chapters", None),
        engine_parts=parts,
    )
