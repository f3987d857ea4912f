"""Files out of the wheel ``vllm``: alone where the package index serves ranges, else all of it.

pip decides where packages come from (index, mirror, proxy, credentials, certificates); nothing
of that is known here. In both ways every member is checked against the wheel's RECORD. That the
wheel is the one that the index vouches for (its hash) can be checked with the whole wheel only,
and pip does so; a single member is as trustworthy as the connection that it came over.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.targets.base import TargetError
from harness.targets.vllm_rs import starter

Progress = Callable[[str], None]

_RECORD_SUFFIX = ".dist-info/RECORD"
_BLOCK = 1 << 20
_LINES_SHOWN = 8
_PACKAGES = Path(__file__).parents[3]
"""Folder with the package ``harness``: a child process must find it too."""


class MemberError(TargetError):
    """What was received is no member as the wheel's RECORD describes it."""


def take_members(
    release: str,
    names: Sequence[str],
    folder: Path,
    progress: Progress = lambda _line: None,
    *,
    whole: bool = False,
) -> dict[str, Path]:
    """Bring members of the wheel of a release into an empty folder, checked.

    Args:
        release: exact version.
        names: members, such as ``vllm/vllm-rs``.
        folder: where they, and everything temporary, are put; the caller's to remove.
        progress: receives one line for each long step.
        whole: have pip download the whole wheel, and check its hash, in any case.

    Returns:
        the file of each member, in ``folder``.

    Raises:
        TargetError: there is no such wheel or member, or what came differs from RECORD.
    """
    why = "as asked for"
    if not whole:
        progress(f"fetching {_listed(names)} of vllm {release}, without the rest of its wheel ...")
        taken = _by_ranges(release, names, folder, progress)
        if not isinstance(taken, str):
            return taken
        why = taken
    progress(f"downloading the whole wheel of vllm {release} with pip, a large one ({why}) ...")
    wheel = _download(release, folder)
    progress(f"taking {_listed(names)} out of {wheel.name} ...")
    return _extract(wheel, names, folder)


def fetch_members(
    release: str,
    names: Sequence[str],
    into: Path,
    progress: Progress = lambda _line: None,
    *,
    whole: bool = False,
) -> dict[str, Path]:
    """Put members of a release's wheel below ``into``, under their own names.

    A file is there whole or not at all; what is there already is replaced. An interrupted fetch
    leaves nothing.

    Args:
        release: exact version.
        names: members, relative paths such as ``vllm/v1/engine/coordinator.py``.
        into: a folder; made if need be.
        progress: receives one line for each long step.
        whole: see ``take_members``.

    Returns:
        the file of each member.

    Raises:
        TargetError: see ``take_members``, or the folder cannot be written.
        ValueError: a name that leads out of ``into``.
    """
    targets = {name: into / name for name in names}
    for name, target in targets.items():
        if not target.resolve().is_relative_to(into.resolve()):
            msg = f"the member {name!r} leads out of its folder"
            raise ValueError(msg)
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=into) as temporary:
            taken = take_members(release, names, Path(temporary), progress, whole=whole)
            for name, target in targets.items():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(taken[name], target)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        msg = f"cannot write into {into}: {error.strerror or error}{where}"
        raise TargetError(msg) from error
    return targets


# --- ranges ---------------------------------------------------------------------------------


def _by_ranges(
    release: str, names: Sequence[str], folder: Path, progress: Progress
) -> dict[str, Path] | str:
    """Take the members alone; a text says why that cannot be done here."""
    parts = Path(tempfile.mkdtemp(prefix="members-", dir=folder))
    said = _ask_child(release, names, parts)
    if isinstance(said, str):
        return said
    if "refused" in said:
        return str(said["refused"])
    wheel = str(said["wheel"])
    if "missing" in said:
        raise _no_member(wheel, str(said["missing"]))
    files = {name: parts / str(number) for number, name in enumerate(names)}
    try:
        expected = _recorded((parts / "RECORD").read_bytes(), names, wheel)
        for name, file in files.items():
            _check(name, _digest_of(file), expected[name], wheel)
    except MemberError as error:
        return str(error)
    progress(
        f"took {_listed(names)} out of {wheel}: {_megabytes(said['fetched'])} of "
        f"{_megabytes(said['size'])} in {said['requests']} requests"
    )
    return files


def _ask_child(release: str, names: Sequence[str], parts: Path) -> dict[str, Any] | str:
    command = [
        *(sys.executable, "-P", "-m", "harness.targets.vllm_rs.pip_members"),
        *(f"vllm=={release}", str(parts), *names),
    ]
    there = os.environ.get("PYTHONPATH")
    path = f"{there}{os.pathsep}{_PACKAGES}" if there else str(_PACKAGES)
    done = subprocess.run(
        starter.dying_with_us(command),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        said = json.loads(done.stdout) if done.returncode == 0 else None
    except json.JSONDecodeError:
        said = None
    if isinstance(said, dict):
        return said
    last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    return f"pip cannot be asked for the wheel's address: {last}"


# --- the whole wheel ------------------------------------------------------------------------


def _download(release: str, folder: Path) -> Path:
    command = [
        sys.executable,
        *("-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
        *("--disable-pip-version-check", "--quiet", "--dest", str(folder), f"vllm=={release}"),
    ]
    done = subprocess.run(
        starter.dying_with_us(command), capture_output=True, text=True, check=False
    )
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()[-_LINES_SHOWN:]
        said = "\n  ".join(lines) or "nothing"
        msg = f"pip could not download vllm=={release} (exit {done.returncode}); it said:\n  {said}"
        raise TargetError(msg)
    return wheels[0]


def _extract(wheel: Path, names: Sequence[str], folder: Path) -> dict[str, Path]:
    parts = Path(tempfile.mkdtemp(prefix="members-", dir=folder))
    found: dict[str, Path] = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            records = [name for name in archive.namelist() if name.endswith(_RECORD_SUFFIX)]
            if len(records) != 1:
                msg = f"a wheel has exactly one RECORD, this one has {len(records)}"
                raise MemberError(msg)
            expected = _recorded(archive.read(records[0]), names, wheel.name)
            for number, name in enumerate(names):
                found[name] = parts / str(number)
                digest = hashlib.sha256()
                with archive.open(name) as source, found[name].open("wb") as sink:
                    while block := source.read(_BLOCK):
                        digest.update(block)
                        sink.write(block)
                _check(name, _base64(digest.digest()), expected[name], wheel.name)
    except KeyError as error:
        raise _no_member(wheel.name, name) from error
    except (zipfile.BadZipFile, OSError) as error:
        msg = f"{wheel.name} cannot be read: {error}"
        raise TargetError(msg) from error
    return found


# --- RECORD ---------------------------------------------------------------------------------


def _recorded(record: bytes, names: Sequence[str], wheel: str) -> Mapping[str, str]:
    """Return the base64 SHA-256 that RECORD gives for each member."""
    found = {}
    for row in csv.reader(io.StringIO(record.decode("utf-8", "replace"))):
        if len(row) > 1 and row[0] in names and row[1].startswith("sha256="):
            found[row[0]] = row[1].removeprefix("sha256=")
    for name in names:
        if name not in found:
            raise _no_member(wheel, name)
    return found


def _digest_of(file: Path) -> str:
    with file.open("rb") as content:
        return _base64(hashlib.file_digest(content, "sha256").digest())


def _base64(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _check(name: str, seen: str, expected: str, wheel: str) -> None:
    if seen != expected:
        msg = f"{name} in {wheel} differs from its RECORD: expected {expected}, got {seen}"
        raise MemberError(msg)


def _no_member(wheel: str, name: str) -> TargetError:
    what = ": this wheel has no Rust frontend" if name == "vllm/vllm-rs" else ""
    return TargetError(f"{wheel} has no member {name}{what}")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
