"""What a hunt plays, in which order, and what it makes of the results."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.cli.hunting import Hunt, Limits
from harness.hunting.hunt import hunt
from harness.hunting.plan import Candidate, candidates, release_for
from harness.hunting.prey import (
    CRASHED,
    KILLED,
    NOT_RUN,
    OTHERS_ONLY,
    SURVIVED,
    UNSOUND,
    Bag,
    Hunted,
    Prey,
    without_killer,
)
from harness.mutants import find_mutant
from harness.reports.hunt import hunt_document, hunt_lines, hunt_summary
from harness.results import ExpectationResult, VerdictResult
from harness.runner import RunOptions
from harness.scenario import selection
from harness.scenario.model import Expect, Step
from harness.targets.client_frontend import CAPABILITIES
from harness.verdict import ExitCode

MUTANT = find_mutant("rank-truncated")
OWN = MUTANT.killed_by


def loaded(*names):
    return selection.load_all(selection.select(list(names)))


def result(
    scenario, options, *violated, status="held", held=(), schedules=1, error=None, control="held"
):
    verdicts = [VerdictResult(name, "must", "violated", exercised=1) for name in violated]
    verdicts += [VerdictResult(name, "must", "held", exercised=1) for name in held]
    return Hunted(
        control=control if OWN in violated else None,
        scenario=scenario,
        title="t",
        refs=("r",),
        profile=options.profile or "",
        mutant=options.mutant,
        status="violated" if violated else status,
        verdicts=tuple(verdicts),
        schedules=schedules,
        strategy=options.strategy,
        error=error,
    )


# --- the plan -------------------------------------------------------------------------------


def test_scenarios_that_name_the_invariant_come_first_then_its_chapter():
    found = candidates(
        MUTANT,
        loaded("requests/stream-to-the-end", "routing/explicit-rank", "routing/repeated-rank",
               "routing/stats-move-requests-away"),
        CAPABILITIES,
    )  # fmt: skip
    assert [each.scenario for each in found] == [
        "routing/explicit-rank",
        "routing/repeated-rank",
        "routing/stats-move-requests-away",
        "requests/stream-to-the-end",
    ]


def test_scenario_is_played_in_the_newest_release_that_shows_the_fault():
    (scenario,) = loaded("lifecycle/engine-core-dead")
    rewinds, weighs = find_mutant("coordinator-rewinds"), find_mutant("waiting-not-weighted")
    assert release_for(MUTANT, scenario.scenario).release == "0.33.0"
    assert release_for(rewinds, scenario.scenario).release == "0.32.0"
    assert release_for(weighs, scenario.scenario).release == "0.26.0"


def test_scenario_is_not_played_in_a_release_whose_own_rules_break_its_promise():
    always, once = loaded("lockstep/paused-twice", "lockstep/left-before-the-first-step")
    assert release_for(MUTANT, always.scenario) is None
    assert release_for(MUTANT, once.scenario).release == "0.33.0"
    assert release_for(find_mutant("coordinator-rewinds"), once.scenario) is None


def test_scenario_of_releases_without_the_part_is_no_candidate():
    only_new = loaded("waves/only-engines-start-waves")
    assert only_new[0].scenario.profiles == ">=0.33"
    assert candidates(find_mutant("coordinator-rewinds"), only_new, CAPABILITIES) == []


def test_scenario_beyond_the_target_is_no_candidate():
    assert candidates(MUTANT, loaded("surfaces/grpc-lora"), CAPABILITIES) == []


# --- the verdict ----------------------------------------------------------------------------


def seen(*violated, **more):
    return result("a/b", RunOptions(profile="0.33.0"), *violated, **more)


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([seen(OWN)], KILLED),
        ([seen(OWN, "utility.aggregation")], KILLED),
        ([seen("utility.aggregation"), seen(OWN)], KILLED),
        ([seen(OWN, control="violated")], UNSOUND),
        ([seen(OWN, control="not_judged")], UNSOUND),
        ([seen("utility.aggregation")], OTHERS_ONLY),
        ([seen(status="error", error="broke")], CRASHED),
        ([seen(status="error", error="broke"), seen("utility.aggregation")], OTHERS_ONLY),
        ([seen()], SURVIVED),
    ],
)
def test_status_of_a_mutant_follows_from_what_was_seen(results, status):
    prey = Prey(MUTANT, complete=True)
    for each in results:
        prey = prey.with_result(each)
    assert prey.status == status
    assert Bag((prey,)).code == (ExitCode.OK if status == KILLED else ExitCode.VIOLATION)
    assert Bag((prey,), interrupted=True).code == ExitCode.INTERRUPTED


def test_failed_expectation_alone_is_no_kill():
    failed = replace(
        seen(), status="violated", expectations=(ExpectationResult(1, "violated", "x", "y"),)
    )
    prey = replace(Prey(MUTANT).with_result(failed), complete=True)
    assert prey.status == OTHERS_ONLY
    assert prey.kills[0].violated == ("expectation",)


def test_invariants_that_killed_nothing_of_theirs_are_named():
    killed = replace(Prey(MUTANT).with_result(seen(OWN)), complete=True)
    assert without_killer([killed], [OWN, "wave.never-rewinds"]) == ("wave.never-rewinds",)


# --- the hunt -------------------------------------------------------------------------------


NAMES = ("routing/explicit-rank", "routing/repeated-rank", "requests/stream-to-the-end")


def hunted(answer, *, full=False, schedules=1):
    """One hunt in which ``answer(scenario, options)`` gives each result; and what was played."""
    played = []

    def work(one, options):
        played.append((one.id, options.strategy))
        return answer(one.id, options)

    found = [Candidate(one, "0.33.0") for one in loaded(*NAMES)]
    limits = Limits(
        options=RunOptions(), schedules=schedules, strategy="auto", processes=1, full=full
    )
    bag = Hunt([(MUTANT, found)], limits, work=work).run()
    return bag.prey[0], played


def test_hunt_stops_at_the_first_kill():
    prey, played = hunted(lambda name, options: result(name, options, *[OWN] * (name == NAMES[1])))
    assert prey.status == KILLED
    assert prey.by_fifo
    assert played == [(NAMES[0], "fifo"), (NAMES[1], "fifo")]


def test_full_hunt_plays_every_scenario():
    prey, played = hunted(lambda name, options: result(name, options, OWN), full=True)
    assert [name for name, how in played if how == "fifo"] == list(NAMES)
    assert [kill.scenario for kill in prey.kills] == list(NAMES)


def test_hunt_searches_where_the_invariant_had_something_to_judge():
    def answer(name, options):
        if options.strategy == "auto":
            return result(name, options, OWN, schedules=7)
        return result(name, options, held=[OWN] * (name == NAMES[2]))

    prey, played = hunted(answer, schedules=200)
    assert prey.status == KILLED
    assert not prey.by_fifo
    assert prey.killer.schedules == 7
    assert [name for name, how in played if how == "auto"] == [NAMES[2]]


def test_hunt_for_fifo_alone_searches_nothing():
    prey, played = hunted(lambda name, options: result(name, options))
    assert prey.status == SURVIVED
    assert {how for _, how in played} == {"fifo"}


def test_interruption_keeps_what_was_known():
    def answer(name, options):
        if name == NAMES[1]:
            raise KeyboardInterrupt
        return result(name, options)

    prey, _ = hunted(answer)
    assert prey.status == NOT_RUN
    assert prey.scenarios == 1


def test_interruption_keeps_a_kill():
    def answer(name, options):
        if name == NAMES[1]:
            raise KeyboardInterrupt
        return result(name, options, OWN)

    prey, _ = hunted(answer, full=True)
    assert prey.status == KILLED


# --- one scenario ---------------------------------------------------------------------------


def test_kill_is_played_without_the_mutant():
    (one,) = loaded("routing/rank-is-never-truncated")
    options = RunOptions(mutant="rank-truncated", profile="0.33.0")
    assert hunt(one, options).control == "held"
    (other,) = loaded("routing/explicit-rank")
    assert hunt(other, options).control is None


def test_scenario_that_is_violated_without_the_mutant_too_is_told_so():
    (one,) = loaded("routing/rank-is-never-truncated")
    text = one.scenario.model_copy(deep=True)
    wrong = Expect(op=text.steps[0].call.id, outcome="cancelled")
    text.steps.append(Step(expect=wrong))
    options = RunOptions(mutant="rank-truncated", profile="0.33.0")
    found = hunt(replace(one, scenario=text), options)
    assert found.control == "violated"
    assert replace(Prey(MUTANT).with_result(found), complete=True).status == UNSOUND


# --- the report -----------------------------------------------------------------------------


def bag_of(*statuses):
    made = {
        KILLED: replace(Prey(MUTANT).with_result(seen(OWN)), complete=True),
        SURVIVED: Prey(MUTANT, complete=True, scenarios=3, schedules=203),
        CRASHED: replace(
            Prey(MUTANT).with_result(seen(status="error", error="StartFailed: x\ny")),
            complete=True,
        ),
        OTHERS_ONLY: replace(Prey(MUTANT).with_result(seen("wave.never-rewinds")), complete=True),
        NOT_RUN: Prey(MUTANT),
    }
    fifo = replace(made[KILLED].kills[0], strategy="auto", schedules=52)
    made["searched"] = replace(made[KILLED], kills=(fifo,))
    return Bag(tuple(made[status] for status in statuses))


def test_report_lists_what_fifo_kills_apart_from_what_a_search_kills():
    text = "\n".join(hunt_lines(bag_of(KILLED, "searched")))
    by_fifo, by_search = text.split("killed by a search")
    assert "killed by FIFO alone (1):" in by_fifo
    assert "a/b (52)" in by_search
    summary = hunt_summary(bag_of(KILLED, "searched"))
    assert summary == "2 mutants: 2 killed (1 by FIFO alone); exit 0"


def test_report_says_of_each_mutant_that_lives_why():
    text = "\n".join(hunt_lines(bag_of(SURVIVED, CRASHED, OTHERS_ONLY, NOT_RUN)))
    assert "survived (1): everything held" in text
    assert f"rank-truncated: {OWN} is not violated in 203 schedules of 3 scenarios" in text
    assert "a/b: StartFailed: x" in text
    assert "a/b: wave.never-rewinds" in text
    assert "not-run (1)" in text
    summary = hunt_summary(bag_of(SURVIVED, CRASHED))
    assert summary == "2 mutants: 0 killed (0 by FIFO alone), 1 survived, 1 crashed; exit 1"


def test_document_names_the_mutants_that_each_invariant_kills():
    document = hunt_document(
        bag_of(KILLED), [OWN, "wave.never-rewinds"], strategy="auto", schedules=200, seed=7
    )
    assert document["invariants"] == [
        {"id": OWN, "kills": ["rank-truncated"]},
        {"id": "wave.never-rewinds", "kills": []},
    ]
    (mutant,) = document["mutants"]
    assert (mutant["family"], mutant["status"]) == ("routing", KILLED)
    assert mutant["killer"]["violated"] == [OWN]
    assert document["summary"]["killed"] == 1
    assert document["summary"]["exit"] == 0
