"""Brings files of older formats to the current one, and says of others why that cannot be done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from harness import formats
from harness.baseline.file import parse_baseline
from harness.failure import FailureFile, failure_text, read_failure
from harness.formats import Form
from harness.reports.inputs import files
from harness.reports.inputs.files import InputError, read_json
from harness.scenario.loader import SUFFIXES, parse, read_text, scenario_id
from harness.scenario.positions import YamlProblemError, parse_yaml

_BASELINE_KEYS = frozenset({"pins", "waivers"})
_OF_KIND = {
    files.RUN: formats.RUN,
    files.MATRIX: formats.MATRIX,
    files.REPORT: formats.REPORT,
    files.FAILURES: formats.FAILURE,
}


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done with one file.

    Attributes:
        form: what it is.
        version: that it has.
        text: what it becomes, or ``None``: it is of the current version.
    """

    form: Form
    version: int
    text: str | None = None


def migration(path: Path) -> Step:
    """Look at a file, which is checked whole.

    Raises:
        ScenarioFileError: it is a scenario or a baseline, and not valid, or of another version.
        InputError: it is JSON, and not one of ours, or of a version that is not read.
        FailureFileError: it is a failure file that cannot be read.
    """
    return _yaml(path) if path.suffix in SUFFIXES else _json(path)


def _yaml(path: Path) -> Step:
    text = read_text(path)
    try:
        data, _ = parse_yaml(text)
    except YamlProblemError:
        data = None  # loading it says what is wrong, and where
    if isinstance(data, dict) and _BASELINE_KEYS & data.keys():
        baseline = parse_baseline(text, path).baseline
        return Step(formats.BASELINE, baseline.format)
    loaded = parse(text, path, name=scenario_id(path))
    return Step(formats.SCENARIO, loaded.scenario.format)


def _json(path: Path) -> Step:
    if path.is_dir():
        msg = f"{path}: is a folder"
        raise InputError(msg, "name the files")
    kind = files.read(path).kind
    document = read_json(path)
    form = _OF_KIND[kind]
    version = document[form.key]
    if kind != files.FAILURES or version == form.current:
        return Step(form, version)
    return Step(form, version, _current(read_failure(path), document.get("tool")))


def _current(failure: FailureFile, tool: object) -> str:
    """A failure file as it is written today, which keeps the version of the tool that saw it."""
    document = json.loads(failure_text(failure))
    if isinstance(tool, str):
        document["tool"] = tool
    return json.dumps(document, indent=1) + "\n"
