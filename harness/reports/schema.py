"""The JSON Schemas of what ``run``, ``matrix`` and ``report`` write.

``python -m harness.reports.schema`` rewrites the files in ``docs/``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.reports.inputs.documents import MatrixDocument, RunDocument
from harness.reports.told.model import Report
from harness.reports.words import WORDS
from harness.scenario.words import describe

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FORMS: Mapping[str, tuple[type, str]] = {
    "run.schema.json": (RunDocument, "Wavecheck run"),
    "matrix.schema.json": (MatrixDocument, "Wavecheck matrix"),
    "report.schema.json": (Report, "Wavecheck report"),
}
"""Files in ``docs/``: what each describes, and its title."""


def schema_of(name: str) -> dict[str, Any]:
    """One schema, draft 2020-12. Keys that it does not name may come with a later version."""
    form, title = FORMS[name]
    (found,), components = msgspec.json.schema_components([form], ref_template="#/$defs/{name}")
    for definition in components.values():
        describe(definition, WORDS.get(definition.get("title", ""), {}))
    return {"$schema": DIALECT, "title": title, **found, "$defs": components}


def schema_text(name: str) -> str:
    """The text of one file."""
    return json.dumps(schema_of(name), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the files into the folder of a checkout."""
    folder = Path(__file__).resolve().parents[2] / "docs"
    for name in FORMS:
        (folder / name).write_text(schema_text(name), encoding="utf-8")


if __name__ == "__main__":
    main()
