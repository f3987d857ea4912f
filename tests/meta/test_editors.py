"""The schema of scenario files is found by editors."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.scenario import selection

ROOT = Path(__file__).resolve().parents[2]
MODELINE = re.compile(r"# yaml-language-server: \$schema=(\S+)")


def test_first_line_of_every_scenario_names_the_schema():
    lost = []
    for found in selection.builtin():
        line = found.path.read_text(encoding="utf-8").partition("\n")[0]
        named = MODELINE.fullmatch(line)
        place = found.path.parent / named[1] if named else None
        if place is None or place.resolve() != ROOT / "scenarios" / "schema.json":
            lost.append(found.id)
    assert lost == []


def test_settings_of_the_editor_apply_the_schema_to_every_scenario():
    settings = json.loads((ROOT / ".vscode" / "settings.json").read_text(encoding="utf-8"))
    ((schema, patterns),) = settings["yaml.schemas"].items()
    assert (ROOT / schema).resolve() == ROOT / "scenarios" / "schema.json"
    covered = {path for pattern in patterns for path in ROOT.glob(pattern)}
    assert {found.path for found in selection.builtin()} <= covered
