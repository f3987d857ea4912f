"""Who waits at a gate, and what opens it, by the scenario. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenario.checks_steps import gate_uses
from harness.scenario.model import Scenario


def opener(scenario: Scenario, gate: str, index: int) -> str:
    """Say what opens a gate, as a clause; ``index``: of the step that waits."""
    by_rule = ""
    for path, name, opens in gate_uses(scenario):
        if name != gate or not opens:
            continue
        if path[0] == "steps" and (number := int(path[1])) > index:
            return f", which step {number} (`{scenario.steps[number].verb}`) opens, behind this one"
        if path[0] == "engines":
            by_rule = f", which a rule of {_who(scenario.engines[int(path[1])])} opens"
    if by_rule:
        return by_rule
    kept = " (it is in `open_at_end`)" if gate in scenario.open_at_end else ""
    return f", which no later step opens{kept}"


def waiters(scenario: Scenario, gate: str, index: int) -> Iterator[str]:
    """Who else than a rule makes somebody wait at a gate, up to step ``index``."""
    for path, name, opens in gate_uses(scenario):
        if name != gate or opens:
            continue
        if path[0] == "engines":
            if path[2] == "join":
                yield f"{_who(scenario.engines[int(path[1])])} joins only then"
        elif (number := int(path[1])) <= index:
            yield f"{_of_step(scenario, number)} (step {number})"


def _of_step(scenario: Scenario, number: int) -> str:
    step = scenario.steps[number]
    if step.engine is not None:
        return f"{_who(step.engine)} {'wait' if step.engine.engine == 'all' else 'waits'} there"
    if step.link is not None:
        what = "messages" if step.link.frames == "any" else f"{step.link.frames.upper()}s"
        to = step.link.engine
        peer = f"engine {to}" if isinstance(to, int) else f"{to}".replace("all", "all engines")
        return f"{what} to {peer} are held there"
    reader = step.call or step.http
    return f"the caller `{getattr(reader, 'id', '')}` reads nothing before it opens"


def _who(spec: object) -> str:
    ranks = getattr(spec, "engine", "all")
    if ranks == "all":
        return "all engines"
    if isinstance(ranks, list):
        return f"engines {', '.join(map(str, ranks))}"
    return f"engine {ranks}"
