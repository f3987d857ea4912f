"""Plays a generated scenario in a few schedules, and says what came of it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from client.errors import ClientError
from client.protocol.profiles import RELEASES, Profile, profile_for
from client.protocol.transport import SocketClosedError
from harness.attempt import Attempt
from harness.generate.drafts import Can
from harness.mutants import find_mutant
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.runner import Campaign, RunOptions, cached_target, choose_profile
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Scenario
from harness.scenario.needs import needs
from harness.scenario.positions import parse_yaml
from harness.targets.base import StartFailed, TargetError
from harness.targets.target import Target, part_for
from harness.verdict import ERROR, EXPECTATION, HELD, NOT_JUDGED, VIOLATED, most_telling
from mock_engines.outlets import ScriptError

GENERATED = "generated"
"""Id of a scenario while nothing has been found with it."""
_ACTING = re.compile(r"act [0-9]+ broke|step [0-9]+ \(engine\) broke")
_NOWHERE = parse_yaml("{}")[1]


@dataclass(frozen=True, slots=True)
class Evidence:
    """A run that broke a promise, without its events.

    Attributes:
        lines: of the events that show it.
    """

    profile: str
    verdicts: tuple[VerdictResult, ...]
    expectations: tuple[ExpectationResult, ...]
    lines: tuple[str, ...]

    @classmethod
    def of(cls, attempt: Attempt, profile: Profile) -> Evidence:
        """What is kept of a run."""
        verdicts = tuple(attempt.verdicts)
        shown = tuple(n for v in verdicts if v.verdict == VIOLATED for n in v.witness)
        return cls(
            profile.release, verdicts, tuple(attempt.expectations), attempt.event_lines(shown)
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a scenario.

    Attributes:
        status: as of a scenario.
        violated: the most telling invariant that broke, or ``expectation`` for a step that does
            not end and for a frontend that ends.
        held: invariants that were exercised and held.
        schedules: how many were played.
        wait: index of a step that waited in vain, if nothing worse was seen.
        error: what failed in the target or in us; of what was not judged, why it cannot be played.
        dead: the target could not even be started.
        seen: of a violation, what was expected and what was seen instead.
        evidence: of a violation on a target on which it need not come again.
    """

    status: str
    violated: str | None = None
    held: frozenset[str] = field(default=frozenset())
    schedules: int = 0
    wait: int | None = None
    error: str | None = None
    dead: bool = False
    seen: str = ""
    evidence: Evidence | None = None


class Stage:
    """Where generated scenarios are played: one target, with the options of one command."""

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self._killer: list[str] = []
        if options.mutant is not None:
            self._killer = [find_mutant(options.mutant).killed_by]

    def can(self) -> Can:
        """What the target can do.

        Raises:
            TargetError: it cannot be had.
            ValueError: there is no such release or file.
        """
        target = self._target()
        fixed = target.profile(self.options.profile)
        asked = self.options.profile
        profile = fixed or profile_for(asked if asked is not None else RELEASES[-1])
        free = fixed is None and asked is None
        return Can(
            capabilities=target.capabilities(profile),
            release=None if free else profile.release,
        )

    @property
    def deterministic(self) -> bool:
        """Whether the same scenario and seed come to the same outcome."""
        return self._target().deterministic

    def _target(self) -> Target:
        return cached_target(self.options.request)

    def play(self, scenario: Scenario, seed: int) -> Outcome:
        """Play a scenario until the first violation or the last schedule."""
        target = part_for(self._target(), scenario)
        profile = choose_profile(target, scenario, self.options.profile)
        if profile is None:
            return Outcome(NOT_JUDGED, error=f"no release for '{scenario.profiles}'")
        if missing := sorted(needs(scenario) - target.capabilities(profile)):
            return Outcome(NOT_JUDGED, error=f"target lacks {', '.join(missing)}")
        if (why := target.unsupported(scenario, profile)) is not None:
            return Outcome(NOT_JUDGED, error=why)
        try:
            return self._campaign(scenario, seed, target, profile)
        except StartFailed as error:
            return Outcome(ERROR, error=str(error), dead=True)
        except Exception as error:  # noqa: BLE001 - one broken run must not end a hunt
            if (refusal := _refusal(error)) is not None:
                return Outcome(NOT_JUDGED, error=refusal)
            return Outcome(ERROR, error=error_text(error))

    def _campaign(self, scenario: Scenario, seed: int, target: Target, profile: Profile) -> Outcome:
        loaded = LoadedScenario(GENERATED, Path(f"{GENERATED}.yaml"), scenario, _NOWHERE, "")
        options = replace(self.options, seed=seed)
        held: set[str] = set()
        wait: int | None = None
        count = 0
        for attempt in Campaign(loaded, options, target, profile).attempts():
            count += 1
            held |= {v.invariant for v in attempt.verdicts if v.verdict == HELD}
            if not attempt.violated:
                continue
            violated, seen, wait = self._what(attempt, scenario)
            if violated is not None:
                evidence = None if target.deterministic else Evidence.of(attempt, profile)
                return Outcome(
                    VIOLATED, violated, frozenset(held), count, seen=seen, evidence=evidence
                )
            break
        status = HELD if held else NOT_JUDGED
        return Outcome(status, held=frozenset(held), schedules=count, wait=wait)

    def _what(self, attempt: Attempt, scenario: Scenario) -> tuple[str | None, str, int | None]:
        """The invariant that broke, and how; else the step that waited in vain."""
        broken = most_telling(attempt.verdicts, self._killer)
        if broken and broken[0].level == "must":
            return broken[0].invariant, broken[0].message, None
        steps = [e for e in attempt.expectations if e.status == VIOLATED]
        step = scenario.steps[steps[0].step]
        if step.verb == "wait" and not steps[0].frontend_ended:
            return None, "", steps[0].step
        told = f"step {steps[0].step}: expected {steps[0].expected}; seen {steps[0].seen}"
        return EXPECTATION, told, None


def _refusal(error: BaseException) -> str | None:
    """Why a step could not be carried out, if that is what ended a run, and nobody's fault.

    An engine was told what it cannot do, or died while it did it; a client that had failed was
    asked for something whose refusal no step shows.
    """
    acting = _ACTING.match(str(error)) is not None
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ScriptError | ClientError):
            return str(cause)
        if isinstance(cause, SocketClosedError) and acting:
            return "an engine died while it acted"
        cause = cause.__cause__
    return None


def error_text(error: Exception) -> str:
    """One line on an error: of the target its own words, of anything else its class and place."""
    if isinstance(error, TargetError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (at {Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


def failed_result(
    loaded: LoadedScenario, evidence: Evidence | None, options: RunOptions
) -> ScenarioResult:
    """The result of a run that broke a promise once; there is nothing to replay."""
    scenario = loaded.scenario
    return ScenarioResult(
        scenario=loaded.id,
        title=scenario.title,
        refs=tuple(scenario.refs),
        profile=evidence.profile if evidence is not None else options.profile or "",
        mutant=options.mutant,
        status=VIOLATED,
        verdicts=evidence.verdicts if evidence is not None else (),
        expectations=evidence.expectations if evidence is not None else (),
        witness_lines=evidence.lines if evidence is not None else (),
        trials=1,
    )


def without_step(data: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same scenario without one step."""
    steps = [step for index, step in enumerate(data["steps"]) if index != number]
    return {**data, "steps": steps or [{"fence": True}]}
