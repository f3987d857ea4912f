"""Where a new scenario goes, and where its editor finds the schema."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from harness.authoring.order import OrderError
from harness.reading import TooLargeError, read_regular
from harness.scenario.loader import SUFFIXES, builtin_dir
from harness.scenario.schema import SCHEMA_FILE, schema_text

SCHEMA_NAME = "wavecheck.schema.json"
"""The copy of the schema beside scenarios of a user's own."""
_PART = re.compile(r"[\w][\w.+-]*")


@dataclass(frozen=True, slots=True)
class SchemaPlace:
    """Where the schema of a file is.

    Attributes:
        path: the schema; ``shown``: from the scenario's folder, as its first line has it.
        missing: it must be written.
        stale: it is there, and is not the one of this version.
    """

    path: Path
    shown: str
    missing: bool = False
    stale: bool = False


def path_of_name(name: str) -> Path:
    """The file of a name such as ``waves/my-story``, below the current folder.

    Raises:
        OrderError: the name leads elsewhere, or would not be found again.
    """
    parts = name.removesuffix("/").split("/")
    if name.startswith(("/", "~")) or ".." in parts:
        msg = f"the name '{name}' leads out of the current folder"
        raise OrderError(msg, expected="a name such as waves/my-story", help_text="or --out FILE")
    parts = [part for part in parts if part != "."]
    last = parts[-1] if parts else ""
    suffix = next((end for end in SUFFIXES if last.endswith(end)), "")
    parts[-1:] = [last.removesuffix(suffix)]
    for part in parts:
        if not _PART.fullmatch(part):
            msg = f"'{part}' is no name of a scenario or a folder" if part else "the name is empty"
            raise OrderError(
                msg, expected="letters, digits, '-', '_', '.' and '+', none of the last three first"
            )
    return Path(*parts[:-1], parts[-1] + (suffix or SUFFIXES[0]))


def path_of_out(out: Path) -> Path:
    """The file that ``--out`` names, as it is.

    Raises:
        OrderError: it would not be found as a scenario, or its folder is not there.
    """
    if out.suffix not in SUFFIXES:
        msg = f"--out: {out} does not end as scenario files do"
        raise OrderError(msg, expected=f"a name that ends in {' or '.join(SUFFIXES)}")
    if out.name.startswith("."):
        msg = f"--out: {out} is hidden, and would not be found in its folder"
        raise OrderError(msg, expected="a name that does not begin with a dot")
    if not out.parent.is_dir():
        msg = f"--out: there is no folder {out.parent}"
        raise OrderError(msg, help_text="make it, or give NAME, whose folders are made")
    return out


def check_free(path: Path, *, force: bool) -> None:
    """Refuse a place where something is.

    Raises:
        OrderError: it is taken, or what should be its folder is a file.
    """
    if path.is_dir():
        msg = f"{path} is a folder"
        raise OrderError(msg, expected="the name of a file")
    if path.exists() and not path.is_file():
        msg = f"{path} is a pipe, socket or device"
        raise OrderError(msg, expected="the name of a file")
    if os.path.lexists(path) and not force:
        msg = f"{path} is there already"
        raise OrderError(msg, help_text="choose another name, or --force to replace it")
    above = next((one for one in path.parents if os.path.lexists(one)), None)
    if above is not None and not above.is_dir():
        msg = f"{above} is no folder"
        raise OrderError(msg, expected="a name whose folders are folders, or are not there yet")


def schema_place(path: Path) -> SchemaPlace:
    """Find the schema for a file: the built-in one, one above it, or where one is to be written.

    Looked at are the folders from the file's own up to the current one; outside of that, its own
    only.
    """
    full = Path(os.path.abspath(path))
    builtin = builtin_dir()
    if full.is_relative_to(builtin):
        return SchemaPlace(builtin / SCHEMA_FILE, _from(full, builtin / SCHEMA_FILE))
    here = Path.cwd()
    inside = full.is_relative_to(here)
    folders = [one for one in full.parents if one.is_relative_to(here)] if inside else [full.parent]
    for folder in folders:
        found = folder / SCHEMA_NAME
        if found.is_file():
            return SchemaPlace(found, _from(full, found), stale=_is_stale(found))
    wanted = folders[-1] / SCHEMA_NAME
    return SchemaPlace(wanted, _from(full, wanted), missing=True)


def _is_stale(schema: Path) -> bool:
    """Whether it is not the schema of this version.

    Raises:
        OrderError: it cannot be read.
    """
    ours = schema_text().encode()
    try:
        # On other systems its lines may end otherwise.
        return read_regular(schema, 2 * len(ours)).replace(b"\r\n", b"\n") != ours
    except TooLargeError:
        return True
    except OSError as error:
        msg = f"cannot read the schema {schema}: {error.strerror}"
        raise OrderError(msg, help_text="remove it: it is written anew") from error


def _from(file: Path, schema: Path) -> str:
    """The schema's place as seen from the folder of a file."""
    shown = Path(os.path.relpath(schema, file.parent)).as_posix()
    return shown if shown.startswith(".") else f"./{shown}"
