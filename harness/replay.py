"""Replays a failure file: reproduced, gone, or diverged (and where)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from client.protocol.profiles import profile_for
from harness.failure import FailureFile, FailureFileError, read_failure
from harness.invariants import discover
from harness.play import play, schedule_digest
from harness.runner import (
    Attempt,
    cached_target,
    expectation_name,
    make_spec,
    planned_trials,
)
from harness.scenario.loader import LoadedScenario, parse
from harness.tape import Replayer, Tape, TapeDivergence, TapeFormatError
from harness.targets.target import Target, part_for
from harness.verdict import VIOLATED

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


def replay(path: Path) -> ReplayOutcome:
    """Replay a failure file.

    Raises:
        FailureFileError: the file cannot be replayed.
        ScenarioFileError: the scenario in it is not valid for this version.
        TargetError: the target failed.
    """
    failure = read_failure(path)
    loaded = parse(failure.scenario_text, path, name=failure.scenario_id)
    _check_promise(failure, loaded, path)
    try:
        profile = profile_for(failure.profile)
        target = part_for(cached_target(failure.request), loaded.scenario)
        spec = make_spec(loaded.scenario, target, profile, failure.mutant)
    except (ValueError, KeyError) as error:
        msg = f"{path}: {error}"
        raise FailureFileError(msg) from error
    if not target.deterministic:
        return _replay_real(failure, target, loaded)
    try:
        tape = Tape.from_json(failure.tape)
    except TapeFormatError as error:
        msg = f"{path}: {error}"
        raise FailureFileError(msg) from error
    chooser = Replayer(tape)
    try:
        played = play(spec, target.world(chooser, record_labels=tape.labels is not None))
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


def _replay_real(failure: FailureFile, target: Target, loaded: LoadedScenario) -> ReplayOutcome:
    spec = make_spec(loaded.scenario, target, profile_for(failure.profile), failure.mutant)
    outcome: ReplayOutcome | None = None
    for _ in range(max(TRIALS_REAL, planned_trials(loaded.scenario))):
        attempt = Attempt(play(spec, target.world(None)), None, "")
        outcome = _outcome(failure, attempt, same=None)
        if outcome.kind is ReplayKind.REPRODUCED:
            break
    assert outcome is not None
    return outcome


def _outcome(failure: FailureFile, attempt: Attempt, *, same: bool | None) -> ReplayOutcome:
    verdict = next(
        (v for v in attempt.verdicts if v.invariant == failure.violated and v.verdict == VIOLATED),
        None,
    )
    step = next(
        (
            r.outcome
            for r in attempt.played.story.results
            if expectation_name(r.step) == failure.violated and r.outcome.status == VIOLATED
        ),
        None,
    )
    if verdict is None and step is None:
        text = f"{failure.violated} is no longer violated"
        return ReplayOutcome(ReplayKind.GONE, text, failure, attempt, (), same)
    shown = verdict if verdict is not None else step
    witness = attempt.event_lines(shown.witness if shown is not None else ())
    text = f"{failure.violated} is violated again"
    if same is False:
        text += "; the events differ from the recorded run (the code or the version changed)"
    elif same:
        text += ", by the same events (digest equal)"
    return ReplayOutcome(ReplayKind.REPRODUCED, text, failure, attempt, witness, same)
