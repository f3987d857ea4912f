"""The runner: which profile, how many runs, when it stops, what it merges and keeps."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version

from client.protocol.profiles import RELEASES, profile_for
from harness import runner as runner_module
from harness.attempt import Attempt, expectation_name
from harness.failure import read_failure
from harness.results import ScenarioResult
from harness.runner import (
    MISS_ACCEPTED,
    Campaign,
    RunOptions,
    cached_target,
    choose_profile,
    make_spec,
    run_scenario,
)
from harness.strategies import make_strategy
from harness.strategies.window import Window
from harness.tape import Recorder as TapeRecorder
from harness.tape import Tape
from harness.targets.base import TargetError
from harness.targets.reference import SimTarget
from harness.targets.request import TargetRequest
from harness.trace.render import render
from tests.support.stories import (
    HEAD,
    load,
    load_unchecked,
    perform,
)

HOLDS = "steps:\n  - call: {id: a}\n  - finish: a\n  - expect: {op: a, outcome: finished}\n"
FAILS = "steps:\n  - call: {id: a}\n  - finish: a\n  - expect: {op: a, outcome: failed}\n"
TRUNCATED = "steps:\n  - call: {id: a, rank: 65536}\n  - finish: a\n"


class Fixed(SimTarget):
    """A target that fixes its release, and may be a black box, indeterministic or poor."""

    def __init__(
        self, release=None, *, black_box=False, deterministic=True, lacks=(), refuses=None
    ):
        self._release = release
        self.black_box = black_box
        self.program = "vllm-rs" if black_box else None
        self.deterministic = deterministic
        self._lacks = frozenset(lacks)
        self._refuses = refuses
        self.asked = []
        self.worlds = 0

    def profile(self, asked):
        self.asked.append(asked)
        return None if self._release is None else profile_for(self._release)

    def capabilities(self, profile):
        return super().capabilities(profile) - self._lacks

    def unsupported(self, scenario, profile):
        return self._refuses

    def world(self, chooser, *, record_labels=False):
        self.worlds += 1
        return super().world(chooser, record_labels=record_labels)


@pytest.fixture
def on(monkeypatch):
    """Run a story on a target that a test made."""

    def run(target, story, **options):
        monkeypatch.setattr(runner_module, "cached_target", lambda *_: target)
        return run_scenario(load(story, "stories/own"), RunOptions(**options))

    return run


# --- the profile ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("profiles", "fixed", "asked", "chosen"),
    [
        ("", None, None, "0.33.0"),
        ("<0.33", None, None, "0.32.0"),
        (">=0.24,<0.26", None, None, "0.25.1"),
        ("==0.22.0", None, None, "0.22.0"),
        ("", None, "0.25.0", "0.25.0"),
        (">=0.24,<0.26", None, "0.25.0", "0.25.0"),
        (">=0.24,<0.26", None, "0.26.0", None),
        ("", "0.28.0", None, "0.28.0"),
        ("", "0.28.0", "0.28.0", "0.28.0"),
        (">=0.29", "0.28.0", None, None),
        ("<0.29", "0.28.0", "0.30.0", "0.28.0"),
    ],
)
def test_profile_is_the_targets_own_or_the_one_asked_for_or_the_newest_that_applies(
    profiles, fixed, asked, chosen
):
    scenario = load(f"profiles: '{profiles}'\nsteps:\n  - fence: true\n").scenario
    found = choose_profile(Fixed(fixed), scenario, asked)
    assert (None if found is None else found.release) == chosen


def test_newest_means_newest_by_version_not_by_text():
    assert sorted(RELEASES, key=Version) == list(RELEASES)


def test_result_names_the_profile_by_which_it_was_judged():
    result = run_scenario(load("profiles: '<0.30'\n" + HOLDS), RunOptions())
    assert (result.profile, result.status) == ("0.29.0", "held")


@pytest.mark.parametrize(
    ("fixed", "options", "release"),
    [(None, {"profile": "0.26.0"}, "0.26.0"), ("0.28.0", {}, "0.28.0")],
)
def test_scenario_that_does_not_apply_is_not_judged_and_not_played(on, fixed, options, release):
    target = Fixed(fixed)
    result = on(target, "profiles: '>=0.30'\n" + FAILS, **options)
    assert (result.status, result.error, result.profile) == ("not_judged", None, release)
    assert result.reason == f"does not apply to {release} (applies to >=0.30)"
    assert (target.worlds, result.schedules, result.verdicts) == (0, 0, ())


# --- what a target cannot do ----------------------------------------------------------------


def test_missing_capability_is_named_and_nothing_is_played(on):
    target = Fixed(lacks={"op.generate", "op.rank", "op.aux"})
    story = "steps:\n  - call: {id: a, rank: 0}\n  - finish: a\n  - expect: {in_flight: 9}\n"
    result = on(target, story)
    assert (result.status, result.reason) == (
        "not_judged",
        "target lacks op.generate, op.rank",
    )
    assert (target.worlds, result.error, result.failure_file) == (0, None, None)


def test_refusal_of_the_target_is_the_reason(on):
    target = Fixed(refuses="it has no model of that size")
    result = on(target, HOLDS)
    assert (result.status, result.reason, target.worlds) == (
        "not_judged",
        "it has no model of that size",
        0,
    )


def test_mutant_of_a_black_box_is_not_judged(on):
    target = Fixed("0.33.0", black_box=True)
    result = on(target, HOLDS, mutant="rank-truncated")
    assert (result.status, target.worlds) == ("not_judged", 0)
    assert result.reason == "a mutant is a variant of the reference client"


def test_invariants_whose_capabilities_are_missing_are_not_judged(on):
    result = on(Fixed(lacks={"see.client-events"}), HOLDS)
    judged = {v.invariant: v for v in result.verdicts}
    verdict = judged["lifecycle.shutdown-leaves-nothing"]
    assert (verdict.verdict, verdict.reason) == ("not_judged", "target lacks see.client-events")
    assert result.status == "held"


# --- errors ---------------------------------------------------------------------------------


def test_target_that_cannot_be_had_is_an_error_of_the_result(monkeypatch):
    def missing(*_):
        msg = "no binary of 0.28.0"
        raise TargetError(msg)

    monkeypatch.setattr(runner_module, "cached_target", missing)
    result = run_scenario(load(HOLDS), RunOptions(profile="0.28.0", seed=3, strategy="random"))
    assert result == ScenarioResult(
        scenario="stories/own", title="a story", refs=("vllm#1",), profile="0.28.0", mutant=None,
        status="error", error="no binary of 0.28.0", strategy="random", seed=3,
        duration_s=result.duration_s,
    )  # fmt: skip


def test_run_that_breaks_is_an_error_that_says_why():
    story = "steps:\n  - utility: {id: u, method: no_such}\n  - finish: u\n"
    result = run_scenario(load_unchecked(story), RunOptions())
    assert (result.status, result.error) == (
        "error",
        "op u broke: the client has no method 'no_such'",
    )
    assert result.profile == "0.33.0"


def test_interruption_is_not_swallowed(on, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner_module, "play", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_scenario(load(HOLDS), RunOptions())


# --- how many -------------------------------------------------------------------------------


def count(target, trials="", schedules=1):
    loaded = load(trials + HOLDS)
    options = RunOptions(schedules=schedules)
    return Campaign(loaded, options, target, profile_for("0.33.0"))._count()


@pytest.mark.parametrize("miss", [0.001, 0.0011, 0.01, 0.1, 0.3, 0.5, 0.65, 0.7, 0.9])
def test_trials_of_a_race_make_a_miss_less_likely_than_1_in_1000(miss):
    target = Fixed(black_box=True, deterministic=False)
    wanted = count(target, f"trials: {{miss: {miss}, max: 1000}}\n")
    assert miss**wanted <= MISS_ACCEPTED * (1 + 1e-12)
    assert wanted == 1 or miss ** (wanted - 1) > MISS_ACCEPTED * (1 - 1e-12)


@pytest.mark.parametrize(
    ("trials", "schedules", "expected"),
    [
        ("trials: {miss: 0.5}\n", 1, 10),
        ("trials: {miss: 0.9}\n", 1, 20),
        ("trials: {miss: 0.9, max: 100}\n", 1, 66),
        ("trials: {miss: 0.5, max: 4}\n", 1, 4),
        ("trials: {miss: 0.5}\n", 30, 30),
        ("", 1, 1),
        ("", 7, 7),
    ],
)
def test_trials_are_bounded_by_the_file_and_by_what_was_asked_for(trials, schedules, expected):
    assert count(Fixed(black_box=True, deterministic=False), trials, schedules) == expected


def test_trials_are_for_black_boxes_and_for_what_is_predicted():
    trials = "trials: {miss: 0.5}\n"
    assert count(Fixed(), trials, 3) == 3
    assert count(Fixed(deterministic=False), trials, 3) == 3
    known = "known:\n  - {target: protocol, invariant: expectation, reason: r, link: 'https://github.com/vllm-project/vllm'}\n"
    assert count(Fixed(), known + trials, 3) == 3
    assert count(Fixed(deterministic=False), known + trials, 3) == 10


@pytest.mark.parametrize(("deterministic", "counts"), [(True, (4, 0)), (False, (0, 4))])
def test_all_runs_are_played_and_counted_if_nothing_is_violated(on, deterministic, counts):
    target = Fixed(deterministic=deterministic)
    result = on(target, HOLDS, schedules=4, strategy="random")
    assert (result.status, result.schedules, result.trials) == ("held", *counts)
    assert target.worlds == 4
    assert (result.digest is not None) is deterministic


def test_occurrences_of_all_schedules_add_up(on):
    def exercised(schedules):
        result = on(Fixed(), HOLDS, schedules=schedules)
        return {v.invariant: v.exercised for v in result.verdicts}

    one, three = exercised(1), exercised(3)
    assert three == {name: 3 * number for name, number in one.items()}
    assert one["request.accepted-ends"] == 1


# --- stopping and failure files -------------------------------------------------------------


def test_first_violation_ends_the_campaign(on, tmp_path):
    target = Fixed()
    result = on(target, FAILS, schedules=50, strategy="random", out=tmp_path)
    assert (result.status, result.schedules) == ("violated", 1)
    assert target.worlds == 2  # once more for the labels
    assert [p.name for p in tmp_path.iterdir()] == [Path(result.failure_file).name]


def test_violation_in_a_later_schedule_ends_the_campaign_there(tmp_path):
    """Only under some orders is the second call the first to be added."""
    story = (
        "steps:\n  - call: {id: a, rank: 0}\n  - call: {id: b, rank: 1}\n  - finish: [a, b]\n"
        "  - expect: {order: [{event: add, request: a}, {event: add, request: b}]}\n"
    )
    base = RunOptions(strategy="random", out=tmp_path)
    seed = next(
        seed
        for seed in range(50)
        if run_scenario(load(story), dataclasses.replace(base, seed=seed)).status == "held"
    )
    options = dataclasses.replace(base, seed=seed, schedules=200)
    result = run_scenario(load(story), options)
    assert result.status == "violated"
    assert 1 < result.schedules < 200
    earlier = dataclasses.replace(options, schedules=result.schedules - 1)
    assert run_scenario(load(story), earlier).status == "held"
    failure = read_failure(Path(result.failure_file))
    strategy = make_strategy("random", seed, result.schedules - 1)
    assert failure.tape["choices"].startswith(first_choices(strategy, story, 8))
    # The verdicts of the schedules before it are merged in.
    held = {v.invariant: v.exercised for v in result.verdicts if v.verdict == "held"}
    assert held["request.accepted-ends"] == 2 * result.schedules


def first_choices(strategy, story, words):
    """The first words of the tape that a strategy makes of a story."""

    recorder = TapeRecorder(Window(strategy))
    perform(story, SimTarget().world(recorder))
    return " ".join(recorder.tape.to_json()["choices"].split()[:words])


def test_expectation_that_fails_is_written_with_its_step_and_witness(tmp_path):
    story = (
        "steps:\n  - call: {id: a}\n  - finish: a\n"
        "  - expect: {count: {event: joined, equals: 1}}\n  - expect: {op: a, outcome: failed}\n"
    )
    result = run_scenario(load(story), RunOptions(out=tmp_path))
    failure = read_failure(Path(result.failure_file))
    assert failure.violated == expectation_name(2) == "expectation at step 2"
    assert [failure.events[n] for n in failure.witness] == list(result.witness_lines)
    assert len(failure.witness) == 2
    assert [(e.step, e.status) for e in result.expectations] == [(2, "violated"), (3, "violated")]
    assert failure.scenario_text == HEAD + story


def test_failure_file_of_a_mutant_names_its_own_invariant_and_the_mutant(tmp_path):
    options = RunOptions(mutant="rank-truncated", out=tmp_path, strategy="random", seed=5)
    result = run_scenario(load(TRUNCATED), options)
    assert (result.status, result.mutant) == ("violated", "rank-truncated")
    failure = read_failure(Path(result.failure_file))
    assert (failure.violated, failure.mutant) == ("routing.explicit-rank", "rank-truncated")
    assert (failure.target, failure.profile, failure.frontend) == ("sim", "0.33.0", None)
    tape = Tape.from_json(failure.tape)
    assert tape.labels is not None
    assert any("engine 0" in name for name in tape.chosen)
    verdict = next(v for v in result.verdicts if v.invariant == "routing.explicit-rank")
    assert failure.witness == list(verdict.witness)
    assert result.witness_lines == tuple(failure.events[n] for n in verdict.witness)


@pytest.mark.parametrize(
    ("named", "mutant", "violated"),
    [
        ("[]", None, "request.accepted-ends"),
        ("[request.no-output-after-end]", None, "request.no-output-after-end"),
        ("[request.no-output-after-end]", "coordinator-rewinds", "wave.never-rewinds"),
    ],
)
def test_failure_file_is_about_what_tells_most(on, monkeypatch, tmp_path, named, mutant, violated):
    """Of several violations: the mutant's own, what the scenario names, then by name."""

    def all_violated(played):
        broken = {
            "request.accepted-ends", "request.no-output-after-end", "wave.never-rewinds",
        }  # fmt: skip
        verdicts = [
            msgspec.structs.replace(
                v, verdict="violated", witness=(sorted(broken).index(v.invariant),)
            )
            if v.invariant in broken else v
            for v in played.verdicts
        ]  # fmt: skip
        return dataclasses.replace(played, verdicts=tuple(verdicts))

    real = runner_module.play
    monkeypatch.setattr(runner_module, "play", lambda *a: all_violated(real(*a)))
    result = on(Fixed(), f"invariants: {named}\n" + FAILS, mutant=mutant, out=tmp_path)
    failure = read_failure(Path(result.failure_file))
    assert failure.violated == violated
    # All witnesses are shown, not only those of the file.
    assert len(result.witness_lines) >= 3


def test_should_invariant_alone_makes_no_failure(on, monkeypatch, tmp_path):
    def only_should(played):
        first, *rest = played.verdicts
        broken = msgspec.structs.replace(first, level="should", verdict="violated")
        return dataclasses.replace(played, verdicts=(broken, *rest))

    real = runner_module.play
    monkeypatch.setattr(runner_module, "play", lambda *a: only_should(real(*a)))
    result = on(Fixed(), HOLDS, schedules=3, out=tmp_path)
    assert (result.status, result.schedules, result.failure_file) == ("held", 3, None)
    assert list(tmp_path.iterdir()) == []


def test_failure_of_a_target_without_schedules_has_no_tape(on, tmp_path):
    result = on(Fixed(deterministic=False), FAILS, schedules=5, out=tmp_path)
    assert (result.trials, result.schedules, result.digest) == (1, 0, None)
    failure = read_failure(Path(result.failure_file))
    assert (failure.tape, failure.digest) == (None, "")
    assert failure.events


def test_attempt_shows_events_in_order_once_and_none_beyond_the_trace():
    played = perform(HOLDS)
    attempt = Attempt(played, None, "")
    lines = [render(record) for record in played.records]
    assert attempt.event_lines((3, 1, 3, 10_000)) == (lines[1], lines[3])


# --- status and knowledge -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("story", "status", "reason"),
    [
        (HOLDS, "held", None),
        ("invariants: [request.accepted-ends]\nsteps:\n  - call: {id: a}\n  - finish: a\n",
         "held", None),
        ("steps:\n  - call: {id: a}\n  - finish: a\n", "not_judged",
         "nothing that it expects was exercised"),
        ("steps:\n  - expect: {in_flight: 0, when: '<0.30'}\n", "not_judged",
         "nothing that it expects was exercised"),
        ("invariants: [wave.never-rewinds]\nsteps:\n  - fence: true\n", "not_judged",
         "nothing that it expects was exercised"),
    ],
)  # fmt: skip
def test_status_tells_whether_what_the_scenario_expects_was_exercised(story, status, reason):
    result = run_scenario(load(story), RunOptions())
    assert (result.status, result.reason) == (status, reason)


@pytest.mark.parametrize(
    ("black_box", "release", "known"),
    [(True, "0.27.1", ("expectation",)), (True, "0.28.0", ()), (False, "0.27.1", ())],
)
def test_known_faults_are_predicted_for_black_boxes_of_their_releases(
    on, tmp_path, black_box, release, known
):
    story = (
        "known:\n  - {invariant: expectation, fixed_in: 0.28.0, reason: r, link: vllm#2}\n" + FAILS
    )
    result = on(Fixed(release, black_box=black_box), story, out=tmp_path)
    assert (result.known, result.status) == (known, "violated")


# --- digests --------------------------------------------------------------------------------

STORIES = {
    "a": HOLDS,
    "b": "steps:\n  - load: {clients: 2, requests: 2}\n  - expect: {in_flight: 0}\n",
    "c": (
        "topology: {engines: 3, coordinator: in-process}\n"
        "steps:\n  - call: {id: x, rank: 2}\n  - utility: {id: u, method: sleep}\n"
        "  - finish: [x, u]\n  - fence: true\n  - expect: {in_flight: 0}\n"
    ),
}


def digest(name, **options):
    given = {"strategy": "random", "seed": 7, "schedules": 3, **options}
    return run_scenario(load(STORIES[name], name), RunOptions(**given)).digest


def test_digest_does_not_depend_on_what_ran_before_in_the_process():
    forwards = [digest(name) for name in STORIES]
    backwards = [digest(name) for name in reversed(STORIES)]
    assert forwards == backwards[::-1]
    assert len(set(forwards)) == 3


def test_digest_does_not_depend_on_the_clock(monkeypatch):
    first = digest("b")
    ticks = iter(range(10**6, 10**9, 12_345))
    monkeypatch.setattr(runner_module.time, "monotonic", lambda: float(next(ticks)))
    result = run_scenario(
        load(STORIES["b"], "b"), RunOptions(strategy="random", seed=7, schedules=3)
    )
    assert (result.digest, result.duration_s) == (first, 12_345.0)


@pytest.mark.parametrize(
    "options", [{"seed": 8}, {"schedules": 2}, {"schedules": 4}, {"strategy": "fifo"}]
)
def test_digest_depends_on_seed_schedules_and_strategy(options):
    assert digest("c", **options) != digest("c")


def test_digest_covers_every_schedule_not_only_the_last():
    """Every schedule of fifo is the same."""
    found = [digest("a", strategy="fifo", schedules=count) for count in (1, 2, 3)]
    assert len(set(found)) == 3


def test_digest_depends_on_the_code_under_test(tmp_path):
    def of(mutant):
        options = RunOptions(mutant=mutant, out=tmp_path)
        return run_scenario(load(TRUNCATED), options).digest

    assert of(None) != of("rank-truncated")


# --- parts ----------------------------------------------------------------------------------


def test_target_is_opened_once_in_each_process(monkeypatch):
    cached_target.cache_clear()
    opened = []
    real = runner_module.open_target
    monkeypatch.setattr(runner_module, "open_target", lambda *a: opened.append(a) or real(*a))
    assert cached_target(TargetRequest("sim")) is cached_target(TargetRequest("sim"))
    assert opened == [(TargetRequest("sim"),)]
    cached_target.cache_clear()


def test_unknown_mutant_is_refused_before_anything_runs():
    with pytest.raises(ValueError, match="unknown mutant 'nope'"):
        make_spec(load(HOLDS).scenario, SimTarget(), profile_for("0.33.0"), "nope")


def test_accepted_miss_is_1_in_1000():
    assert math.isclose(MISS_ACCEPTED, 1 / 1000)


# --- what goes wrong beside the run ---------------------------------------------------------


def test_violation_stands_although_its_file_cannot_be_written(on, tmp_path):
    (tmp_path / "file").write_text("")
    result = on(Fixed(), FAILS, out=tmp_path / "file" / "sub")
    assert (result.status, result.failure_file) == ("violated", None)
    assert "Not a directory" in (result.failure_file_error or "")
    assert result.expectations[-1].status == "violated"


def test_violated_should_keeps_its_events_as_text(on, tmp_path):
    story = (
        "engines:\n  - {engine: 0, rules: [{on: utility, method: add_lora, do: {fail: boom}}]}\n"
        "steps:\n  - utility: {id: u, via: raw, method: add_lora, "
        "args: [[sql, 1, /x, null, false, false]], result: bool}\n"
        "  - finish: u\n  - expect: {op: u, outcome: failed}\n"
    )
    result = on(Fixed(), story, out=tmp_path)
    assert result.status == "held"
    lines = dict(result.should_lines)["engine.utility-effects-settled"]
    assert len(lines) == 2
    assert all(line.startswith("#") and "t=0" in line for line in lines)


def test_times_of_a_real_clock_count_from_the_start_of_the_run():
    played = perform(HOLDS)
    late = [msgspec.structs.replace(r, time_us=r.time_us + 6_000_000_000) for r in played.records]
    attempt = Attempt(dataclasses.replace(played, records=late), None, "")
    assert attempt.event_lines((0,))[0].startswith("#0  t=0.000s  ")


# --- the budget of a race ---------------------------------------------------------------------


def played_within(monkeypatch, budget, *, story=HOLDS, seconds=10.0):
    """How many trials a race gets, each of which takes ``seconds``."""
    target = Fixed("0.28.0", black_box=True, deterministic=False)
    now = [0.0]
    monkeypatch.setattr(runner_module.time, "monotonic", lambda: now[0])
    loaded = load("trials: {miss: 0.5}\n" + story)
    options = RunOptions(race_budget_s=budget)
    campaign = Campaign(loaded, options, target, profile_for("0.28.0"))
    played = 0
    for _ in campaign.attempts():
        played += 1
        now[0] += seconds
    return played


@pytest.mark.parametrize(("budget", "trials"), [(None, 10), (25.0, 3), (0.001, 1), (1000.0, 10)])
def test_race_gets_no_trial_after_its_budget_but_one(monkeypatch, budget, trials):
    assert played_within(monkeypatch, budget) == trials


def test_predicted_violation_is_looked_for_in_all_trials_whatever_the_budget(monkeypatch):
    known = "known:\n  - {invariant: expectation, fixed_in: 0.29.0, reason: r, link: vllm#2}\n"
    assert played_within(monkeypatch, 25.0, story=known + HOLDS) == 10


def test_budget_is_for_races_alone(monkeypatch):
    monkeypatch.setattr(runner_module.time, "monotonic", iter(range(10**6)).__next__)
    target = Fixed("0.28.0", black_box=True, deterministic=False)
    options = RunOptions(schedules=4, race_budget_s=1.0)
    campaign = Campaign(load(HOLDS), options, target, profile_for("0.28.0"))
    assert sum(1 for _ in campaign.attempts()) == 4
