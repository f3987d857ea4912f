"""lockstep.counts-converge compares what is told of load with what there is."""

from __future__ import annotations

import pytest
from packaging.version import Version

from client.events import CoordinatorPublished
from harness.invariants.base import Judge, RunContext
from harness.invariants.lockstep_counts_converge import CountsConverge
from harness.trace.events import Fenced, Record, Snapshot, StepBegan
from mock_engines.events import EngineIdle, GroupSwitched, RawSent
from tests.support.lockstep import IDLE, JOINED, born, counts, moved, stuck, verdict
from tests.support.traces import WHITE, held, scenario, unexercised, violated

BEGIN = (*JOINED, *born())
FENCED = (*IDLE, Fenced("step"))
EXTERNAL = {"coordinator": "external", "transport": "bootstrapped"}


def judge(*events, **parts):
    return verdict(CountsConverge, *BEGIN, *events, **parts)


def published(*rows):
    """Waiting and running, of each engine."""
    return CoordinatorPublished(tuple((*row, 0.0) for row in rows), 0, True)


def external(*events, **parts):
    return judge(*events, topology=EXTERNAL, **parts)


def test_counts_that_end_at_nothing_hold():
    found = judge(counts(0, 1), counts(0), *FENCED, black=True)
    assert held(found)
    assert found.exercised == 1


def test_counts_that_stay_are_violated():
    found = judge(counts(0, 0, 1), counts(0, 1), *FENCED, black=True)
    assert violated(found, 5, 8)
    assert (found.expected, found.seen) == (
        "running + waiting == 0",
        "1 running, 0 waiting (event 5)",
    )


def test_request_that_was_never_counted_is_violated():
    looked = (EngineIdle(0, ("a",)), IDLE[1], Fenced("step"))
    assert violated(judge(*looked), 6)


def test_rank_that_is_paused_reports_nothing_of_its_queue():
    paused = moved(0, pause="all", ignores_starts=True)
    looked = (EngineIdle(0, ("a",)), IDLE[1], Fenced("step"))
    assert unexercised(judge(paused, *looked))


def test_requests_that_a_frontend_has_in_flight_are_those_that_engines_have():
    paused = moved(0, pause="all", ignores_starts=True)
    looked = (EngineIdle(0, ("a",)), IDLE[1])
    right = Snapshot("end", ("a",), (), ((0, 1), (1, 0)), 0, False)
    wrong = Snapshot("end", (), (), ((0, 0), (1, 0)), 0, False)
    assert held(judge(counts(1), paused, *looked, right, Fenced("end")))
    assert violated(judge(counts(1), paused, *looked, wrong, Fenced("end")), 8, 9)


@pytest.mark.parametrize("odd", [stuck((0, "forward")), JOINED[1]])
def test_ranks_that_hang_or_came_back_are_not_judged(odd):
    assert unexercised(judge(counts(0, 1), *IDLE, odd, Fenced("step")))


def test_counts_on_the_way_of_outputs_are_of_no_account():
    assert unexercised(judge(RawSent(0, "main", ()), *FENCED))


def test_published_counts_in_the_order_of_the_reports_hold():
    reports = (counts(0, 0, 1), counts(0, 1, 0), counts(0))
    found = external(*reports, published((1, 0), (0, 0)), published((0, 0), (0, 0)))
    assert held(found)
    assert found.exercised == 2


def test_counts_of_nothing_before_the_first_report_hold():
    assert held(external(counts(0, 0, 1), published((0, 0), (0, 0)), published((1, 0), (0, 0))))


def test_published_counts_that_go_back_are_violated():
    reports = (counts(0, 0, 1), counts(0, 1, 0))
    back = (published((0, 1), (0, 0)), published((1, 0), (0, 0)))
    found = external(*reports, back[0], counts(1), back[1])
    assert violated(found, 5, 8)
    assert "reported at event 5 or later" in found.expected


def test_published_counts_that_nobody_reported_are_violated():
    assert violated(external(counts(0, 0, 1), published((7, 7), (0, 0))), 4, 5)


def test_report_that_is_left_out_of_two_publishes_is_violated():
    stays = published((1, 0), (0, 0))
    found = external(counts(0, 0, 1), counts(0, 1, 0), stays, stays)
    assert violated(found, 5, 7)
    assert found.seen == "engine 0: 0 running, 1 waiting at event 7"
    fresh = published((0, 1), (0, 0))
    assert held(external(counts(0, 0, 1), counts(0, 1, 0), stays, fresh, fresh))


def test_black_box_shows_no_publish_and_so_is_judged_at_fences_only():
    assert unexercised(external(counts(0, 0, 1), black=True))
    assert violated(external(counts(0, 0, 1), *FENCED, black=True), 4, 7)


def test_coordinator_that_speaks_by_script_is_not_judged():
    steps = [{"coordinator": {"publish": [[[7, 7, 0.0]], 3, True]}}]
    told = (StepBegan(0, "coordinator"), counts(0, 0, 1), published((7, 7), (0, 0)))
    assert unexercised(external(*told, steps=steps))


def test_rank_that_left_and_returned_has_reported_nothing_yet():
    told = (counts(1, 2), published((0, 0), (0, 2)))
    left = GroupSwitched(0, (0, 1), (0,), False, 1, 0)
    back = GroupSwitched(1, (0,), (0, 1), False, 1, 0)
    fresh = published((0, 0), (0, 0))
    assert violated(external(*told, fresh), 4, 6)
    assert held(external(*told, left, back, fresh))


def test_registry_of_one_of_two_frontends_is_not_compared_with_what_engines_have():
    paused = moved(0, pause="all", ignores_starts=True)
    looked = (EngineIdle(0, ("a",)), IDLE[1])
    other = Snapshot("end", (), (), ((0, 0), (1, 0)), 0, False)
    two = {**EXTERNAL, "frontends": 2}
    assert held(judge(counts(1), paused, *looked, other, Fenced("end"), topology=two))


def test_old_counts_are_published_for_longer_where_time_is_real():
    old = (counts(0, 1), counts(0), *[published((0, 1), (0, 0))] * 3)
    assert violated(external(*old), 5, 7)
    topology = {"engines": 2, "ranks": [0, 1], "waves": "lockstep", **EXTERNAL}
    timeless = WHITE - {"world.virtual-time"}
    story = RunContext(scenario(topology=topology), Version("0.33.0"), timeless, (0, 1))
    judging = Judge([CountsConverge], story)
    for seq, event in enumerate((*BEGIN, *old)):
        judging.feed(Record(seq, seq, event))
    (found,) = judging.verdicts()
    assert held(found)
    assert found.exercised == 3
