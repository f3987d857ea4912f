"""Recordings of our own client, through the proxy and without it."""

from __future__ import annotations

import pytest

from client.protocol.profiles import profile_for
from harness.capture.selecting import chosen_stories
from harness.capture.take import PLAYED, take
from harness.recording.skeleton import Skeleton
from harness.runner import RunOptions, run_scenario
from harness.scenario.loader import load
from harness.targets.request import TargetRequest


@pytest.fixture
def frames_of():
    """Messages of some scenarios on ``sim``: ``frames_of(release, *names)``."""

    def take_all(release, *names):
        capture = take(chosen_stories(names), TargetRequest("sim", profile=release))
        played = [story for story in capture.stories if story.status == PLAYED]
        return {story.id: story.frames for story in played}

    return take_all


@pytest.fixture
def skeleton_of(tmp_path):
    """Make and load the scenario of some messages: the loaded file and the skeleton."""

    def make(frames, release, name="scenario"):
        skeleton = Skeleton(frames, profile_for(release))
        path = tmp_path / f"{name.replace('/', '-')}.yaml"
        path.write_text(skeleton.text(["recorded"]))
        return load(path), skeleton

    return make


@pytest.fixture
def played():
    """Play a loaded scenario on ``sim``."""
    return lambda loaded: run_scenario(loaded, RunOptions())
