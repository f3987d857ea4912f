"""The Rust frontend of a release: out of the cache, or out of the wheel ``vllm``.

What comes from outside is put into a temporary folder beside the cache, checked, and moved to
its place in one step; the folder goes away whatever happened. Without a network, a binary in the
cache is all that is needed.
"""

from __future__ import annotations

import functools
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.targets.base import TargetError
from harness.targets.request import is_reference
from harness.targets.vllm_rs import cache, starter, wheel
from harness.targets.vllm_rs.reference import reference_program, reference_release
from harness.targets.vllm_rs.releases import (
    NEWEST,
    RELEASES,
    VERSION_FLAG_SINCE,
    UnknownFrontendError,
    fetchable_release,
    judged_as,
    judged_release,
    nearest_release,
    newer_note,
)

FRONTEND_DIR_VARIABLE = "WAVECHECK_FRONTEND_DIR"
"""Folder with binaries that were fetched by other means: ``<dir>/<release>/vllm-rs`` or
``<dir>/<release>/vllm/vllm-rs``."""
MEMBER = "vllm/vllm-rs"
_ELF_MAGIC = b"\x7fELF"
_ELF_64_LITTLE = b"\x02\x01"
_ELF_MACHINE_X86_64 = (62).to_bytes(2, "little")
_TEMPORARY = ".fetch-"
_VERSION_TIMEOUT_S = 10.0
_VERSION_BYTES = 1 << 16
"""A program that writes more than this when asked for its version says none."""
_VERSION_MAX = 100
_MACHINES = {3: "i686", 40: "armv7l", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
"""``e_machine`` of ELF, as ``uname`` has it."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FrontendBinary:
    """A binary that can be run.

    Attributes:
        note: how its release was told, if not certainly.
        reference: it is our own server, which imitates ``release``.
    """

    path: Path
    release: str
    note: str = ""
    reference: bool = False


def fetch(release: str, progress: Progress = lambda _line: None, *, whole: bool = False) -> Path:
    """Return the binary of a release, from the cache or freshly fetched.

    Args:
        release: a known release, or one that is newer than all of them; a leading ``v`` is allowed.
        progress: receives one line for each long step.
        whole: take it out of the whole wheel, whose hash pip checks, even where the package
            index would give the one member.

    Raises:
        UnknownFrontendError: no such release (usage error).
        TargetError: the platform has no binary, pip failed, the wheel is damaged, or the cache
            folder cannot be used.
    """
    release = fetchable_release(release)
    if (path := cache.cached(release)) is not None:
        return path
    _check_platform(release)
    with cache.in_use(), cache.locked(release, progress):
        if (path := cache.cached(release)) is not None:
            return path
        folder = cache.binary_path(release).parent
        for left in folder.glob(f"{_TEMPORARY}*"):
            # We hold the lock, so it belongs to a fetch that was killed.
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_TEMPORARY, dir=folder) as temporary:
            taken = wheel.take_members(release, [MEMBER], Path(temporary), progress, whole=whole)
            _check_binary(taken[MEMBER], release)
            return cache.store(release, taken[MEMBER])


def available(release: str) -> Path | None:
    """Return the binary of a release if it is on this machine, without any download.

    Raises:
        TargetError: there is a file for it that cannot be executed here.
    """
    named = os.environ.get(FRONTEND_DIR_VARIABLE)
    if named:
        for inner in (cache.BINARY, MEMBER):
            path = Path(named) / release / inner
            if path.is_file():
                if (why := unusable(path)) is not None:
                    msg = f"{why}; it is used since {FRONTEND_DIR_VARIABLE} is {named}"
                    raise TargetError(msg)
                return path
    return cache.cached(release)


def resolve(
    frontend: str | None, profile: str | None = None, progress: Progress = lambda _line: None
) -> FrontendBinary:
    """Turn ``--frontend`` (a release, a path, or nothing) into a binary and its release.

    Args:
        frontend: release, path to a binary, ``reference`` for our own server, or ``None`` for
            the newest known release.
        profile: release given by ``--as-release`` (or ``--profile``, which means the same for a
            file); decides for a binary that cannot tell its own. One that is newer than all
            known ones stands for the newest.
        progress: receives one line for each long step.

    Raises:
        UnknownFrontendError: neither a known release nor an executable file; a file whose
            release cannot be told and is not given; or a release that ``profile`` contradicts.
        TargetError: see ``fetch``.
    """
    if frontend is None:
        frontend = NEWEST
    if is_reference(frontend):
        release = reference_release(frontend, profile)
        note = f"the frontend is our own server, imitating {release}"
        return FrontendBinary(reference_program(), release, note, reference=True)
    if _looks_like_path(frontend):
        return _from_path(Path(frontend), profile)
    release = fetchable_release(frontend)
    if release not in RELEASES:
        note = newer_note(release)
        return FrontendBinary(available(release) or fetch(release, progress), NEWEST, note)
    if profile not in (None, release):
        msg = (
            f"--profile {profile} contradicts the frontend {release}, which speaks its own release"
        )
        raise UnknownFrontendError(msg)
    return FrontendBinary(available(release) or fetch(release, progress), release)


def _looks_like_path(text: str) -> bool:
    return os.sep in text or Path(text).is_file()


def _from_path(path: Path, profile: str | None) -> FrontendBinary:
    if not path.is_file():
        msg = f"no frontend binary at {path}"
        raise UnknownFrontendError(msg)
    path = path.absolute()
    if (why := unusable(path)) is not None:
        raise UnknownFrontendError(why)
    told = _version_of(path)
    nearest = nearest_release(told) if told is not None else None
    if profile is not None:
        release = judged_release(profile)
        notes = []
        if told is not None and nearest != release:
            notes.append(f"{path} says that it is {told}")
        if notes or release != profile.removeprefix("v"):
            notes.append(judged_as("--as-release", profile))
        return FrontendBinary(path, release, "; ".join(notes))
    if told is None or nearest is None:
        # A guess would judge it by promises that its release may never have made.
        said = "it does not answer --version" if told is None else f"--version says {told!r}"
        msg = (
            f"cannot tell the release of {path}: {said} (releases do since {VERSION_FLAG_SINCE}); "
            "name it with --as-release, for example --as-release 0.28.0"
        )
        raise UnknownFrontendError(msg)
    if nearest == told:
        return FrontendBinary(path, told)
    note = f"{path} says that it is {told}; it is judged by the promises of {nearest}"
    return FrontendBinary(path, nearest, note)


def unusable(path: Path) -> str | None:
    """Say why a file cannot be executed here, ``None`` if nothing speaks against it."""
    if not os.access(path, os.R_OK | os.X_OK):
        return f"{path} is not executable; chmod +x makes it so"
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] != _ELF_MAGIC:
        return None if head[:2] == b"#!" else f"{path} is neither a binary nor a script with #!"
    machine = int.from_bytes(head[18:20], "big" if head[5:6] == b"\x02" else "little")
    ours = platform.machine().lower()
    theirs = _MACHINES.get(machine)
    if theirs is not None and ours in _MACHINES.values() and theirs != ours:
        return f"{path} is a binary for {theirs}, and this machine is {ours}"
    return None


def _version_of(path: Path) -> str | None:
    """Return the version that a binary says, or ``None`` if it says none; ask each one once.

    Raises:
        UnknownFrontendError: it cannot be executed.
    """
    status = path.stat()
    return _ask_version(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=32)
def _ask_version(path: Path, mtime_ns: int, size: int) -> str | None:
    """``mtime_ns`` and ``size`` tell one build from the next in its place."""
    del mtime_ns, size
    try:
        said = starter.output_of([str(path), "--version"], _VERSION_TIMEOUT_S, _VERSION_BYTES)
    except OSError as error:
        msg = f"{path} cannot be executed: {error.strerror}"
        raise UnknownFrontendError(msg) from error
    if said.code != 0:
        return None
    words = said.text.split("\n", 1)[0].split()
    return words[-1][:_VERSION_MAX] if words else None


def _check_platform(release: str) -> None:
    system, machine = platform.system(), platform.machine().lower()
    if system != "Linux" or machine not in ("x86_64", "amd64"):
        msg = (
            f"no frontend binary of {release} for {system} {machine}: "
            "the wheels carry one for Linux x86-64; the targets sim and zmq need none"
        )
        raise TargetError(msg)


def _check_binary(path: Path, release: str) -> None:
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] != _ELF_MAGIC or head[4:6] != _ELF_64_LITTLE or head[18:20] != _ELF_MACHINE_X86_64:
        msg = f"{MEMBER} in the wheel of {release} is no ELF binary for x86-64"
        raise TargetError(msg)
