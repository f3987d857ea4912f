"""Sources of a release; skipped with the reason where they cannot be had."""

from __future__ import annotations

import pytest

from client.protocol.profiles import profile_for
from harness.differential.breaks import BREAKS
from harness.differential.play import Sides
from harness.differential.sides import ModelMeeting, ModelRank, rules_for
from mock_engines.lockstep.rules import rules_of
from tests.support.wheel_sources import tree

__all__ = ["tree"]
"""Fixtures that live elsewhere."""


@pytest.fixture
def model_twice():
    """Return ``model_twice(release, broken)``: the model on both sides, one of them broken."""

    def make(release, broken):
        rules = rules_of(profile_for(release))
        wrong = BREAKS[broken]
        return Sides(
            model=lambda n, case: ModelRank(
                n, case, wrong.rules(rules_for(case, rules)), wrong.rank
            ),
            oracle=lambda n, case, _meeting: ModelRank(n, case, rules_for(case, rules)),
            model_meeting=ModelMeeting,
            oracle_meeting=ModelMeeting,
        )

    return make
