"""Finds the behaviours, and checks that scripts use them where they make sense."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from functools import cache

import mock_engines.behaviours as package
from mock_engines.behaviours.base import Behaviour
from mock_engines.behaviours.model import Action, EngineSpec, Rule
from mock_engines.frames import parse_frames
from mock_engines.matching import EVENT_OF, Kind


@cache
def behaviours() -> Mapping[str, Behaviour]:
    """Return the behaviour of each verb, by scanning this package.

    Raises:
        TypeError: a verb that ``Action`` does not have, or that two classes claim.
    """
    found: dict[str, Behaviour] = {}
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    for name in names:
        module = importlib.import_module(f"{package.__name__}.{name}")
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if issubclass(cls, Behaviour) and cls.__module__ == module.__name__ and cls.verbs:
                _register(cls(), found)
    return found


def _register(behaviour: Behaviour, found: dict[str, Behaviour]) -> None:
    for verb in behaviour.verbs:
        where = type(behaviour).__module__
        if verb not in Action.model_fields:
            msg = f"{where}: {verb!r} is no key of an action"
            raise TypeError(msg)
        if verb in found:
            msg = f"{verb!r} is carried out by {type(found[verb]).__module__} and by {where}"
            raise TypeError(msg)
        found[verb] = behaviour


def behaviour_of(action: Action) -> Behaviour:
    """Return the behaviour that carries out an action."""
    return behaviours()[action.verb]


def action_problem(action: Action, kind: Kind) -> str | None:
    """Say why an action does not go with this kind of message; ``None`` = it does."""
    fits = behaviour_of(action).fits
    if kind not in fits:
        where = ", ".join(sorted(fits - {"act"})) or "steps"
        return f"{action.verb!r} is for {where}, not for {kind!r}"
    if action.raw is not None:
        try:
            parse_frames(action.raw.frames)
        except ValueError as error:
            return str(error)
    return None


def action_problems(actions: Iterable[Action], kind: Kind) -> list[str]:
    """Say what is wrong with a list of actions for this kind of message; empty = nothing."""
    found = ((place, action_problem(action, kind)) for place, action in enumerate(actions))
    return [f"do[{place}]: {problem}" for place, problem in found if problem is not None]


def fields_of(kind: Kind) -> tuple[str, ...]:
    """Return the names that ``where`` of a rule for this kind of message may use."""
    return EVENT_OF[kind].__struct_fields__


def rule_problems(rule: Rule) -> list[str]:
    """Say what is wrong with one rule; empty = nothing."""
    fields = fields_of(rule.on)
    return [
        *(
            f"where: {name!r} is no field of {rule.on!r}; it has {', '.join(fields)}"
            for name in rule.where
            if name not in fields
        ),
        *action_problems(rule.do, rule.on),
    ]


def spec_problems(specs: Iterable[EngineSpec]) -> list[str]:
    """Say what is wrong with behaviours beyond their schema; empty = nothing."""
    return [
        f"entry {number}, rule {place}: {problem}"
        for number, spec in enumerate(specs)
        for place, rule in enumerate(spec.rules)
        for problem in rule_problems(rule)
    ]
