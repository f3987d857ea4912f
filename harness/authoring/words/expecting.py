"""Words for expectations: what must be true at that point of the story."""

from __future__ import annotations

from typing import Any

from harness.authoring.words.matching import COUNT, MATCH
from harness.authoring.words.told import Told, code, fields, listed, shown
from harness.reports.wording import counted
from harness.scenario.model import Expect, ProcessExpect

OUTCOMES = {
    "finished": "has finished",
    "failed": "has failed",
    "cancelled": "was left by its caller",
    "pending": "has not ended yet",
}
PROCESS = Told(
    ProcessExpect,
    lambda grown: f"since sample {code(grown.since)} the frontend's process has grown",
    of_head=("since",),
    clauses={
        "rss_mb_at_most": lambda n: f"by at most {n:g} MiB",
        "descriptors_at_most": lambda n: f"by at most {n} descriptors",
    },
)


def _subject(expect: Any) -> str:
    """What stands before the clauses: an operation, or the state of an engine."""
    if expect.op is not None:
        end = "" if expect.outcome is None else f" {OUTCOMES[expect.outcome]}"
        served = "" if expect.engine is None else f", served by engine {expect.engine}"
        return f"{code(expect.op)}{end}{served}"
    if expect.engine is not None:
        return f"engine {expect.engine}"
    return ""


def _flag(name: str) -> Any:
    return lambda value: f"{name} is {'set' if value else 'not set'}"


EXPECT = Told(
    Expect,
    _subject,
    of_head=("op", "outcome", "engine"),
    clauses={
        "value": lambda value: f"with value {shown(value)}",
        "connect": lambda word: "startup has succeeded" if word == "ok" else "startup has failed",
        "error": lambda name: f"with error {code(name)}",
        "message": lambda text: f"with “{text}” in the message",
        "tokens": lambda n: f"with {counted(n, 'token')}",
        "finish": lambda reason: f"with finish reason {code(reason)}",
        "text": lambda text: f"with the text {shown(text)}",
        "status": lambda status: f"with status {status}",
        "body": lambda body: f"with {shown(body)} in its JSON",
        "body_text": lambda text: f"with “{text}” in its body",
        "kv_transfer_params": lambda value: f"with kv_transfer_params {shown(value)}",
        "state": lambda state: f"has the state {fields(state)}",
        "count": COUNT.say,
        "order": lambda found: f"in this order came: {', then '.join(map(MATCH.say, found))}",
        "pending_utility_calls": lambda n: f"{counted(n, 'utility waiter')} registered",
        "in_flight": lambda n: f"{counted(n, 'request')} registered as in flight",
        "healthy": lambda good: (
            f"the frontend says that it is {'healthy' if good else 'not healthy'}"
        ),
        "health_error": lambda name: f"its first fatal error is {code(name)}",
        "coordinator_wave": lambda n: f"the coordinator's wave is {n}",
        "coordinator_running": _flag("the coordinator's running flag"),
        "server_info": lambda sizes: f"the frontend tells the sizes {fields(sizes)}",
        "metrics": lambda wanted: listed(f"{name} is {n:g}" for name, n in wanted.items()),
        "process": PROCESS.say,
        "exit_code": lambda n: (
            f"the frontend's process has ended with {n}"
            if n >= 0
            else f"the frontend's process was ended by signal {-n}"
        ),
        "when": lambda releases: f"asked of releases {releases} only",
    },
    nulls=frozenset({"value", "body"}),
)
TELLERS = (EXPECT, PROCESS)
