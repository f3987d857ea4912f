"""Captures of real frontends: equal on one release, different where releases are."""

from __future__ import annotations

import pytest

from harness.capture.compare import compare
from harness.capture.kinds import UNKNOWN, kind_of_frame
from harness.capture.selecting import chosen_stories
from harness.capture.take import PLAYED, take
from harness.targets.request import TargetRequest
from harness.targets.vllm_rs.fetch import available

pytestmark = [pytest.mark.vllm_rs, pytest.mark.zmq]
STORIES = ("capture/01-generate", "capture/12-waves")


def capture_of(release):
    if available(release) is None:
        pytest.skip(f"no binary of the frontend {release}")
    capture = take(chosen_stories(STORIES), TargetRequest("vllm-rs", frontend=release))
    assert [(story.status, story.reason) for story in capture.stories] == [(PLAYED, "")] * 2
    for story in capture.stories:
        assert UNKNOWN not in [kind_of_frame(frame).name for frame in story.frames]
    return capture


def test_two_captures_of_a_release_are_equal_but_for_ids_times_and_ports():
    assert compare(capture_of("0.33.0"), capture_of("0.33.0")).is_empty


def test_the_frontend_starts_waves_up_to_0_32_and_not_in_0_33():
    difference = compare(capture_of("0.32.0"), capture_of("0.33.0"))
    (one, two) = difference.order
    assert (one.story, one.socket) == ("capture/12-waves", "coordinator-input")
    assert [line for line in one.lines if line.startswith("-")] == [
        "-START_DP_WAVE wave 0 exclude 0",
        "-START_DP_WAVE wave 1 exclude 1",
    ]
    assert {one.engine, two.engine} == {0, 1}
    assert difference.answers == ()
