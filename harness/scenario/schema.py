"""The JSON Schema of scenario files, generated from the model.

``python -m harness.scenario.schema`` rewrites ``scenarios/schema.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from harness.scenario.model import Scenario
from harness.scenario.words import WORDS, describe

DIALECT = GenerateJsonSchema.schema_dialect
SCHEMA_FILE = "schema.json"
ONE_OR_MORE = frozenset({"do", "method", "rank_text", "abort", "finish", "step_ms", "stop"})
"""Keys whose value may be a single item instead of a list of one."""


def scenario_schema() -> dict[str, Any]:
    """The schema, draft 2020-12."""
    schema = Scenario.model_json_schema()
    for definition in [schema, *schema.get("$defs", {}).values()]:
        _open_single_items(definition)
        _one_key(definition)
        describe(definition, WORDS.get(definition.get("title", ""), {}))
    return {
        "$schema": DIALECT,
        "title": "Wavecheck scenario",
        "description": " ".join((Scenario.__doc__ or "").split()),
        **{key: value for key, value in schema.items() if key not in {"title", "description"}},
    }


def _open_single_items(definition: dict[str, Any]) -> None:
    """Say that a single item may stand for a list of one, as the model's validators do."""
    for key, value in definition.get("properties", {}).items():
        if key not in ONE_OR_MORE:
            continue
        options = value.pop("anyOf", None) or [
            {k: value.pop(k) for k in ("type", "items") if k in value}
        ]
        lists = [option for option in options if option.get("type") == "array"]
        value["anyOf"] = [*options, *(option["items"] for option in lists)]


def _one_key(definition: dict[str, Any]) -> None:
    if definition.get("title") in {"Step", "Action"}:
        definition["minProperties"] = definition["maxProperties"] = 1


def schema_text() -> str:
    """The text of the schema file."""
    return json.dumps(scenario_schema(), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file into the folder of a checkout."""
    folder = Path(__file__).resolve().parent.parent.parent / "scenarios"
    (folder / SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
