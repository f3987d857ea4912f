"""Playing the fixed set: what is kept of a story, and what is said of one that is not played."""

from __future__ import annotations

import pytest

from client.protocol.profiles import RELEASES
from harness.capture.kinds import UNKNOWN, kind_of_frame
from harness.capture.recording import FROM_ENGINE, TO_ENGINE
from harness.capture.selecting import chosen_stories
from harness.capture.take import FAILED, PLAYED, SKIPPED, builtin_stories, take
from harness.scenario.selection import SelectionError
from harness.targets.base import StartFailed, TargetError
from harness.targets.request import TargetRequest


def test_a_story_keeps_messages_of_both_directions_and_the_trace(capture_of):
    (story,) = capture_of("0.31.0", "capture/12-waves").stories
    assert (story.status, story.release, story.reason) == (PLAYED, "0.31.0", "")
    assert {f.direction for f in story.frames} == {TO_ENGINE, FROM_ENGINE}
    assert {f.engine for f in story.frames} == {0, 1}
    names = [kind_of_frame(f).name for f in story.frames]
    for name in ("hello", "init", "registration", "ready-gate", "add", "start-dp-wave", "outputs"):
        assert name in names
    assert story.events[-1]["event"] == "RunEnded" or story.events[-1]["event"] == "ClientReleased"
    assert story.events[0]["time_us"] == 0


def test_every_message_of_the_fixed_set_is_recognised(capture_of):
    for release in (RELEASES[0], RELEASES[-1]):
        stories = capture_of(release).stories
        assert len([s for s in stories if s.status == PLAYED]) >= 8
        for story in stories:
            assert UNKNOWN not in [kind_of_frame(f).name for f in story.frames], story.id


def test_a_story_that_the_target_cannot_play_says_why(capture_of):
    (story,) = capture_of("0.33.0", "capture/14-admin-answers").stories
    assert (story.status, story.frames, story.events) == (SKIPPED, (), ())
    assert "op.http" in story.reason


def test_a_story_of_other_releases_says_to_which_it_applies(capture_of):
    (story,) = capture_of("0.33.0", "waves/stale-first-request").stories
    assert (story.status, story.reason) == (SKIPPED, "applies to <0.33")


def test_a_target_that_breaks_fails_its_story_and_the_others_go_on(monkeypatch):
    real = take.__globals__["_events"]

    def events(spec, target):
        if spec.scenario.title.startswith("The caller"):
            msg = "it fell over"
            raise TargetError(msg)
        return real(spec, target)

    monkeypatch.setattr("harness.capture.take._events", events)
    names = ["capture/03-leave", "capture/08-lora"]
    one, two = take(chosen_stories(names), TargetRequest("sim")).stories
    assert (one.status, one.reason) == (FAILED, "it fell over")
    assert two.status == PLAYED


def test_an_engine_that_is_to_vanish_stays_in_this_process(capture_of):
    (story,) = capture_of("0.33.0", "lifecycle/a-rank-vanishes").stories
    assert story.status == PLAYED
    assert {f.engine for f in story.frames} == {0, 1}


def test_the_fixed_set_is_chosen_by_default_and_mixes_with_scenarios():
    fixed = [story.id for story in builtin_stories()]
    assert [story.id for story in chosen_stories([])] == fixed
    assert [story.id for story in chosen_stories(["capture"])] == fixed
    names = ["waves/current-first-request", "capture/03-leave", "capture/03-leave"]
    assert [story.id for story in chosen_stories(names)] == names[:2]
    with pytest.raises(SelectionError, match="no story 'capture/3-leave'"):
        chosen_stories(["capture/3-leave"])


def test_a_frontend_that_never_gets_ready_is_given_up_after_three_stories(monkeypatch):
    calls = []

    def events(spec, _target):
        calls.append(spec)
        msg = f"the frontend ended with exit code 3 before it was ready; port {len(calls)}"
        raise StartFailed(msg)

    monkeypatch.setattr("harness.capture.take._events", events)
    stories = take(builtin_stories(), TargetRequest("sim")).stories
    statuses = [story.status for story in stories]
    assert (len(calls), statuses.count(FAILED), statuses.count(PLAYED)) == (3, 3, 0)
    assert stories[-1].reason == "the frontend never got ready in 3 starts, which failed alike"
