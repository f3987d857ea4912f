"""Writes files so that a reader finds a whole one, and says which one could not be written."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class WriteError(OSError):
    """A file cannot be written; as text: its name, and why."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a place to write to; what was written there becomes ``path`` in the end.

    Until then, and if it fails, what was at ``path`` stays. A device or a pipe is written to
    directly, and so is a file in a folder that takes no other.

    Raises:
        OSError: the file cannot be written; it has the file's name, also where the system says
            none (a full disk).
    """
    final = Path(os.path.realpath(path))
    direct = final.exists() and not (final.is_file() and os.access(final.parent, os.W_OK))
    place = final if direct else final.with_name(f"{final.name}.partial")
    ours = False
    try:
        if final.is_dir():
            raise _folder(final)
        if not direct:
            _make_anew(place)
            ours = True
        yield place
        if not direct:
            place.replace(final)
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        if ours:
            with contextlib.suppress(OSError):
                place.unlink()


def _make_anew(place: Path) -> None:
    """Make an empty file of our own, whatever had its name.

    A link, also a hard one, would lead what is written elsewhere, and a pipe would wait for a
    reader: whoever put it there meant that.
    """
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(place.lstat().st_mode):
            why = f"{place.name} beside it is a folder; remove or rename that"
            raise OSError(errno.EISDIR, why, str(place))
        place.unlink()
    os.close(os.open(place, _NEW, 0o666))


def make_room(path: Path, *, hard_links: bool = True) -> None:
    """Make room for a file whose name is ours: a link, pipe or device of that name is none of ours.

    A folder for output may come from elsewhere, and a link in it may lead anywhere. A file that a
    person names is another matter: a link is followed there, and a pipe written to.

    Args:
        path: of the file.
        hard_links: also remove a file that has another name besides.

    Raises:
        OSError: it cannot be removed, or is a folder.
    """
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(seen.st_mode):
        raise _folder(path)
    if not stat.S_ISREG(seen.st_mode) or (hard_links and seen.st_nlink > 1):
        path.unlink(missing_ok=True)


def _folder(path: Path) -> WriteError:
    return WriteError(errno.EISDIR, "a folder has this name; remove or rename it", str(path))


def write_own(path: Path, text: str) -> None:
    """``write_text`` for a file whose name is ours, in a folder for output.

    Raises:
        OSError: as ``replacing`` does.
    """
    make_room(path)
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8; names of files in it may hold bytes that are none.

    Raises:
        OSError: as ``replacing`` does.
    """
    with replacing(path) as place:
        place.write_text(text, encoding="utf-8", errors="backslashreplace")
