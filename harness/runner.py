"""Runs one scenario on one target: schedules or trials, merged verdicts, a failure file."""

from __future__ import annotations

import functools
import gc
import hashlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.specifiers import SpecifierSet

from client.components import Components
from client.protocol.profiles import RELEASES, Profile, profile_for
from harness.failure import FailureFile, write_failure
from harness.mutants import find_mutant
from harness.play import Played, PlaySpec, play, schedule_digest
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Scenario
from harness.scenario.needs import needs
from harness.strategies import make_strategy
from harness.tape import Recorder as TapeRecorder
from harness.tape import Replayer, Tape
from harness.targets.base import TargetError
from harness.targets.registry import open_target, takes_mutant
from harness.targets.request import TargetRequest, is_reference
from harness.targets.target import Target, part_for, program_of
from harness.trace.render import render
from harness.verdict import (
    ERROR,
    NOT_JUDGED,
    VIOLATED,
    merge_all,
    merge_expectations,
    most_telling,
    predicted,
    status_of,
)

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


@dataclass(frozen=True, slots=True)
class Attempt:
    """One schedule or trial."""

    played: Played
    tape: Tape | None
    digest: str

    @property
    def expectations(self) -> list[ExpectationResult]:
        """Results of the scenario's own steps."""
        return [
            ExpectationResult(r.step, r.outcome.status, r.outcome.expected, r.outcome.seen)
            for r in self.played.story.results
        ]

    @property
    def verdicts(self) -> list[VerdictResult]:
        """Verdicts in the form of a report."""
        return [
            VerdictResult(
                v.invariant, v.level, v.verdict, v.reason, v.exercised, v.message, v.expected,
                v.seen, v.witness,
            )
            for v in self.played.verdicts
        ]  # fmt: skip

    @property
    def violated(self) -> bool:
        """Whether it shows a violation of a ``must`` or an expectation."""
        return any(e.status == VIOLATED for e in self.expectations) or any(
            v.verdict == VIOLATED and v.level == "must" for v in self.played.verdicts
        )

    def event_lines(self, numbers: tuple[int, ...]) -> tuple[str, ...]:
        """Witness events as text, in order."""
        records = self.played.records
        # A real clock starts long before the run does; a simulated one with it.
        start_us = records[0].time_us if records and self.tape is None else 0
        return tuple(
            render(records[n], start_us=start_us) for n in sorted(set(numbers)) if n < len(records)
        )


class Again(Replayer):
    """Decides as a tape did; lets a recorder add the labels."""

    def begin(self) -> None:
        """The tape is at its start already."""


@functools.lru_cache(maxsize=32)
def cached_target(request: TargetRequest) -> Target:
    """Open a target once in each process."""
    target = open_target(request)
    gc.collect()
    gc.freeze()  # what is imported now lives on; a collection after a run then costs little
    return target


def expectation_name(step: int) -> str:
    """What a failed expectation is called in a failure file."""
    return f"expectation at step {step}"


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
    result = _run(loaded, options)
    return replace(result, duration_s=round(time.monotonic() - began, 3))  # noqa: TID251


def _run(loaded: LoadedScenario, options: RunOptions) -> ScenarioResult:
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
            return replace(
                base,
                profile=str(release or ""),
                error=None,
                reason=f"does not apply to {release} (applies to {scenario.profiles})",
            )
        base = replace(base, profile=profile.release)
        missing = sorted(needs(scenario) - target.capabilities(profile))
        if missing:
            return replace(base, reason=f"target lacks {', '.join(missing)}")
        if (why := target.unsupported(scenario, profile)) is not None:
            return replace(base, reason=why)
        if program_of(target) and options.mutant and not is_reference(options.frontend):
            return replace(base, reason="a mutant is a variant of the reference client")
        return Campaign(loaded, options, target, profile).run(base)
    except TargetError as error:
        return replace(base, status=ERROR, error=str(error))


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

    def _count(self) -> int:
        """How many schedules, or trials on a target whose order cannot be chosen."""
        if self._target.deterministic:
            return self._options.schedules
        wanted = self._options.schedules
        if self._target.black_box:
            wanted = max(wanted, planned_trials(self._loaded.scenario))
        return wanted

    def _predicted(self) -> tuple[str, ...]:
        """What ``known`` predicts here; it speaks of releases, not of our own client or server."""
        program = program_of(self._target)
        if program is None or is_reference(self._options.frontend):
            return ()
        return predicted(self._loaded.scenario.known, self._profile.version, program)

    def _deadline(self) -> float | None:
        """When a race has used up its budget, on the monotonic clock; ``None``: it has none.

        A predicted violation is looked for to the end: a missing one must not be missing for
        want of time.
        """
        scenario, budget = self._loaded.scenario, self._options.race_budget_s
        if budget is None or scenario.trials is None or not self._target.black_box:
            return None
        if self._predicted():
            return None
        return time.monotonic() + budget  # noqa: TID251 - real time is what is spent

    def attempts(self) -> Iterator[Attempt]:
        """Play one schedule after the other."""
        deadline = self._deadline()
        for index in range(self._count()):
            if index and deadline is not None and time.monotonic() >= deadline:  # noqa: TID251
                return
            yield self._attempt(index)

    def _attempt(self, index: int) -> Attempt:
        if not self._target.deterministic:
            played = play(self._spec, self._target.world(None))
            return Attempt(played, None, "")
        strategy = make_strategy(self._options.strategy, self._options.seed, index)
        chooser = TapeRecorder(strategy)
        played = play(self._spec, self._target.world(chooser))
        tape = chooser.tape
        return Attempt(played, tape, schedule_digest(tape, played))

    def run(self, base: ScenarioResult) -> ScenarioResult:
        """Play until the first violation or the last schedule, and merge."""
        expectations: list[list[ExpectationResult]] = []
        verdicts: list[list[VerdictResult]] = []
        digest = hashlib.sha256()
        failed: Attempt | None = None
        wishes: dict[str, tuple[str, ...]] = {}
        for attempt in self.attempts():
            expectations.append(attempt.expectations)
            verdicts.append(attempt.verdicts)
            for verdict in attempt.verdicts:
                if verdict.verdict == VIOLATED and verdict.level != "must":
                    wishes.setdefault(verdict.invariant, attempt.event_lines(verdict.witness))
            digest.update(attempt.digest.encode())
            if attempt.violated:
                failed = attempt
                break
        played = len(verdicts)
        scenario = self._loaded.scenario
        merged_expectations = merge_expectations(expectations)
        merged_verdicts = merge_all(verdicts)
        status = status_of(
            None, merged_expectations, merged_verdicts, own_invariants=scenario.invariants
        )
        result = replace(
            base,
            status=status,
            reason="nothing that it expects was exercised" if status == NOT_JUDGED else None,
            known=self._predicted(),
            expectations=merged_expectations,
            verdicts=merged_verdicts,
            schedules=played if self._target.deterministic else 0,
            trials=0 if self._target.deterministic else played,
            digest=digest.hexdigest() if self._target.deterministic else None,
            should_lines=tuple(wishes.items()),
        )
        return result if failed is None else self._with_failure(result, failed)

    def _labelled(self, tape: Tape) -> Tape:
        """The same run once more, recording what each option is called."""
        recorder = TapeRecorder(Again(tape))
        play(self._spec, self._target.world(recorder, record_labels=True))
        return recorder.tape

    def _with_failure(self, result: ScenarioResult, failed: Attempt) -> ScenarioResult:
        """Write the failure file of the most telling violation; keep all witnesses as text."""
        preferred = list(self._loaded.scenario.invariants)
        if self._options.mutant is not None:
            preferred.insert(0, find_mutant(self._options.mutant).killed_by)
        broken = most_telling(failed.verdicts, preferred)
        steps = [r for r in failed.played.story.results if r.outcome.status == VIOLATED]
        if broken and broken[0].level == "must":
            name, witness = broken[0].invariant, broken[0].witness
        else:
            name, witness = expectation_name(steps[0].step), steps[0].outcome.witness
        shown = [n for verdict in broken for n in verdict.witness]
        shown += [n for step in steps for n in step.outcome.witness]
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
        )
        try:
            path = write_failure(failure, self._options.out)
        except OSError as error:
            # The violation stands, and is worth more than its file.
            return replace(result, failure_file_error=str(error))
        return replace(result, failure_file=str(path))


def make_spec(scenario: Scenario, target: Target, profile: Profile, mutant: str | None) -> PlaySpec:
    """Fix everything of a run but its choices."""
    components = Components()
    if mutant is not None:
        components = find_mutant(mutant).components(components)
    return PlaySpec(
        scenario=scenario,
        profile=profile,
        engine_profile=profile,
        capabilities=target.capabilities(profile),
        components=components,
        make_frontend=target.frontend(),
        black_box=target.black_box,
        chapters=getattr(target, "chapters", None),
    )
