"""Replays a failure file: reproduced, gone, or diverged (and where)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from client.protocol.profiles import Profile, profile_for
from harness.attempt import Attempt, expectation_name
from harness.failure import FailureFile, FailureFileError, read_failure
from harness.invariants import discover
from harness.play import PlaySpec, play, schedule_digest
from harness.runner import cached_target, make_spec, planned_trials
from harness.scenario.loader import LoadedScenario, parse
from harness.shrink.promise import Promise
from harness.sim.choosing import Chooser
from harness.tape import Replayer, Tape, TapeDivergence
from harness.targets.target import Target, part_for
from harness.trace.events import Record


class Watch(Protocol):
    """Looks on while a tape is played."""

    def chooser(self, inner: Replayer) -> Chooser:
        """What stands between the loop and the tape."""

    def event(self, record: Record) -> None:
        """Take note of an event; called as it happens."""


TRIALS_REAL = 5
"""A real target has no tape; the failure is looked for this often, a race as often as it says."""


class ReplayKind(enum.Enum):
    """What became of the failure."""

    REPRODUCED = "reproduced"
    GONE = "gone"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """``text`` says in one line what happened; ``attempt`` is the run, if it came to its end."""

    kind: ReplayKind
    text: str
    failure: FailureFile
    attempt: Attempt | None = None
    witness_lines: tuple[str, ...] = ()
    digest_matches: bool | None = None


@dataclass(frozen=True, slots=True)
class OpenFailure:
    """A failure file, and all that it takes to play it.

    Attributes:
        tape: of the failing run; ``None`` on a target whose order nobody chooses.
    """

    path: Path
    failure: FailureFile
    loaded: LoadedScenario
    target: Target
    profile: Profile
    spec: PlaySpec
    tape: Tape | None

    def place(self) -> str:
        """Scenario and settings, for messages."""
        return f"{self.failure.scenario_id} ({', '.join(self.failure.settings)})"


def open_failure(path: Path) -> OpenFailure:
    """Read a failure file and open its target.

    Raises:
        FailureFileError: the file cannot be replayed.
        ScenarioFileError: the scenario in it is not valid for this version.
        TargetError: the target cannot be had.
    """
    failure = read_failure(path)
    loaded = parse(failure.scenario_text, path, name=failure.scenario_id)
    _check_promise(failure, loaded, path)
    try:
        profile = profile_for(failure.profile)
        target = part_for(cached_target(failure.request), loaded.scenario)
        spec = make_spec(loaded.scenario, target, profile, failure.mutant)
        tape = Tape.from_json(failure.tape) if target.deterministic else None
    except (ValueError, KeyError) as error:
        msg = f"{path}: {error}"
        raise FailureFileError(msg) from error
    return OpenFailure(path, failure, loaded, target, profile, spec, tape)


def replay(path: Path) -> ReplayOutcome:
    """Replay a failure file.

    Raises:
        FailureFileError: the file cannot be replayed.
        ScenarioFileError: the scenario in it is not valid for this version.
        TargetError: the target failed.
    """
    return replayed(open_failure(path))


def replayed(opened: OpenFailure, watch: Watch | None = None) -> ReplayOutcome:
    """Replay a failure that has been opened.

    Args:
        opened: the failure.
        watch: sees the run as it goes; only where there is a tape.

    Raises:
        TargetError: the target failed.
    """
    failure, tape, target = opened.failure, opened.tape, opened.target
    if tape is None:
        return _replay_real(opened)
    chooser = Replayer(tape)
    seen = chooser if watch is None else watch.chooser(chooser)
    labels = tape.labels is not None or watch is not None
    try:
        world = target.world(seen, record_labels=labels)
        played = play(opened.spec, world, None if watch is None else watch.event)
        chooser.finish()
    except TapeDivergence as error:
        return ReplayOutcome(ReplayKind.DIVERGED, str(error), failure)
    digest = schedule_digest(tape, played)
    attempt = Attempt(played, tape, digest)
    return _outcome(failure, attempt, same=digest == failure.digest)


def _check_promise(failure: FailureFile, loaded: LoadedScenario, path: Path) -> None:
    """Refuse what nobody judges any more: it would pass as no longer violated.

    Raises:
        FailureFileError: neither an invariant of this version nor a step of the scenario.
    """
    steps = (expectation_name(step) for step in range(len(loaded.scenario.steps)))
    if failure.violated not in {*steps, *(invariant.id for invariant in discover())}:
        msg = (
            f"{path}: {failure.violated!r} is neither an invariant of this version nor a step of "
            "the scenario in the file"
        )
        raise FailureFileError(msg)


def _replay_real(opened: OpenFailure) -> ReplayOutcome:
    outcome: ReplayOutcome | None = None
    for _ in range(max(TRIALS_REAL, planned_trials(opened.loaded.scenario))):
        attempt = Attempt(play(opened.spec, opened.target.world(None)), None, "")
        outcome = _outcome(opened.failure, attempt, same=None)
        if outcome.kind is ReplayKind.REPRODUCED:
            break
    assert outcome is not None
    return outcome


def _outcome(failure: FailureFile, attempt: Attempt, *, same: bool | None) -> ReplayOutcome:
    broken = Promise(failure.violated).broken_in(attempt)
    if broken is None:
        text = f"{failure.violated} is no longer violated"
        return ReplayOutcome(ReplayKind.GONE, text, failure, attempt, (), same)
    witness = attempt.event_lines(broken.witness)
    text = f"{failure.violated} is violated again"
    if same is False:
        text += "; the events differ from the recorded run (the code or the version changed)"
    elif same:
        text += ", by the same events (digest equal)"
    return ReplayOutcome(ReplayKind.REPRODUCED, text, failure, attempt, witness, same)
