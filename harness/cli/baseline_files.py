"""Files that the commands of ``wavecheck baseline`` read and change."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from harness.baseline.file import BaselineFile
from harness.baseline.inputs import Played, played
from harness.baseline.model import Baseline
from harness.baseline.writing import CannotEditError, changed
from harness.cli.output import cannot_write, usage_error
from harness.files import write_text
from harness.reports.inputs.files import InputError


def results_of(given: Path) -> Played:
    """Read results, or failure files. Raises ``CommandError`` (exit code 2)."""
    try:
        return played(given)
    except InputError as error:
        raise usage_error(error.title, help_text=error.help) from error


def edited(file: BaselineFile, wanted: Baseline, dropped: frozenset[int] = frozenset()) -> str:
    """A file with other pins and waivers. Raises ``CommandError`` (exit code 2)."""
    try:
        return changed(file, wanted, dropped=dropped)
    except CannotEditError as error:
        _refuse(file, error)


def _refuse(file: BaselineFile, error: CannotEditError) -> NoReturn:
    msg = f"{file.path}: cannot be changed in place: {error}"
    help_text = "write pins and waivers below each other, one key a line, or change it by hand"
    raise usage_error(msg, help_text=help_text) from error


def write_file(place: Path, text: str) -> None:
    """Write a baseline file. Raises ``CommandError`` (exit code 3)."""
    try:
        write_text(place, text)
    except OSError as error:
        raise cannot_write(place, error) from error
