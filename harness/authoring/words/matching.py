"""Words for what selects events: a kind, and what narrows it."""

from __future__ import annotations

from typing import Any

from harness.authoring.words.told import Told, code, fields, listed, times
from harness.scenario.model import CountExpect, EventMatch, WaitStep
from harness.trace.kinds import KIND_OF, class_of

_OF_MATCH = ("event", "engine", "method", "request", "where")


def event_text(match: EventMatch) -> str:
    """The event that is meant: ``ADD arrived at engine 1, request `chat```."""
    _, text = KIND_OF[class_of(match.event)]
    if match.engine is not None:
        exact = text.replace("an engine", f"engine {match.engine}", 1)
        text = exact if exact != text else f"{text}, of engine {match.engine}"
    if match.method is not None:
        text += f", method {code(match.method)}"
    if match.request is not None:
        text += f", request {code(match.request)}"
    if match.where:
        text += f", with {fields(match.where)}"
    return f"“{text}” ({match.event})"


def _wait(step: Any) -> str:
    again = "" if step.count == 1 else f" has happened {times(step.count)}"
    return f"wait until {event_text(step)}{again or ' has happened'}"


def _count(expected: Any) -> str:
    wanted = []
    if expected.equals is not None:
        wanted.append(f"exactly {times(expected.equals)}" if expected.equals else "never")
    if expected.at_least is not None:
        wanted.append(f"at least {times(expected.at_least)}")
    if expected.at_most is not None:
        wanted.append(f"at most {times(expected.at_most)}")
    how = f"has happened {listed(wanted)}" if wanted != ["never"] else "has never happened"
    return f"{event_text(expected)} {how}"


MATCH = Told(EventMatch, event_text, _OF_MATCH)
WAIT = Told(WaitStep, _wait, (*_OF_MATCH, "count"))
COUNT = Told(CountExpect, _count, (*_OF_MATCH, "equals", "at_least", "at_most"))
TELLERS = (MATCH, WAIT, COUNT)
