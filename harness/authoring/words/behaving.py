"""Words for how engines are told to behave: their rules, and how they join."""

from __future__ import annotations

from typing import Any

from harness.authoring.words.actions import actions_text
from harness.authoring.words.told import Told, code, codes, fields, ordinal, shown, times, who, yes
from mock_engines.behaviours.model import EngineSpec, Join, Rule

MESSAGES = {
    "add": "ADD",
    "abort": "ABORT",
    "utility": "a utility call",
    "start_wave": "START_DP_WAVE",
}


def _rule(rule: Any) -> str:
    text = MESSAGES[rule.on]
    if rule.method is not None:
        text += f" of {codes(rule.method, 'or')}"
    if rule.request is not None:
        text += f" of request {code(rule.request)}"
    if rule.where:
        text += f" with {fields(rule.where)}"
    which = []
    if rule.nth is not None:
        which.append(f"the {ordinal(rule.nth)} only")
    if rule.times is not None:
        which.append("the first only" if rule.times == 1 else f"the first {rule.times} only")
    text += f" ({', '.join(which)})" if which else ""
    return f"when {text} arrives: {actions_text(rule.do)}"


RULE = Told(Rule, _rule, ("on", "method", "request", "where", "nth", "times", "do"))
JOIN = Told(
    Join,
    clauses={
        "gate": lambda gate: f"joins when gate {code(gate)} opens",
        "never": lambda _: "never joins",
        "hello_times": lambda n: f"says HELLO {times(n)}",
        "register_times": lambda n: f"registers {times(n)}",
        "subscribe_times": lambda n: f"subscribes {times(n)}",
        "skip": lambda stages: f"leaves out {codes(stages)} of its startup" if stages else "",
        "ready_before_gate": yes("says that it is ready before the startup gate opens"),
        "identity": lambda text: f"announces identity {code(text)} instead of its rank's",
        "ready": lambda keys: f"says {fields(keys)} in its ready response" if keys else "",
        "ready_without": lambda keys: f"leaves out {codes(keys)} there" if keys else "",
        "ready_raw": lambda text: f"sends bytes {code(text)} as its ready response",
        "hello_raw": lambda frames: f"sends frames {shown(frames)} instead of HELLO",
        "subscribe_raw": lambda frames: f"sends frames {shown(frames)} instead of subscribing",
    },
)


def _process(value: bool) -> str:
    return "runs as a child process" if value else "runs in the harness's own process"


ENGINE = Told(
    EngineSpec,
    lambda spec: who(spec.engine),
    of_head=("engine",),
    clauses={
        "join": JOIN.say,
        "rules": lambda rules: "; ".join(RULE.say(rule) for rule in rules),
        "process": _process,
    },
)
TELLERS = (RULE, JOIN, ENGINE)


def behaviours(spec: EngineSpec) -> list[str]:
    """What one entry says of its engines, a phrase each."""
    found = [JOIN.say(spec.join), *(RULE.say(rule) for rule in spec.rules)]
    if spec.process is not None:
        found.append(_process(spec.process))
    return [phrase for phrase in found if phrase]
