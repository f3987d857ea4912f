"""The JSON Schema of all lines, for adapters in other languages.

``python -m harness.targets.adapter.schema`` rewrites ``docs/adapter.schema.json``. ``$defs``
holds every line and result by its class; ``commands`` is what the harness writes, ``lines`` what an
adapter may write, ``results`` the ``result`` of a reply by the command that it answers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from harness.targets.adapter.agreed import VERSIONS
from harness.targets.adapter.lines import (
    COMMANDS,
    EVENT_LINES,
    PLAIN_LINES,
    RESULTS,
    Command,
    Line,
    Nothing,
)
from harness.targets.adapter.parsing import keyword

SCHEMA_FILE = "adapter.schema.json"
_WITHOUT_ANSWER = frozenset({"hello", "call", "utility", "cancel", "drop", "open"})


def line_schema() -> dict[str, Any]:
    """The schema, draft 2020-12: one command of the harness, or one line of an adapter."""
    lines: list[type[Line]] = [*PLAIN_LINES.values(), *EVENT_LINES.values()]
    results: dict[str, type[Line]] = {
        keyword(command): RESULTS.get(command, Nothing)
        for command in COMMANDS
        if keyword(command) not in _WITHOUT_ANSWER
    }
    # The harness writes all keys of a command, so that all are there ("serialization").
    models: list[tuple[type[BaseModel], Any]] = [(command, "serialization") for command in COMMANDS]
    models += [(line, "validation") for line in [*lines, *dict.fromkeys(results.values())]]
    places, definitions = models_json_schema(models)

    def place(model: type[BaseModel], mode: Any) -> dict[str, Any]:
        return dict(places[model, mode])

    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "Wavecheck adapter line",
        "description": f"Line protocol between harness and adapter, version {VERSIONS[-1]}.",
        "anyOf": [{"$ref": "#/commands"}, {"$ref": "#/lines"}],
        "commands": {"oneOf": [place(command, "serialization") for command in COMMANDS]},
        "lines": {"oneOf": [place(line, "validation") for line in lines]},
        "results": {do: place(result, "validation") for do, result in results.items()},
        "$defs": definitions["$defs"],
    }


def answered(command: type[Command]) -> bool:
    """Whether a command is answered by a ``reply``."""
    return keyword(command) not in _WITHOUT_ANSWER


def schema_text() -> str:
    """The text of the schema file."""
    return json.dumps(line_schema(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file into the folder of a checkout."""
    folder = Path(__file__).resolve().parents[3] / "docs"
    (folder / SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
