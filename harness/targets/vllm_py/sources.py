"""Where the Python sources of a release come from: a folder of the user's, the cache, the wheel.

Only the files that are executed are taken, and each is compared with its recorded checksum, every
time: sources that somebody edited are not the release's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from harness.targets.base import TargetError
from harness.targets.vllm_py.checksums import checksums
from harness.targets.vllm_py.members import COORDINATOR, member_of
from harness.targets.vllm_rs import cache, wheel
from harness.targets.vllm_rs.fetch import FRONTEND_DIR_VARIABLE
from harness.targets.vllm_rs.releases import NEWEST, UnknownFrontendError, known_release

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SourceTree:
    """Sources that can be executed.

    Attributes:
        folder: with ``vllm/…`` below it.
        release: whose promises it is judged by.
        checksums: member → hexadecimal SHA-256; ``None`` for a tree of the user's own.
        note: what a report must say of it.
    """

    folder: Path
    release: str
    checksums: Mapping[str, str] | None
    note: str = ""

    def fault_of(self, file: Path, sha256: str) -> str | None:
        """Why a file that a child executed is not one of this tree, or ``None``."""
        folder = self.folder.resolve()
        if not file.is_relative_to(folder):
            return f"{file} is not below {folder}"
        if self.checksums is None:
            return None
        recorded = self.checksums.get(file.relative_to(folder).as_posix())
        if recorded != sha256:
            return f"the sha256 of {file} is {sha256}, recorded is {recorded}"
        return None


def members(
    release: str, names: Sequence[str], into: Path, progress: Progress = lambda _line: None
) -> None:
    """Bring members of a release's wheel into a folder, checked against the wheel's RECORD.

    Raises:
        TargetError: they cannot be had.
    """
    wheel.fetch_members(release, names, into, progress)


def sources(release: str, progress: Progress = lambda _line: None) -> Path:
    """Return the folder with the sources of a release; fetch them if need be.

    Raises:
        UnknownFrontendError: no such release (usage error).
        TargetError: they cannot be had, or are not what was recorded.
    """
    release = known_release(release)
    wanted = checksums()[release]
    if (there := available(release)) is not None:
        return there
    folder = _cached(release)
    with cache.in_use():
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            if not faults_of(folder, wanted):
                return folder
            members(release, list(wanted), folder, progress)
            if faults := faults_of(folder, wanted):
                msg = f"the wheel of vllm {release} is not the one that is known: {faults[0]}"
                raise TargetError(msg)
    return folder


def available(release: str) -> Path | None:
    """Return the sources of a release if they are whole on this machine, without a download."""
    wanted = checksums()[release]
    named = os.environ.get(FRONTEND_DIR_VARIABLE)
    folders = [Path(named) / release] if named else []
    for folder in [*folders, _cached(release)]:
        if not faults_of(folder, wanted):
            return folder
    return None


def faults_of(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """Say which files are missing or differ from their checksums."""
    faults = []
    for member, expected in wanted.items():
        try:
            seen = hashlib.sha256((folder / member).read_bytes()).hexdigest()
        except OSError as error:
            faults.append(f"{member}: {error.strerror}")
            continue
        if seen != expected:
            faults.append(f"{member}: sha256 is {seen}, recorded is {expected}")
    return faults


def resolve(
    frontend: str | None, profile: str | None = None, progress: Progress = lambda _line: None
) -> SourceTree:
    """Turn ``--frontend`` (a release, a folder with ``vllm/`` in it, or nothing) into sources.

    Raises:
        UnknownFrontendError: neither; or ``--profile`` is missing or contradicts.
        TargetError: see ``sources``.
    """
    frontend = NEWEST if frontend is None else frontend
    if os.sep in frontend or Path(frontend).is_dir():
        return _own_tree(Path(frontend), profile)
    release = known_release(frontend)
    if profile not in (None, release):
        msg = f"--profile {profile} contradicts the sources of {release}, which speak their own"
        raise UnknownFrontendError(msg)
    return SourceTree(sources(release, progress), release, checksums()[release])


def _own_tree(folder: Path, profile: str | None) -> SourceTree:
    needed = folder / member_of(COORDINATOR, package=False)
    if not needed.is_file():
        msg = f"{folder} holds no sources of vLLM: there is no {needed}"
        raise UnknownFrontendError(msg)
    if profile is None:
        msg = (
            f"cannot tell the release of the sources in {folder}; name the one whose promises "
            f"they are judged by with --profile, for example --profile {NEWEST}"
        )
        raise UnknownFrontendError(msg)
    release = known_release(profile)
    note = f"{folder} is a tree of your own: its files were not compared with a release"
    return SourceTree(folder.absolute(), release, None, note)


def _cached(release: str) -> Path:
    return cache.cache_root() / "sources" / release
