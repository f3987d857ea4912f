"""``wavecheck validate``: check scenario files without running them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from harness.cli.output import Output, json_option
from harness.reports.json_report import SCHEMA
from harness.reports.wording import counted
from harness.scenario.loader import SUFFIXES, load, scenario_id
from harness.scenario.problems import Problem, ScenarioFileError
from harness.scenario.selection import find_files
from harness.verdict import ExitCode
from harness.version import tool_version


@click.command(
    "validate",
    epilog="""\b
Examples:
  wavecheck validate scenarios              every file below a folder
  wavecheck validate mine.yaml other.yaml
""",
)
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@json_option
def validate_command(paths: tuple[Path, ...], json_file: str | None) -> int:
    """Check scenario files only: nothing is run.

    PATH is a scenario file, or a folder whose files (also in folders below) are checked.
    Every problem is shown with its place, what was expected, and the nearest valid word.
    Ends with 0 if all files are valid, else with 2.
    """
    output = Output(json_file)
    files, errors = _expand(paths)
    ids: dict[str, Path] = {}
    rows: list[dict[str, Any]] = []
    for path, root in files:
        name = scenario_id(path, root)
        try:
            if name in ids:
                title = f"two files have the id '{name}': {ids[name]} and {path}"
                raise ScenarioFileError(path, "", [Problem(title, help="rename one of them")])
            ids[name] = path
            load(path, root=root)
        except ScenarioFileError as error:
            errors.append(error)
            continue
        rows.append({"path": str(path), "id": name, "valid": True, "problems": []})
    for one in errors:
        for diagnostic in one.diagnostics():
            output.show(diagnostic)
        rows.append({"path": str(one.path), "id": None, "valid": False, **_problems(one)})
    code = ExitCode.USAGE if errors else ExitCode.OK
    output.say(_summary(len(rows) - len(errors), len(errors)))
    output.write(
        {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            "files": sorted(rows, key=lambda row: str(row["path"])),
            "summary": {
                "valid": len(rows) - len(errors),
                "invalid": len(errors),
                "exit": int(code),
            },
        }
    )
    return int(code)


def _expand(
    paths: tuple[Path, ...],
) -> tuple[list[tuple[Path, Path | None]], list[ScenarioFileError]]:
    """Files with the folder they were found in, and folders without any."""
    found: dict[Path, tuple[Path, Path | None]] = {}
    errors: list[ScenarioFileError] = []
    for path in paths:
        if not path.is_dir():
            found.setdefault(path.absolute(), (path, None))
            continue
        inside = find_files(path)
        if not inside:
            problem = Problem(
                "no scenarios in this folder", expected=f"files that end in {' or '.join(SUFFIXES)}"
            )
            errors.append(ScenarioFileError(path, "", [problem]))
        for file in inside:
            found.setdefault(file.absolute(), (file, path))
    return list(found.values()), errors


def _problems(error: ScenarioFileError) -> dict[str, Any]:
    return {
        "problems": [
            {
                **{k: v for k, v in asdict(problem).items() if k != "place"},
                "line": problem.place.line if problem.place else None,
                "column": problem.place.column if problem.place else None,
            }
            for problem in error.problems
        ]
    }


def _summary(valid: int, invalid: int) -> str:
    bad = f", {counted(invalid, 'file')} invalid" if invalid else ""
    return f"{counted(valid, 'file')} valid{bad}"
