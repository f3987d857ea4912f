"""Private folders for socket files, held by a lock, and the removal of those nobody holds.

A process that is killed leaves its folder behind. Each folder is locked (``flock`` on the folder
itself) for as long as its owner lives; the kernel lets go of the lock with the process, whatever
ended it, and unlike a process id a lock means the same to all containers that share the folder.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":  # pragma: no branch - there are no locks of folders on Windows
    import fcntl

PREFIX = "wavecheck-zmq-"
"""Only folders with such names are ever removed."""


def held_folder(parent: Path | None = None) -> tuple[Path, int]:
    """Make a private folder and hold it.

    Args:
        parent: where; default: the system's folder for temporary files.

    Returns:
        The folder, and a descriptor: closing it, or our end, lets go of the folder.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with suppress(FileNotFoundError):
            hold = os.open(folder, os.O_RDONLY)
            if _lock(hold) is not False and _is(folder, hold):
                return folder, hold
            # A sweep came between making and locking, and took it.
            os.close(hold)


def sweep(parents: Iterable[Path] | None = None) -> int:
    """Remove our folders that nobody holds any more; return how many.

    A folder is left alone if it is another user's, is held, cannot be locked, or has anything but
    sockets in it.

    Args:
        parents: where to look; default: the system's folder for temporary files and ``/tmp``.
    """
    if sys.platform == "win32":  # pragma: no cover - on Windows nothing is swept
        return 0
    looked = [Path(tempfile.gettempdir()), Path("/tmp")]
    removed = 0
    for parent in dict.fromkeys(looked if parents is None else parents):
        with suppress(OSError):
            for folder in sorted(parent.glob(f"{PREFIX}*")):
                removed += _remove_if_stale(folder)
    return removed


def _remove_if_stale(folder: Path) -> bool:
    try:
        hold = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        if os.fstat(hold).st_uid != os.getuid() or _lock(hold) is not True:
            return False
        names = os.listdir(hold)
        modes = [os.stat(name, dir_fd=hold, follow_symlinks=False).st_mode for name in names]
        if not all(stat.S_ISSOCK(mode) for mode in modes):
            return False
        for name in names:
            os.unlink(name, dir_fd=hold)
        folder.rmdir()
    except OSError:
        # Somebody else is at it; the next start looks again.
        return False
    finally:
        os.close(hold)
    return True


def _lock(hold: int) -> bool | None:
    """Whether the lock is ours now; ``None``: this file system knows no locks."""
    if sys.platform == "win32":  # pragma: no cover - on Windows folders are not locked
        return None
    try:
        fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is(folder: Path, hold: int) -> bool:
    return os.path.samestat(os.stat(folder), os.fstat(hold))
