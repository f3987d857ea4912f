"""Whatever a scenario file can say is generated, or left out for a reason that is written down."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import BaseModel

from harness.generate.behaving import engines
from harness.generate.drafts import Can
from harness.generate.fields import of_model
from harness.generate.themes import THEMES
from harness.generate.words import EXCLUDED, HEAD_EXCLUDED, HINTS
from harness.scenario import model as scenario
from harness.scenario.model import Scenario
from mock_engines.behaviours import model as behaviours
from tests.support.generated import scenarios

OF_EXPECT = (scenario.Expect, scenario.CountExpect, scenario.ProcessExpect, scenario.EventMatch)
"""Models of what is excluded as a whole."""
OF_THE_HEAD = (scenario.Known, scenario.Measured, scenario.Trials)
DRAWN_TOGETHER = (scenario.Scenario, behaviours.EngineSpec, behaviours.Rule)
"""Models that have a test of their own here."""
UNDRAWN = (*OF_EXPECT, *OF_THE_HEAD, scenario.WaitStep, scenario.SampleStep)
BATCHES_MAX = 300
MANY = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def models(root: type[BaseModel], found: list[type[BaseModel]]) -> list[type[BaseModel]]:
    """Every model that is reached from one, itself included."""
    if root not in found:
        found.append(root)
        for info in root.model_fields.values():
            for inner in _inner(info.annotation):
                models(inner, found)
    return found


def _inner(hint: Any) -> Iterator[type[BaseModel]]:
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        yield hint
    for one in typing.get_args(hint):
        yield from _inner(one)


REACHED = [m for m in models(scenario.Scenario, []) if m not in UNDRAWN]


def test_every_key_of_the_head_is_drawn_or_excluded_with_a_reason() -> None:
    drawn = {"profiles", "topology", "engines", "steps"}
    assert drawn | set(HEAD_EXCLUDED) == set(scenario.Scenario.model_fields)
    assert not drawn & set(HEAD_EXCLUDED)
    assert all(HEAD_EXCLUDED.values())


def test_exclusions_name_fields_that_exist_and_give_a_reason() -> None:
    for (model, name), reason in EXCLUDED.items():
        assert name in model.model_fields
        assert reason


@pytest.mark.parametrize(
    "model",
    [m for m in REACHED if m not in DRAWN_TOGETHER],
    ids=lambda model: model.__name__,
)
def test_every_field_of_a_model_is_drawn_or_excluded(model: type[BaseModel]) -> None:
    seen: set[str] = set()

    @MANY
    @given(of_model(model, HINTS))
    def draw(data: dict[str, Any]) -> None:
        seen.update(data)

    draw()
    due = {name for name in model.model_fields if HINTS.has(model, name)}
    assert seen == due


def test_every_field_of_engines_and_their_rules_is_drawn_or_excluded() -> None:
    entries: set[str] = set()
    rules: set[str] = set()

    @MANY
    @given(engines(THEMES["everything"]))
    def draw(entry: dict[str, Any]) -> None:
        entries.update(entry)
        for rule in entry["rules"]:
            rules.update(rule)

    draw()
    spec = behaviours.EngineSpec
    assert entries == {name for name in spec.model_fields if HINTS.has(spec, name)}
    assert rules == set(behaviours.Rule.model_fields)


def test_every_verb_and_every_action_ends_up_in_a_valid_scenario(everything: Can) -> None:
    verbs: set[str] = set()
    actions: set[str] = set()
    left_out = {name for (model, name) in EXCLUDED if model is scenario.Step} - {"wait", "connect"}
    every = set(scenario.Step.model_fields) - left_out
    every_action = set(behaviours.Action.model_fields) - {
        name for (model, name) in EXCLUDED if model is behaviours.Action
    }

    def take(made: Scenario) -> None:
        verbs.update(step.verb for step in made.steps)
        for spec in made.engines:
            actions.update(action.verb for rule in spec.rules for action in rule.do)
        for step in made.steps:
            if step.engine is not None:
                actions.update(action.verb for action in step.engine.do)

    for number in range(BATCHES_MAX):
        for made in scenarios(everything, number):
            take(made)
        if verbs == every and actions == every_action:
            break
    assert verbs == every
    assert actions == every_action
