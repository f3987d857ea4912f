"""What goes with an operation, a gate or a rank when it is taken out of a scenario. Pure.

Scenarios are plain data here, as in their files: mappings, lists and scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Data = Mapping[str, Any]
STARTS = ("call", "utility", "http", "grpc", "crowd", "sample")
"""Verbs of steps that give something an id."""
_HOLDS = ("hold", "hold_after")


def words(value: Any) -> list[Any]:
    """A list, or a single item that stands for a list of one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def verb_of(step: Data) -> str:
    """The verb of a step or an action: its one key."""
    return next(iter(step))


def _without(mapping: Data, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if key not in keys}


def _with_steps(data: Data, change: Callable[[Data], Data | None]) -> dict[str, Any]:
    """Change every step; ``None`` takes it out. A step that stays as it is stays the same object."""
    changed = (change(step) for step in data["steps"])
    return {**data, "steps": [step for step in changed if step is not None]}


def _with_rules(data: Data, change: Callable[[Data], Data | None]) -> dict[str, Any]:
    """Change every rule of every engine; entries that have nothing left to say go as well."""
    if "engines" not in data:
        return dict(data)
    entries = []
    for entry in data["engines"]:
        rules = [rule for rule in map(change, entry.get("rules", [])) if rule is not None]
        kept = {**entry, "rules": rules} if rules else _without(entry, "rules")
        if set(kept) - {"engine"}:
            entries.append(kept)
    return {**data, "engines": entries} if entries else _without(data, "engines")


def _with_actions(holder: Data, change: Callable[[Data], Data | None]) -> Data | None:
    """Change the actions of a rule or an engine step; ``None`` if nothing is left to do."""
    actions = words(holder.get("do"))
    kept = [action for action in map(change, actions) if action is not None]
    if kept == actions:
        return holder
    return {**holder, "do": kept} if kept else None


def _released(data: Data, name: str) -> dict[str, Any]:
    """A scenario in which nothing of this name stays open at the end."""
    if "open_at_end" not in data:
        return dict(data)
    kept = [one for one in data["open_at_end"] if one != name]
    return {**data, "open_at_end": kept} if kept else _without(data, "open_at_end")


# --- operations -----------------------------------------------------------------------------


def operations(data: Data) -> list[str]:
    """Ids of all operations and samples, the last first."""
    started = [step[verb]["id"] for step in data["steps"] if (verb := verb_of(step)) in STARTS]
    return started[::-1]


def without_operation(data: Data, name: str) -> dict[str, Any]:
    """The scenario without an operation, and without all that speaks of it."""
    gone = _ids(data, name)

    def step(one: Data) -> Data | None:
        verb = verb_of(one)
        value = one[verb]
        if verb in STARTS:
            return None if value["id"] == name else one
        if verb in {"cancel", "drop"}:
            return None if value in gone else one
        if verb in {"abort", "finish"}:
            kept = [word for word in words(value) if word not in gone]
            return one if kept == words(value) else ({verb: kept} if kept else None)
        if verb == "engine":
            changed = _with_actions(value, lambda action: None if _about(action, gone) else action)
            return one if changed is value else (None if changed is None else {verb: changed})
        return None if verb in {"wait", "expect"} and _speaks_of(value, gone) else one

    def rule(one: Data) -> Data | None:
        if one.get("request") in gone:
            return None
        return _with_actions(one, lambda action: None if _about(action, gone) else action)

    return _released(_with_rules(_with_steps(data, step), rule), name)


def _ids(data: Data, name: str) -> frozenset[str]:
    """All names of an operation: a crowd has one for each caller."""
    for step in data["steps"]:
        if verb_of(step) == "crowd" and step["crowd"]["id"] == name:
            callers = step["crowd"].get("callers", 100)
            return frozenset({name, *(f"{name}-{number}" for number in range(callers))})
    return frozenset({name})


def _about(action: Data, gone: frozenset[str]) -> bool:
    value = action[verb_of(action)]
    return isinstance(value, Mapping) and value.get("request") in gone


def _speaks_of(value: Data, gone: frozenset[str]) -> bool:
    """Whether a wait or an expectation names an operation."""
    matches = [value, value.get("count"), *words(value.get("order"))]
    named = [match.get("request") for match in matches if isinstance(match, Mapping)]
    named += [value.get("op"), (value.get("process") or {}).get("since")]
    return any(name in gone for name in named if name is not None)


# --- gates ----------------------------------------------------------------------------------


def gates(data: Data) -> list[str]:
    """Names of all gates, in the order in which they are first met."""
    found: dict[str, None] = {}
    for step in data["steps"]:
        verb = verb_of(step)
        value = step[verb]
        if verb == "open":
            found[value] = None
        elif verb == "engine":
            found.update(dict.fromkeys(_gates_of(value)))
        elif isinstance(value, Mapping):
            found.update({value[key]: None for key in (*_HOLDS, "read") if key in value})
    for entry in data.get("engines", []):
        if "gate" in entry.get("join", {}):
            found[entry["join"]["gate"]] = None
        for rule in entry.get("rules", []):
            found.update(dict.fromkeys(_gates_of(rule)))
    return [name for name in found if isinstance(name, str)]


def _gates_of(holder: Data) -> Iterator[str]:
    for action in words(holder.get("do")):
        verb = verb_of(action)
        value = action[verb]
        if verb in {"open", "hang", "stall"} and isinstance(value, str):
            yield value
        elif verb == "stream" and value.get("gate") is not None:
            yield value["gate"]


def without_gate(data: Data, name: str) -> dict[str, Any]:
    """The scenario without a gate: nobody waits at it, and nobody opens it."""

    def action(one: Data) -> Data | None:
        verb = verb_of(one)
        value = one[verb]
        if verb in {"open", "hang", "stall"}:
            return None if value == name else one
        if verb == "stream" and value.get("gate") == name:
            return {verb: _without(value, "gate", "pause_at")}
        return one

    def step(one: Data) -> Data | None:
        verb = verb_of(one)
        value = one[verb]
        if verb == "open":
            return None if value == name else one
        if verb == "engine":
            changed = _with_actions(value, action)
            return one if changed is value else (None if changed is None else {verb: changed})
        if not isinstance(value, Mapping):
            return one
        if any(value.get(key) == name for key in _HOLDS):
            return None
        return {verb: _without(value, "read")} if value.get("read") == name else one

    changed = _with_rules(_with_steps(data, step), lambda rule: _with_actions(rule, action))
    if "engines" in changed:
        entries = [_joins_at_once(entry, name) for entry in changed["engines"]]
        kept = [entry for entry in entries if set(entry) - {"engine"}]
        changed = {**changed, "engines": kept} if kept else _without(changed, "engines")
    return _released(changed, name)


def _joins_at_once(entry: Data, gate: str) -> Data:
    join = entry.get("join", {})
    if join.get("gate") != gate:
        return entry
    left = _without(join, "gate")
    return {**entry, "join": left} if left else _without(entry, "join")
