"""Checks of behaviours: actions go with what they are told for, predicates name fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness.scenario.finding import Finding
from harness.scenario.model import Scenario
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of
from mock_engines.behaviours.model import Action, EngineSpec, Rule
from mock_engines.behaviours.registry import action_problem, fields_of
from mock_engines.matching import Kind


def check_engines(scenario: Scenario) -> Iterator[Finding]:
    """What an engine could not do is found before anything runs."""
    yield from check_specs(scenario.engines, ("engines",))
    for i, step in enumerate(scenario.steps):
        if step.engine is not None:
            yield from _actions(("steps", i, "engine", "do"), step.engine.do, "act")


def check_specs(specs: Iterable[EngineSpec], base: Path) -> Iterator[Finding]:
    """The same for a list of engine entries at ``base`` of a file."""
    for i, spec in enumerate(specs):
        for j, rule in enumerate(spec.rules):
            yield from _rule((*base, i, "rules", j), rule)


def _rule(path: Path, rule: Rule) -> Iterator[Finding]:
    fields = fields_of(rule.on)
    for name in rule.where:
        if name not in fields:
            yield Finding(
                (*path, "where", name),
                f"message '{rule.on}' has no field '{name}'",
                one_of(fields),
                did_you_mean(name, fields),
            )
    yield from _actions((*path, "do"), rule.do, rule.on)


def _actions(path: Path, actions: Sequence[Action], kind: Kind) -> Iterator[Finding]:
    for place, action in enumerate(actions):
        if (problem := action_problem(action, kind)) is not None:
            yield Finding((*path, place), problem)
