"""A found scenario as an ordinary file: title, promise and references say what it broke."""

from __future__ import annotations

import hashlib
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.files import write_own
from harness.generate.hunt import Found
from harness.generate.mending import REFERENCE
from harness.invariants import discover
from harness.scenario.loader import LoadedScenario, load
from harness.scenario.writing import one_line
from harness.verdict import EXPECTATION

WIDTH = 100
_LINK = re.compile(r"https?://[^\s,;)]+|vllm#[0-9]+")
_UNTOLD = {
    "title": "Each step of a generated scenario comes to its end, and the frontend goes on running",
    "promise": "A step that can be carried out is; a frontend ends only when it is told to.",
}


def write_found(found: Found, folder: Path, command: str) -> LoadedScenario:
    """Write a found scenario into ``folder``, and load it as any other.

    Args:
        found: what was found.
        folder: made if it is not there.
        command: the command that finds it again, for the comment at its head.

    Raises:
        OSError: the file cannot be written.
        ScenarioFileError: what was written is not valid, which is a fault of ours.
    """
    text = to_yaml(told(found), [f"Found by `{command}`.", _how(found)])
    path = _write(text, folder, re.sub(r"[^a-z0-9]+", "-", found.violated))
    return load(path)


def write_broken(data: Mapping[str, Any], error: str, folder: Path, command: str) -> Path:
    """Write a scenario that could not be judged since the target or the harness failed.

    Raises:
        OSError: the file cannot be written.
    """
    return _write(to_yaml(data, [f"Met by `{command}`: {error}"]), folder, "error")


def _write(text: str, folder: Path, stem: str) -> Path:
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-{mark}.yaml"
    write_own(path, text)
    return path


def _how(found: Found) -> str:
    return f"Its schedules have seed {found.seed}: {found.seen}" if found.seen else ""


def told(found: Found) -> dict[str, Any]:
    """The scenario with a head that says what it is about."""
    docs = {cls.id: cls.doc() for cls in discover()}
    data = dict(found.data)
    if found.violated == EXPECTATION:
        return {**data, **_UNTOLD}
    doc = docs[found.violated]
    statement = doc.get("statement", "")
    data["title"] = f"Generated: a story in which {found.violated} is broken"
    data["promise"] = statement
    links = list(dict.fromkeys(_LINK.findall(doc.get("source", ""))))
    data["refs"] = [link.rstrip(".") for link in links] or [REFERENCE]
    head: dict[str, Any] = {
        key: data.pop(key) for key in ("title", "promise", "refs", "profiles") if key in data
    }
    return {**head, "invariants": [found.violated], **data}


# --- YAML -----------------------------------------------------------------------------------


def to_yaml(data: Mapping[str, Any], comments: list[str]) -> str:
    """A scenario in the form in which people write them: one line for each step and rule."""
    lines = [
        f"# {line}"
        for text in comments
        for line in textwrap.wrap(one_line(text), WIDTH - 2, break_on_hyphens=False)
    ]
    for key, value in data.items():
        if key == "steps":
            lines += ["steps:", *(f"  - {_step(step)}" for step in value)]
        elif key == "engines" and value:
            lines += ["engines:", *(line for entry in value for line in _engine(entry))]
        elif isinstance(value, str):
            lines += _text(key, value)
        else:
            lines.append(f"{key}: {_flow(value)}")
    return "\n".join(lines) + "\n"


def _text(key: str, value: str) -> list[str]:
    plain = f"{key}: {_flow(value)}"
    if len(plain) <= WIDTH:
        return [plain]
    return [
        f"{key}: >-",
        *(
            f"  {line}"
            for line in textwrap.wrap(
                value, WIDTH - 2, break_on_hyphens=False, break_long_words=False
            )
        ),
    ]


def _step(step: Mapping[str, Any]) -> str:
    verb, value = next(iter(step.items()))
    return f"{verb}: {_flow(value)}"


def _engine(entry: Mapping[str, Any]) -> list[str]:
    rest = {key: value for key, value in entry.items() if key != "rules" and value != {}}
    lines = [
        f"  {'-' if number == 0 else ' '} {key}: {_flow(value)}"
        for number, (key, value) in enumerate(rest.items())
    ]
    if not entry.get("rules"):
        return lines
    first = "    rules:" if lines else "  - rules:"
    return [*lines, first, *(f"      - {_rule(rule)}" for rule in entry["rules"])]


def _rule(rule: Mapping[str, Any]) -> str:
    """A rule, whose key ``on`` needs no quotes in the scenarios' YAML."""
    rest = {key: value for key, value in rule.items() if key != "on"}
    return f"{{on: {rule['on']}, {_flow(rest)[1:]}"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, width=float("inf"), sort_keys=False, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
