"""Finds and reads what a report is made from, and says what is wrong with it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client.protocol.strict_json import loads
from harness import formats
from harness.failure import FailureFile, FailureFileError, read_failure
from harness.formats import refusal
from harness.reading import TooLargeError, open_regular, read_regular

BYTES_MAX = 256 << 20
"""A larger file is no report of ours."""
FAILURES_MAX = 1_000
"""Failure files of one folder that are read."""
MATRIX_FILE, RUN_FILE = "matrix.json", "run.json"
"""What a folder is known by; without either, by the failure files in it."""
FAILURE_FOLDERS = (".", "failures")
RUN, MATRIX, FAILURES, REPORT = "run", "matrix", "failures", "report"
_GIVE = (
    "give the JSON of `wavecheck run --json` or `wavecheck matrix`, their output folder, or a "
    "failure file"
)
_BEGINNING = 1_024
_FORMS = {RUN: formats.RUN, MATRIX: formats.MATRIX, REPORT: formats.REPORT}


class InputError(Exception):
    """What was given cannot be reported on (exit code 2).

    Attributes:
        title: where and what.
        help: what to do.
    """

    def __init__(self, title: str, help_text: str = _GIVE) -> None:
        super().__init__(title)
        self.title = title
        self.help = help_text


@dataclass(frozen=True, slots=True)
class Given:
    """What was read.

    Attributes:
        kind: ``run``, ``matrix``, ``failures`` or ``report``.
        path: the file, or the folder of failure files.
        document: of the first, second and last kind.
        failures: of the third: files and what they hold, by name.
        notes: what else was found, and could not be read.
    """

    kind: str
    path: Path
    document: dict[str, Any] = field(default_factory=dict)
    failures: tuple[tuple[Path, FailureFile], ...] = ()
    notes: tuple[str, ...] = ()


def read(path: Path) -> Given:
    """Read a file or a folder.

    Raises:
        InputError: it is not there, not readable, not JSON, of another form or version.
    """
    mode = _mode(path)
    if stat.S_ISDIR(mode):
        return _read_folder(path)
    if not stat.S_ISREG(mode):
        msg = f"{path}: is not a regular file"
        raise InputError(msg)
    document = read_json(path)
    kind = _kind_of(document, path)
    if kind != FAILURES:
        return Given(kind, path, document)
    try:
        return Given(FAILURES, path, failures=((path, read_failure(path)),))
    except FailureFileError as error:
        msg = "let the run write it again, or use the wavecheck that wrote it"
        raise InputError(str(error), msg) from error


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except FileNotFoundError as error:
        msg = f"{path}: does not exist"
        raise InputError(msg) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"{path}: cannot be read: {why}"
        raise InputError(msg) from error


def read_json(path: Path) -> dict[str, Any]:
    """Read one JSON object.

    Raises:
        InputError: the file cannot be read, is too large, cut off, or no JSON object.
    """
    try:
        raw = read_regular(path, BYTES_MAX)
    except TooLargeError as error:
        msg = f"{path}: {error.strerror}; this is no report of wavecheck"
        raise InputError(msg) from error
    except OSError as error:
        msg = f"{path}: cannot be read: {error.strerror or error}"
        raise InputError(msg) from error
    try:
        document = loads(raw.decode("utf-8"))
    except json.JSONDecodeError as error:
        msg = f"{path}:{error.lineno}:{error.colno}: is not JSON: {error.msg}"
        if error.pos >= len(error.doc.rstrip()):
            msg = f"{path}:{error.lineno}:{error.colno}: ends in the middle of its JSON"
            raise InputError(msg, "the file was cut off: let the command write it again") from error
        raise InputError(msg) from error
    except ValueError as error:
        msg = f"{path}: is not JSON: {error}"
        raise InputError(msg) from error
    if not isinstance(document, dict):
        msg = f"{path}: holds JSON, but no report: a {type(document).__name__} at the top"
        raise InputError(msg)
    return document


def _kind_of(document: dict[str, Any], path: Path) -> str:
    keys = document.keys()
    if "format" in keys and "scenario_text" in keys:
        return FAILURES
    kind = None
    if {"results", "violations", "form"} <= keys:
        kind = REPORT
    elif {"cells", "frontends", "scenarios"} <= keys:
        kind = MATRIX
    elif {"results", "target", "summary"} <= keys:
        kind = RUN
    if kind is None:
        msg = (
            f"{path}: is JSON, but neither the results of a run or a matrix nor a failure file "
            f"(its keys: {', '.join(map(str, list(keys)[:6])) or 'none'})"
        )
        raise InputError(msg)
    written = document.get("tool")
    by = written.get("version") if isinstance(written, dict) else written
    if refused := refusal(_FORMS[kind], document.get("schema"), by):
        msg = f"{path}: {refused.title}"
        raise InputError(msg, refused.help)
    return kind


def _read_folder(path: Path) -> Given:
    for name in (MATRIX_FILE, RUN_FILE):
        if (path / name).is_file():
            return read(path / name)
    notes: list[str] = []
    failures: list[tuple[Path, FailureFile]] = []
    for file in _candidates(path):
        if len(failures) == FAILURES_MAX:
            notes.append(
                f"{path} holds more than {FAILURES_MAX} failure files; the rest is left out"
            )
            break
        try:
            failures.append((file, read_failure(file)))
        except FailureFileError as error:
            notes.append(str(error))
    if not failures:
        msg = f"{path}: holds neither {MATRIX_FILE} nor {RUN_FILE} nor a failure file"
        msg += f" that can be read ({notes[0]})" if notes else ""
        raise InputError(msg)
    return Given(FAILURES, path, failures=tuple(failures), notes=tuple(notes))


def _candidates(path: Path) -> Iterator[Path]:
    """Files that look as if they were failure files, by name."""
    for folder in FAILURE_FOLDERS:
        for file in sorted((path / folder).glob("*.json")):
            if file.is_file() and _looks_like_a_failure(file):
                yield file


def _looks_like_a_failure(file: Path) -> bool:
    """Whether its beginning is that of a failure file; other files of a folder are not ours."""
    try:
        with open_regular(file) as opened:
            beginning = opened.read(_BEGINNING)
    except OSError:
        return True  # reading it whole then says what is wrong
    return b'"format"' in beginning and b'"scenario_id"' in beginning


def find_failure(named: str | None, source: Path) -> Path | None:
    """Where a failure file is that a document names; ``None``: not there.

    It is named as seen from where the command ran; the folder may have been moved since.
    """
    if not named:
        return None
    folder, name = source.parent, Path(named).name
    for place in (Path(named), folder / named, folder / name, folder / "failures" / name):
        # A name that no file can have (too long, with a NUL) is that of none.
        if os.path.isfile(place):
            return place
    return None
