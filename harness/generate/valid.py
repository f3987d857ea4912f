"""Leaves out of a scenario what its own checks find wrong, until nothing is.

Nothing here knows single fields, so that a new field or a new check needs no change.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from harness.generate.drafts import Can
from harness.scenario.checks import check
from harness.scenario.loader import default_vocabulary
from harness.scenario.model import Scenario
from harness.scenario.needs import needs

REPAIRS_MAX = 40


def valid(data: dict[str, Any], can: Can) -> tuple[Scenario, dict[str, Any]] | None:
    """Leave out what is wrong until nothing is; ``None``: that cannot be done."""
    for _ in range(REPAIRS_MAX):
        paths = _wrong(data)
        if not paths:
            scenario = Scenario.model_validate(data)
            missing = needs(scenario) - can.capabilities
            if not missing:
                return scenario, data
            if not _drop_needy(data, missing):
                return None
            continue
        if not all(_leave_out(data, path) for path in paths[:1]):
            return None
    return None


def _wrong(data: dict[str, Any]) -> list[tuple[str | int, ...]]:
    try:
        scenario = Scenario.model_validate(data)
    except ValidationError as error:
        return [tuple(one["loc"]) for one in error.errors()]
    return [finding.path for finding in check(scenario, default_vocabulary())]


def _leave_out(data: dict[str, Any], path: tuple[str | int, ...]) -> bool:
    """Leave out the step, the rule, the join or the key of the topology that a path is in."""
    match path:
        case ("steps", int(number), *_):
            return _pop(data["steps"], number)
        case ("engines", int(number), "rules", int(rule), *_):
            if len(data["engines"][number]["rules"]) > 1:
                return _pop(data["engines"][number]["rules"], rule)
            return _pop(data["engines"], number)
        case ("engines", int(number), "join", *_):
            data["engines"][number].pop("join", None)
            return True
        case ("engines", int(number), *_):
            return _pop(data["engines"], number)
        case ("topology", str(key), *_) if key in data["topology"]:
            del data["topology"][key]
            return True
        case _:
            return False


def _pop(items: list[Any], number: int) -> bool:
    del items[number]
    return True


def _drop_needy(data: dict[str, Any], missing: frozenset[str]) -> bool:
    """Leave out the first step, or rule, without which less is missing."""
    for number in range(len(data["steps"])):
        alone = {**data, "steps": [data["steps"][number]], "engines": []}
        scenario = _unchecked(alone)
        if scenario is not None and needs(scenario) & missing:
            return _pop(data["steps"], number) if len(data["steps"]) > 1 else False
    for number in range(len(data.get("engines", []))):
        alone = {**data, "steps": [{"fence": True}], "engines": [data["engines"][number]]}
        scenario = _unchecked(alone)
        if scenario is not None and needs(scenario) & missing:
            return _pop(data["engines"], number)
    return False


def _unchecked(data: dict[str, Any]) -> Scenario | None:
    try:
        return Scenario.model_validate(data)
    except ValidationError:
        return None
