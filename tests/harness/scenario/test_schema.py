"""The published JSON Schema."""

from __future__ import annotations

import json

from harness.scenario.loader import builtin_dir
from harness.scenario.schema import SCHEMA_FILE, scenario_schema, schema_text


def test_committed_schema_is_what_the_model_gives() -> None:
    """If this is red: `python -m harness.scenario.schema`."""
    assert (builtin_dir() / SCHEMA_FILE).read_text(encoding="utf-8") == schema_text()


def test_schema_names_its_dialect_title_and_description() -> None:
    schema = scenario_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Wavecheck scenario"
    assert schema["description"].startswith("One scenario file.")
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["title", "promise", "refs", "steps"]


def test_single_item_may_stand_for_a_list_as_in_the_loader() -> None:
    definitions = json.loads(schema_text())["$defs"]
    kinds = [
        option.get("type") or "ref"
        for option in definitions["Step"]["properties"]["finish"]["anyOf"]
    ]
    assert kinds == ["array", "null", "string"]
    kinds = [
        option.get("type") or "ref" for option in definitions["Rule"]["properties"]["do"]["anyOf"]
    ]
    assert kinds == ["array", "ref"]


def test_step_and_action_have_exactly_one_key() -> None:
    definitions = scenario_schema()["$defs"]
    for name in ("Step", "Action"):
        assert (definitions[name]["minProperties"], definitions[name]["maxProperties"]) == (1, 1)
