"""Where fetched binaries live: one folder for each release, with a checksum beside the file.

Layout: ``<root>/frontends/<release>/vllm-rs`` and ``vllm-rs.sha256``. A file enters by
``os.replace`` only, after it was checked, so that what is there is whole; a file whose
checksum does not match is treated as absent.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_dir

from harness.targets.base import TargetError

CACHE_VARIABLE = "WAVECHECK_CACHE"
"""Environment variable that replaces the cache folder."""
BINARY = "vllm-rs"
_CHUNK = 1 << 20


def cache_root() -> Path:
    """Return the cache folder; it need not exist."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path(user_cache_dir("wavecheck"))


def sha256_of(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


@functools.lru_cache(maxsize=64)
def _sha256_of_same(path: Path, _inode: int, _size: int, _modified_ns: int) -> str:
    """Read once in a process, unless the file was replaced or written to: it is large."""
    return sha256_of(path)


def binary_path(release: str) -> Path:
    """Return where the binary of a release belongs, whether it is there or not."""
    return cache_root() / "frontends" / release / BINARY


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def cached(release: str) -> Path | None:
    """Return the stored binary if it is whole.

    A missing or unreadable checksum, or one that differs, counts as absent.
    """
    path = binary_path(release)
    try:
        expected = _sidecar(path).read_text(encoding="ascii").strip()
        now = path.stat()
        if _sha256_of_same(path, now.st_ino, now.st_size, now.st_mtime_ns) != expected:
            return None
    except (OSError, UnicodeDecodeError):
        return None
    return path


@contextmanager
def in_use() -> Iterator[None]:
    """Turn what the system says against our work in the cache into one clear error.

    Raises:
        TargetError: the folder cannot be made, read or written.
    """
    try:
        yield
    except OSError as error:
        what = error.strerror or type(error).__name__
        where = f" ({error.filename})" if error.filename else ""
        msg = (
            f"cannot use the cache folder {cache_root()}: {what}{where}; "
            f"set {CACHE_VARIABLE} to a folder that can be written"
        )
        raise TargetError(msg) from error


@contextmanager
def locked(release: str, progress: Callable[[str], None] = lambda _line: None) -> Iterator[None]:
    """Hold the lock of one release, so that two processes do not fetch it twice.

    In the end folders that hold nothing else go, so that a release that could not be fetched
    leaves nothing behind.

    ``progress`` is told if somebody else holds it and has to be waited for.
    """
    file = binary_path(release).with_name(".lock")
    busy = f"another process fetches {release} now; waiting for it ..."
    lock = _acquired(file, lambda: progress(busy))
    try:
        yield
    finally:
        if not any(path != file for path in file.parent.iterdir()):
            file.unlink()
        lock.release()
        with suppress(OSError):
            for folder in (file.parent, file.parent.parent, cache_root()):
                folder.rmdir()


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Hold a lock whose file is there only meanwhile."""
    lock = _acquired(file, lambda: None)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        lock.release()


def _acquired(file: Path, waiting: Callable[[], None]) -> FileLock:
    """Lock a file that may be removed by whoever held it before us."""
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(file)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            waiting()
            lock.acquire()
        probe = FileLock(file)
        try:
            probe.acquire(blocking=False)
        except Timeout:
            return lock
        # There is another file now, or none: ours was removed while we waited.
        probe.release()
        lock.release()


def store(release: str, checked: Path) -> Path:
    """Move a checked file into its place; the checksum is written last.

    Args:
        release: whose binary it is.
        checked: a file in the same file system as the cache; it is gone afterwards.
    """
    path = binary_path(release)
    checked.chmod(0o755)
    digest = sha256_of(checked)
    # An old checksum must not vouch for a half-replaced pair, so it goes first.
    _sidecar(path).unlink(missing_ok=True)
    os.replace(checked, path)
    fresh = path.with_name(f"{BINARY}.sha256.new")
    fresh.write_text(f"{digest}\n", encoding="ascii")
    os.replace(fresh, _sidecar(path))
    return path
