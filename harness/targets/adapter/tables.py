"""The tables of ``docs/adapter.md`` that repeat what the code says, as rows of Markdown cells."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from harness.targets.adapter.lines import (
    COMMANDS,
    EVENT_CLASSES,
    PLAIN_LINES,
    RESULTS,
    Line,
    Nothing,
)
from harness.targets.adapter.parsing import keyword
from harness.targets.adapter.schema import answered
from harness.targets.adapter.vocabulary import PROVIDED, REFUSED
from harness.targets.capabilities import CAPABILITIES
from harness.trace.kinds import FIELDS_OF, KIND_OF

Rows = Iterable[tuple[str, ...]]

_NEEDED_FOR = {
    "cancel": "op.cancel",
    "drop": "op.drop",
    "utility": "op.utility, op.utility-raw",
    "abort": "op.abort",
    "snapshot": "see.registries",
    "health": "see.health",
    "server_info": "op.server-info",
    "link": "fault.link",
    "open": "fault.link, op.slow-reader",
    "shutdown": "op.shutdown",
}
"""Command → capabilities of which one brings it; a command that is not here comes to everybody."""


def _said(model: type[Line]) -> str:
    first = (inspect.getdoc(model) or "").split("\n\n")[0]
    return " ".join(first.split()).replace("``", "`")


def _keys(model: type[Line], word: str) -> str:
    names = [name for name in model.model_fields if name not in {word, "id"}]
    return ", ".join(f"`{name}`" for name in names)


def command_rows() -> Rows:
    """Command, its keys, the keys of ``result``, who gets it, meaning."""
    for command in COMMANDS:
        word = keyword(command)
        result = RESULTS.get(command, Nothing)
        answer = "reply" if answered(command) else ""
        if result is not Nothing:
            answer += f": {_keys(result, '')}"
        needed = ", ".join(f"`{name}`" for name in _NEEDED_FOR.get(word, "").split(", ") if name)
        yield f"`{word}`", _keys(command, "do"), answer, needed or "all", _said(command)


def line_rows() -> Rows:
    """Line, its keys, meaning."""
    for word, model in PLAIN_LINES.items():
        yield f"`{word}`", _keys(model, "say"), _said(model)
    yield "`event`", "`kind`, `fields`", "Something happened inside the client: see below."


def event_rows() -> Rows:
    """Kind of an event, its fields, meaning."""
    for kind, cls in EVENT_CLASSES.items():
        yield f"`{kind}`", ", ".join(f"`{name}`" for name in FIELDS_OF[cls]), KIND_OF[cls][1]


def capability_rows() -> Rows:
    """Capabilities that are not for adapters to declare: provided, or refused with the reason."""
    for name, meaning in CAPABILITIES.items():
        if name in PROVIDED:
            yield f"`{name}`", "always there", meaning
        elif name in REFUSED:
            yield f"`{name}`", f"never: {REFUSED[name]}", meaning
