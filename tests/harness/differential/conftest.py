"""Sources of a release; skipped with the reason where they cannot be had."""

from __future__ import annotations

import functools

import pytest

from client.protocol.profiles import profile_for
from harness.differential.breaks import BREAKS
from harness.differential.play import Sides
from harness.differential.sides import ModelMeeting, ModelRank, rules_for
from harness.targets.base import TargetError
from harness.targets.vllm_py import sources
from mock_engines.lockstep.rules import rules_of


@functools.cache
def tree_or_reason(release):
    try:
        return sources.resolve(release)
    except TargetError as error:
        return f"no sources of vLLM {release}: {str(error).splitlines()[0]}"


@pytest.fixture
def tree():
    """Return ``tree(release)``."""

    def get(release):
        found = tree_or_reason(release)
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return get


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
