"""Checks of behaviours: actions go with what they are told for, predicates name fields."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import get_type_hints

from client.protocol.profiles import RELEASES, profile_for
from harness.scenario.checks_actions import check_action, check_join
from harness.scenario.checks_values import check_where
from harness.scenario.finding import Finding
from harness.scenario.model import Scenario
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of
from mock_engines.behaviours.model import Action, EngineSpec, Rule
from mock_engines.behaviours.registry import action_problem, fields_of
from mock_engines.matching import EVENT_OF, Kind
from mock_engines.utilities import known_methods

_WILDCARDS = frozenset("*?[")


@cache
def utility_methods() -> tuple[str, ...]:
    """Methods that the engines of some release answer, sorted."""
    return tuple(sorted({m for release in RELEASES for m in known_methods(profile_for(release))}))


def called_methods(scenario: Scenario) -> set[str]:
    """Methods that the steps of a scenario call; such a one need not be known to any engine."""
    return {step.utility.method for step in scenario.steps if step.utility is not None}


def unknown_method(path: Path, method: str, called: Collection[str]) -> Iterator[Finding]:
    """A method that nothing can ever have called would match nothing, without a word."""
    if _WILDCARDS.isdisjoint(method) and method not in called and method not in utility_methods():
        choices = [*utility_methods(), *sorted(called)]
        yield Finding(
            path,
            f"no engine has a utility method '{method}', and no step calls one",
            "a method of the engines, one that a step calls, or a pattern with *",
            did_you_mean(method, choices),
        )


def check_engines(scenario: Scenario) -> Iterator[Finding]:
    """What an engine could not do is found before anything runs."""
    yield from check_specs(scenario.engines, ("engines",))
    called = called_methods(scenario)
    for path, method in _methods(scenario.engines, ("engines",)):
        yield from unknown_method(path, method, called)
    for i, step in enumerate(scenario.steps):
        if step.engine is not None:
            yield from _actions(("steps", i, "engine", "do"), step.engine.do, "act")
    yield from _requests(scenario)


def _requests(scenario: Scenario) -> Iterator[Finding]:
    """A request of no step may be meant (a stranger's); one that is nearly a step's is misspelt.

    Whoever means it writes the id as on the wire, or a pattern.
    """
    calls = [step.call for step in scenario.steps if step.call is not None]
    names = [name for call in calls for name in (call.id, call.request_id) if name is not None]
    for path, name in _named_requests(scenario):
        if name in names or not _WILDCARDS.isdisjoint(name):
            continue
        if help_text := did_you_mean(name, names):
            yield Finding(path, f"no call step has the id '{name}'", one_of(names), help_text)


def _named_requests(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    for i, spec in enumerate(scenario.engines):
        for j, rule in enumerate(spec.rules):
            base: Path = ("engines", i, "rules", j)
            if rule.request is not None:
                yield (*base, "request"), rule.request
            yield from _outputs((*base, "do"), rule.do)
    for i, step in enumerate(scenario.steps):
        if step.engine is not None:
            yield from _outputs(("steps", i, "engine", "do"), step.engine.do)


def _outputs(base: Path, actions: Sequence[Action]) -> Iterator[tuple[Path, str]]:
    for i, action in enumerate(actions):
        if action.output is not None and action.output.request is not None:
            yield (*base, i, "output", "request"), action.output.request


def check_behaviour(specs: Sequence[EngineSpec], base: Path, ranks: range) -> Iterator[Finding]:
    """The same for engines that run without a scenario, at ``ranks``.

    Any frontend may be at the other end, with methods of its own; so a method that nobody knows
    is refused only where a known one is near.
    """
    yield from check_specs(specs, base)
    for path, method in _methods(specs, base):
        yield from (found for found in unknown_method(path, method, ()) if found.help)
    for i, spec in enumerate(specs):
        for path, rank in named_engines((*base, i, "engine"), spec.engine):
            if rank not in ranks:
                there = f"rank {ranks[0]}" if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
                yield Finding(
                    path, f"engine {rank} does not take part", f"{there} (--start-rank, --engines)"
                )


def check_specs(specs: Iterable[EngineSpec], base: Path) -> Iterator[Finding]:
    """Rules say what can be done, and match by what there is."""
    for i, spec in enumerate(specs):
        if isinstance(spec.engine, list) and len(set(spec.engine)) != len(spec.engine):
            yield Finding((*base, i, "engine"), "a rank stands twice in the list")
        if spec.engine == []:
            yield Finding((*base, i, "engine"), "the list names no engine", "a rank, or all")
        yield from check_join((*base, i, "join"), spec.join)
        for j, rule in enumerate(spec.rules):
            yield from _rule((*base, i, "rules", j), rule)


def named_engines(path: Path, which: int | list[int] | str) -> Iterator[tuple[Path, int]]:
    """Engine numbers of an ``engine`` key, each with its place."""
    if isinstance(which, int):
        yield path, which
    elif isinstance(which, list):
        yield from (((*path, i), number) for i, number in enumerate(which))


def _methods(specs: Iterable[EngineSpec], base: Path) -> Iterator[tuple[Path, str]]:
    for i, spec in enumerate(specs):
        for j, rule in enumerate(spec.rules):
            for k, method in enumerate(rule.method or []):
                yield (*base, i, "rules", j, "method", k), method


def _rule(path: Path, rule: Rule) -> Iterator[Finding]:
    fields = fields_of(rule.on)
    for name in rule.where:
        if name not in fields:
            yield Finding(
                (*path, "where", name),
                f"message '{rule.on}' has no field '{name}'",
                one_of(fields),
                did_you_mean(name, fields),
                on_key=True,
            )
    hints = get_type_hints(EVENT_OF[rule.on])
    yield from check_where((*path, "where"), rule.where, hints, f"message '{rule.on}'")
    if rule.nth is not None and rule.times is not None and rule.times < rule.nth:
        title = f"rule takes message {rule.nth} only, and only the first {rule.times}"
        yield Finding((*path, "times"), title, "nth or times")
    for key, on in (("method", {"utility"}), ("request", {"add", "abort"})):
        if getattr(rule, key) is not None and rule.on not in on:
            title = f"'{key}' does not go with on: {rule.on}, so the rule matches nothing"
            yield Finding((*path, key), title, f"on: {' or '.join(sorted(on))}")
    if not rule.do:
        yield Finding((*path, "do"), "the rule does nothing", "drop: true to ignore the message")
    yield from _actions((*path, "do"), rule.do, rule.on)


def _actions(path: Path, actions: Sequence[Action], kind: Kind) -> Iterator[Finding]:
    for place, action in enumerate(actions):
        if (problem := action_problem(action, kind)) is not None:
            yield Finding((*path, place), problem)
        yield from check_action((*path, place), action)
