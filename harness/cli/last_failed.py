"""Remembers what failed in the last run of an output folder, for ``--last-failed``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from client.protocol.strict_json import loads
from harness.cli.output import CommandError, usage_error
from harness.files import write_own
from harness.reading import read_regular
from harness.reports.diagnostic import Diagnostic
from harness.shortened import shortened
from harness.verdict import ExitCode

FILE_NAME = "last-failed.json"
FILE_BYTES_MAX = 16 << 20
_SHOWN = 5
"""Frontends that a note names."""


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
        found = _entries(loads(read_regular(path, FILE_BYTES_MAX).decode("utf-8")))
    except FileNotFoundError:
        found = []
    except (OSError, ValueError) as error:
        why = shortened(getattr(error, "strerror", None) or str(error))
        msg = f"cannot read what failed in the last run from {path}: {why}"
        help_text = "run without --last-failed, which writes the list anew"
        raise usage_error(msg, help_text=help_text) from error
    if not found:
        msg = f"nothing failed in the last run with output in {folder}, or there was none"
        raise usage_error(
            msg,
            expected=f"a list of failures in {path}",
            help_text="run without --last-failed first, with the same --out",
        )
    return found


def _entries(document: Any) -> list[Failed]:
    """What the list holds. Raises ``ValueError``, in words about the file."""
    if not isinstance(document, dict) or set(document) != {"failed"}:
        msg = "it is no such list: expected one object with the key 'failed'"
        raise ValueError(msg)
    if not isinstance(document["failed"], list):
        msg = "'failed' must be a list"
        raise ValueError(msg)
    return [_entry(number, one) for number, one in enumerate(document["failed"], start=1)]


def _entry(number: int, one: Any) -> Failed:
    keys = ("scenario", "path", "frontend")
    if not isinstance(one, dict) or set(one) != set(keys):
        msg = f"entry {number} must be an object with the keys {', '.join(keys)}"
        raise ValueError(msg)
    if any(type(one[key]) is not str for key in keys[:2]):
        msg = f"entry {number}: 'scenario' and 'path' must be texts"
        raise ValueError(msg)
    if type(one["frontend"]) not in (str, type(None)):
        msg = f"entry {number}: 'frontend' must be a text, or null"
        raise ValueError(msg)
    return Failed(one["scenario"], one["path"], one["frontend"])


def elsewhere(failed: Sequence[Failed], frontends: Collection[str]) -> str:
    """What to say of entries that failed on frontends which are not asked now; ``""``: nothing.

    Args:
        failed: what the last run left.
        frontends: those that are asked, as a matrix calls them; none of them in a plain run.
    """
    names = {one.frontend: None for one in failed if one.frontend is not None}
    others = [name for name in names if name not in frontends]
    if not others:
        return ""
    shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
    what = "they are left out" if frontends else "they are played on what this run asks for"
    return shortened(f"the list of what failed has entries of other frontends ({shown}): {what}")
