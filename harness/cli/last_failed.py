"""Remembers what failed in the last run of an output folder, for ``--last-failed``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from client.protocol.strict_json import loads
from harness.cli.output import CommandError, usage_error
from harness.files import write_own
from harness.reports.diagnostic import Diagnostic
from harness.verdict import ExitCode

FILE_NAME = "last-failed.json"


@dataclass(frozen=True, slots=True)
class Failed:
    """One scenario that failed: its id and file, and in a matrix the frontend."""

    scenario: str
    path: str
    frontend: str | None = None


def remember(folder: Path, failed: Iterable[Failed]) -> None:
    """Write what failed. The folder is made for failures only; without any, an old list goes.

    Raises:
        CommandError: the file cannot be written.
    """
    path = folder / FILE_NAME
    entries = [asdict(one) for one in dict.fromkeys(failed)]
    try:
        if not entries:
            path.unlink(missing_ok=True)
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_own(path, json.dumps({"failed": entries}, indent=1) + "\n")
    except OSError as error:
        title = f"cannot remember what failed in {path}: {error.strerror or error}"
        raise CommandError([Diagnostic("error", title)], ExitCode.HARNESS) from error


def recall(folder: Path) -> list[Failed]:
    """What failed in the last run.

    Raises:
        CommandError: nothing is remembered, or the file is damaged (exit code 2).
    """
    path = folder / FILE_NAME
    try:
        document = loads(path.read_text(encoding="utf-8"))
        found = [
            Failed(str(one["scenario"]), str(one["path"]), one["frontend"])
            for one in document["failed"]
        ]
    except FileNotFoundError:
        found = []
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"cannot read what failed in the last run from {path}: {error}"
        raise usage_error(msg, help_text="run without --last-failed") from error
    if not found:
        msg = f"nothing failed in the last run with output in {folder}, or there was none"
        raise usage_error(
            msg,
            expected=f"a list of failures in {path}",
            help_text="run without --last-failed first, with the same --out",
        )
    return found
