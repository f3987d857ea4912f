"""Writes files so that a reader finds a whole one, and says which one could not be written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


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
    try:
        if not direct and place.is_symlink():
            # Whoever put it there meant what is behind it to be written.
            place.unlink()
        yield place
        if not direct:
            place.replace(final)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        if not direct:
            with contextlib.suppress(OSError):
                place.unlink()


def unlink_link(path: Path) -> None:
    """Make room for a file whose name is ours: a link of that name is none of ours.

    A folder for output may come from elsewhere, and a link in it may lead anywhere. A file that a
    person names is another matter: a link is followed there.

    Raises:
        OSError: it cannot be removed.
    """
    if path.is_symlink():
        path.unlink()


def write_own(path: Path, text: str) -> None:
    """``write_text`` for a file whose name is ours, in a folder for output.

    Raises:
        OSError: as ``replacing`` does.
    """
    unlink_link(path)
    write_text(path, text)


def write_text(path: Path, text: str) -> None:
    """Write a text file as UTF-8; names of files in it may hold bytes that are none.

    Raises:
        OSError: as ``replacing`` does.
    """
    with replacing(path) as place:
        place.write_text(text, encoding="utf-8", errors="backslashreplace")
