"""Captures of the reference client, which take a moment each."""

from __future__ import annotations

import functools

import pytest

from harness.capture.selecting import chosen_stories
from harness.capture.take import take
from harness.targets.request import TargetRequest


@functools.cache
def captured(release, *names):
    return take(chosen_stories(names), TargetRequest("sim", profile=release))


@pytest.fixture
def capture_of():
    """Captures stories of a release on ``sim``, once in a session."""
    return captured
