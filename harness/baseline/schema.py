"""The JSON Schema of baseline files: ``python -m harness.baseline.schema`` rewrites it in ``docs/``."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic.json_schema import GenerateJsonSchema

from harness.baseline.model import Baseline

FILE = "baseline.schema.json"


def schema_text() -> str:
    """The text of the schema file, draft 2020-12."""
    schema = Baseline.model_json_schema()
    head = {"$schema": GenerateJsonSchema.schema_dialect, "title": "Wavecheck baseline"}
    rest = {key: value for key, value in schema.items() if key != "title"}
    return json.dumps({**head, **rest}, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file into the folder of a checkout."""
    folder = Path(__file__).resolve().parents[2] / "docs"
    (folder / FILE).write_text(schema_text(), encoding="utf-8")


if __name__ == "__main__":
    main()
