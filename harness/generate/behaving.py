"""Strategies of what engines do: rules whose actions go with their message, and acts of their own."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from harness.generate.fields import Hints, Strategy, of_model, one_key, weighted
from harness.generate.themes import ACTS, ANSWERS, RULES, WAITS, Theme, Weights
from harness.generate.words import FIELDS, HINTS, hints_with
from mock_engines.behaviours import model as behaviours

RULES_MAX = 2
NARROWING = Hints(
    fields=FIELDS,
    excluded={(behaviours.Rule, "on"): "drawn before", (behaviours.Rule, "do"): "drawn before"},
)
"""For rules: what narrows them down."""


def engines(theme: Theme) -> Strategy:
    """Entries of ``engines``."""
    rules = st.lists(_rule({**RULES, **theme.rules}), min_size=1, max_size=RULES_MAX)
    return of_model(behaviours.EngineSpec, hints_with(behaviours.EngineSpec, "rules", rules))


def _rule(kinds: Weights) -> Strategy:
    """Rules: perhaps a wait first, then an answer, seldom anything more."""
    return weighted([(weight, _rule_on(kind)) for kind, weight in kinds.items()])


def _rule_on(kind: str) -> Strategy:
    wait = one_key(behaviours.Action, HINTS, WAITS)
    answer = one_key(behaviours.Action, HINTS, ANSWERS[kind])
    anything = of_model(behaviours.Action, HINTS)
    do = weighted(
        [
            (4, answer.map(_alone)),
            (3, st.tuples(wait, answer).map(list)),
            (1, st.tuples(answer, anything).map(list)),
        ]
    )
    narrow = of_model(behaviours.Rule, NARROWING)
    return st.tuples(narrow, do).map(lambda pair: {"on": kind, **pair[0], "do": pair[1]})


def acts(theme: Theme) -> Strategy:
    """What an engine is told to do out of the blue."""
    one = one_key(behaviours.Action, HINTS, {**ACTS, **theme.acts})
    anything = of_model(behaviours.Action, HINTS)
    return weighted(
        [(8, one.map(_alone)), (1, st.tuples(one, one).map(list)), (1, anything.map(_alone))]
    )


def _alone(action: Any) -> list[Any]:
    return [action]
