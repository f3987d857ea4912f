"""Stories about engines that step together leave out what strands them by design."""

from __future__ import annotations

import pytest

from harness.generate import together
from harness.generate.drafts import Can
from harness.scenario.model import Scenario
from tests.support.generated import scenarios

BATCHES = range(40)


def made(can: Can) -> list[Scenario]:
    every = [one for number in BATCHES for one in scenarios(can, number)]
    return [one for one in every if one.topology.waves == together.LOCKSTEP]


def test_some_stories_are_about_engines_that_step_together(everything: Can) -> None:
    found = made(everything)
    assert len(found) > 20
    assert any(
        together.MOVING & {s.utility.method for s in one.steps if s.utility} for one in found
    )
    assert any(step.cancel for one in found for step in one.steps)


def test_no_message_is_lost_and_no_engine_dies(everything: Can) -> None:
    for one in made(everything):
        assert {step.verb for step in one.steps} <= together.VERBS | together.MORE_VERBS | {"wait"}
        actions = [a for spec in one.engines for rule in spec.rules for a in rule.do]
        assert {action.verb for action in actions} <= together.ANSWERS
        assert not any(action.hang is True for action in actions)
        assert 0 in one.topology.rank_list


def test_no_call_takes_the_id_of_another(everything: Can) -> None:
    calls = [s.call for one in made(everything) for s in one.steps if s.call is not None]
    assert calls
    assert not [call for call in calls if call.request_id is not None]


def test_calls_of_all_ranks_are_waited_for_one_by_one(everything: Can) -> None:
    for one in made(everything):
        steps = list(one.steps)
        for number, step in enumerate(steps):
            if step.utility is not None and step.utility.method in together.MOVING:
                assert steps[number + 1].finish == [step.utility.id]


def test_nobody_leaves_where_engines_up_to_0_32_would_strand(everything: Can) -> None:
    old = Can(everything.capabilities, "0.32.0")
    for one in made(old):
        assert not [step for step in one.steps if step.verb in together.LEAVES]
    assert all(one.profiles == ">=0.33.0" for one in made(everything))


@pytest.mark.parametrize(
    ("actions", "left"),
    [
        ([{"drop": True}], [{"default": True}]),
        ([{"hang": True}, {"default": True}], [{"default": True}]),
        (
            [{"hang": "g"}, {"stream": {"tokens": 2, "gate": "h", "finish": None}}],
            [{"hang": "g"}, {"stream": {"tokens": 2}}],
        ),
        ([{"output": {"tokens": [1]}}], [{"default": True}]),
    ],
)
def test_actions_end_with_what_the_engine_would_do_anyway(actions, left) -> None:
    assert together.actions(actions, "add") == left
