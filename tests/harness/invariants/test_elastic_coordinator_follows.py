"""elastic.coordinator-follows compares the coordinator with what it was told."""

from __future__ import annotations

from client.events import CoordinatorPublished, ScaleNoticeHandled, ScaleNoticeQueued
from harness.invariants.elastic_coordinator_follows import CoordinatorFollows
from harness.trace.events import Fenced, RunEnded, ScaleEnded, StepBegan
from tests.support.traces import END, held, judge, unexercised, violated

EXTERNAL = {"coordinator": "external", "transport": "bootstrapped"}
TOLD = (ScaleNoticeQueued(3), ScaleNoticeHandled(2, 3))
FINISHED = ScaleEnded("grow", 3, "finished", None, "")


def published(engines: int) -> CoordinatorPublished:
    return CoordinatorPublished(((0, 0, 0),) * engines, 1, False)


def verdict(*events, end=END, topology=EXTERNAL, **parts):
    return judge(CoordinatorFollows, *events, *end, topology=topology, **parts)


def test_coordinator_that_follows_holds():
    found = verdict(published(2), *TOLD, published(3), published(3), FINISHED)
    assert held(found)
    assert found.exercised == 3


def test_first_publish_may_be_of_the_step_before():
    assert held(verdict(*TOLD, published(2), published(3), FINISHED))


def test_publish_on_the_way_before_the_notice_is_handled_is_of_the_old_size():
    assert held(verdict(ScaleNoticeQueued(3), published(2), ScaleNoticeHandled(2, 3), FINISHED))


def test_coordinator_that_keeps_its_number_is_violated():
    assert violated(verdict(ScaleNoticeQueued(3), ScaleNoticeHandled(2, 2)), 0, 1)


def test_publish_of_another_number_is_violated():
    assert violated(verdict(*TOLD, published(3), published(2)), 0, 3)


def test_publish_of_the_wave_state_alone_says_nothing_of_engines():
    assert held(verdict(*TOLD, CoordinatorPublished(None, 1, False)))


def test_size_that_was_never_told_is_violated():
    found = verdict(FINISHED)
    assert violated(found, 0, 2)
    assert found.seen == "never told of a size"


def test_change_to_the_first_number_needs_no_notice():
    assert held(verdict(ScaleEnded("same", 2, "finished", None, "")))


def test_failed_change_and_a_run_without_its_last_fence_are_left_out():
    failed = ScaleEnded("grow", 3, "failed", "ScaleRefused", "")
    assert unexercised(verdict(failed))
    assert unexercised(verdict(FINISHED, end=(Fenced("step"), RunEnded(()))))


def test_restarted_coordinator_is_left_out():
    steps = [{"coordinator": {"stop": True}}, {"coordinator": {"start": True}}]
    began = (StepBegan(0, "coordinator"), StepBegan(1, "coordinator"))
    assert unexercised(verdict(*began, FINISHED, steps=steps))


def test_coordinator_inside_the_frontend_and_a_black_box_are_not_judged():
    assert unexercised(verdict(FINISHED, topology={"coordinator": "in-process"}))
    found = judge(CoordinatorFollows, FINISHED, *END, topology=EXTERNAL, black=True)
    assert found.verdict == "not_judged"
    assert "see.client-events" in found.reason


def test_coordinator_that_is_restarted_between_two_changes_is_left_out_from_then_on():
    steps = [{"coordinator": {"stop": True}}]
    other = (ScaleNoticeQueued(4), ScaleNoticeHandled(3, 2))
    found = verdict(*TOLD, StepBegan(0, "coordinator"), *other, steps=steps)
    assert held(found)
    assert found.exercised == 1
    assert violated(verdict(*TOLD, *other), 2, 3)


def test_notice_that_nobody_is_known_to_have_sent_is_not_judged():
    assert unexercised(verdict(ScaleNoticeHandled(2, 5)))
