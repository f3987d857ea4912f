"""A hunt finds what is broken, makes it small, and finds nothing in a client that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.pool import execute
from harness.generate import hunt as hunting
from harness.generate.findings import Finding, work_out
from harness.generate.hunt import Batch, Found, Limits, real_clock
from harness.generate.shares import Share, ShareResult, jobs
from harness.generate.trial import Outcome, Stage
from harness.replay import ReplayKind, replay
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import load
from harness.scenario.model import Scenario
from harness.targets.base import StartFailed, TargetError
from harness.verdict import ERROR, HELD, NOT_JUDGED, VIOLATED

OPTIONS = RunOptions(schedules=2, strategy="auto")
EASY = "abort-to-every-engine"
BROKEN = "request.abort-only-to-owner"
LONG_S = 120.0
"""Seconds that no test needs: a safety net."""


def limits(shrink_s: float = LONG_S) -> Limits:
    return Limits(real_clock, real_clock() + LONG_S, shrink_s)


def first(options: RunOptions, batches: int = 20, *, shrink: bool = False) -> Found | None:
    stage = Stage(options)
    for number in range(batches):
        found = Batch(stage, 1, number, limits(), shrink=shrink).run()
        if found is not None:
            return found
    return None


def mutant(name: str = EASY) -> RunOptions:
    return RunOptions(schedules=2, strategy="auto", mutant=name)


@pytest.fixture
def finding(tmp_path: Path) -> Finding:
    options = RunOptions(schedules=2, strategy="auto", mutant=EASY, out=tmp_path / "out")
    found = first(options)
    assert found is not None
    return work_out(found, options, hunt_seed=1, shrink_s=20, command="wavecheck explore")


@pytest.mark.slow
def test_reference_client_keeps_every_promise_in_what_nobody_wrote() -> None:
    stage = Stage(OPTIONS)
    told: list[str] = []
    held: set[str] = set()
    for number in range(12):
        batch = Batch(stage, 20, number, limits(), shrink=False)
        found = batch.run()
        told += [f"{found.violated}: {found.seen}"] if found is not None else []
        told += list(batch.tally.errors)
        held |= set(batch.tally.held)
    assert told == []
    assert len(held) > 25


def test_broken_client_is_found_and_the_scenario_is_small() -> None:
    found = first(mutant(), shrink=True)
    assert found is not None
    assert found.violated == BROKEN
    assert len(found.scenario.steps) <= 5
    assert len(found.scenario.engines) <= 1


def test_the_same_seed_finds_the_same() -> None:
    one, two = first(mutant()), first(mutant())
    assert one is not None
    assert two is not None
    assert (one.data, one.seed, one.batch) == (two.data, two.seed, two.batch)


def test_found_scenario_is_a_file_like_any_other_that_fails_alone(finding: Finding) -> None:
    loaded = load(finding.path)
    assert loaded.scenario.invariants == [BROKEN]
    assert "command" not in loaded.text
    options = RunOptions(schedules=2, strategy="auto", seed=finding.found.seed, mutant=EASY)
    assert run_scenario(loaded, options).status == VIOLATED
    right = RunOptions(schedules=2, strategy="auto", seed=finding.found.seed)
    assert run_scenario(loaded, right).status == HELD


def test_failure_file_of_a_found_scenario_is_replayed(finding: Finding) -> None:
    assert finding.result.failure_file is not None
    outcome = replay(Path(finding.result.failure_file))
    assert outcome.kind is ReplayKind.REPRODUCED
    assert outcome.failure.violated == BROKEN
    assert outcome.digest_matches


def test_nothing_is_written_where_the_command_is_called(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WAVECHECK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HYPOTHESIS_STORAGE_DIRECTORY", raising=False)
    Batch(Stage(OPTIONS), 3, 0, limits(), shrink=False).run()
    assert list(elsewhere.iterdir()) == []


# --- a stage that says what comes of it -----------------------------------------------------


def pretend(monkeypatch: pytest.MonkeyPatch, play: object) -> Stage:
    monkeypatch.setattr(Stage, "play", play)
    return Stage(OPTIONS)


def test_step_that_waits_in_vain_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def play(_stage: Stage, scenario: Scenario, _seed: int) -> Outcome:
        waits = [i for i, step in enumerate(scenario.steps) if step.verb == "wait"]
        seen.append(len(waits))
        return Outcome(HELD, schedules=1, wait=waits[0] if waits else None)

    stage = pretend(monkeypatch, play)
    tallies = [Batch(stage, 1, n, limits(), shrink=False) for n in range(12)]
    for batch in tallies:
        assert batch.run() is None
    assert sum(batch.tally.waits for batch in tallies) > 0
    assert seen.count(0) == sum(batch.tally.scenarios for batch in tallies)


def test_errors_are_counted_with_a_scenario_each_and_do_not_end_a_hunt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = pretend(monkeypatch, lambda *_: Outcome(ERROR, error="it broke\nin detail"))
    batch = Batch(stage, 1, 0, limits(), shrink=False)
    assert batch.run() is None
    assert batch.tally.errors["it broke"] > 5
    assert "steps" in batch.tally.erroneous["it broke"]


def test_known_violation_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = pretend(monkeypatch, lambda *_: Outcome(VIOLATED, BROKEN, schedules=1))
    batch = Batch(stage, 1, 0, limits(), shrink=False)
    assert batch.run(known=frozenset({BROKEN})) is None
    assert batch.tally.scenarios > 5


def test_shrinking_keeps_to_the_promise_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(_stage: Stage, scenario: Scenario, _seed: int) -> Outcome:
        calls = sum(step.verb == "call" for step in scenario.steps)
        if calls >= 2:
            return Outcome(VIOLATED, "wave.never-rewinds")
        return Outcome(VIOLATED, BROKEN) if calls else Outcome(HELD)

    stage = pretend(monkeypatch, play)
    for number in range(30):
        found = Batch(stage, 1, number, limits()).run(wanted="wave.never-rewinds")
        if found is not None:
            break
    assert found is not None
    assert [step.verb for step in found.scenario.steps].count("call") == 2
    assert found.violated == "wave.never-rewinds"


def test_batch_ends_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = pretend(monkeypatch, lambda *_: Outcome(HELD))
    now = iter(range(100))
    batch = Batch(stage, 1, 0, Limits(lambda: next(now), until=3), shrink=False)
    assert batch.run() is None
    assert batch.tally.scenarios <= 3


def test_shrinking_ends_when_its_time_is_over_and_keeps_what_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = pretend(monkeypatch, lambda *_: Outcome(VIOLATED, BROKEN))
    clock = iter(range(10_000))
    batch = Batch(stage, 1, 0, Limits(lambda: next(clock), until=9_000, shrink_s=5))
    assert batch.run() is not None
    assert batch.tally.shrinks <= 6


# --- what a run comes to --------------------------------------------------------------------


def _raising(error: BaseException) -> object:
    def attempts(_campaign: object) -> object:
        raise error

    return attempts


@pytest.mark.parametrize(
    ("error", "status", "dead"),
    [
        (StartFailed("no start"), ERROR, True),
        (TargetError("it broke"), ERROR, False),
        (ZeroDivisionError("a fault of ours"), ERROR, False),
    ],
)
def test_run_that_fails_is_an_error_with_its_words(
    sim: Stage, monkeypatch: pytest.MonkeyPatch, error: Exception, status: str, dead: bool
) -> None:
    monkeypatch.setattr("harness.generate.trial.Campaign.attempts", _raising(error))
    found = first_scenario(sim)
    outcome = sim.play(found, 0)
    assert (outcome.status, outcome.dead) == (status, dead)
    assert str(error) in str(outcome.error)


def test_run_in_which_an_engine_was_told_the_impossible_is_not_judged(sim: Stage) -> None:
    scenario = Scenario.model_validate(
        {
            "title": "t",
            "promise": "p",
            "refs": ["vllm#1"],
            "topology": {"engines": 1},
            "steps": [{"engine": {"engine": 0, "do": [{"wave_complete": 1}]}}],
        }
    )
    outcome = sim.play(scenario, 0)
    assert outcome.status == NOT_JUDGED
    assert "no coordinator" in str(outcome.error)


def first_scenario(stage: Stage) -> Scenario:
    from tests.support.generated import scenarios

    return scenarios(stage.can(), 0)[0]


# --- shares ---------------------------------------------------------------------------------


def share(options: RunOptions, number: int = 0, **how: object) -> ShareResult:
    work = Share(seed=1, until=real_clock() + LONG_S, **how)  # type: ignore[arg-type]
    result = execute(jobs(options, [number])[0], work)
    assert isinstance(result, ShareResult)
    return result


def test_share_ends_at_the_first_find_unless_it_is_to_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = [Outcome(VIOLATED, name) for name in ("wave.never-rewinds", BROKEN)]

    def play(_stage: Stage, scenario: Scenario, _seed: int) -> Outcome:
        return outcomes[len(scenario.steps) % 2]

    pretend(monkeypatch, play)
    assert len(share(OPTIONS).found) == 1
    assert {one.violated for one in share(OPTIONS, keep_going=True).found} == {
        "wave.never-rewinds",
        BROKEN,
    }


def test_target_that_never_starts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, lambda *_: Outcome(ERROR, error="it does not start", dead=True))
    result = share(OPTIONS)
    assert result.hopeless == "it does not start"
    assert result.tally.batches == 1


def test_share_begins_nothing_when_the_time_is_over() -> None:
    result = execute(jobs(OPTIONS, [0])[0], Share(seed=1, until=real_clock()))
    assert isinstance(result, ShareResult)
    assert result.tally.scenarios == 0


def test_batches_are_small_enough_to_differ() -> None:
    # Behind the tenth example Hypothesis mostly varies what it has drawn.
    assert hunting.EXAMPLES <= 10
