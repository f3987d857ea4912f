"""Notices saves: batches of changed files, by ``watchfiles``, each folder by itself.

Folders are watched, not files: an editor that saves by renaming replaces the file, and a watch of
the old one would hear of nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

DEBOUNCE_MS = 400
"""Changes that follow each other within so many milliseconds may come as one batch."""
STEP_MS = 60
"""A batch is complete once nothing has changed for so long."""
LOOK_MS = 250
"""How long one look lasts in which nothing happens."""


class CannotWatchError(Exception):
    """Changes cannot be noticed here; the message says why."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A folder, with or without those below it."""

    folder: Path
    deep: bool = False

    def folders(self) -> Iterator[Path]:
        """The folders that are there now; hidden ones hold nothing that counts."""
        if not self.deep:
            if self.folder.is_dir():
                yield self.folder
            return
        for parent, below, _ in os.walk(self.folder):
            below[:] = [n for n in below if not n.startswith(".") and n != "__pycache__"]
            yield Path(parent)


def batches(spots: Iterable[Spot]) -> Iterator[frozenset[Path]]:
    """Yield files that changed, some at a time; an empty batch once the watch has begun.

    What changes between two batches comes with the second one.

    Raises:
        CannotWatchError: the library is missing, or the system refuses.
        KeyboardInterrupt: interrupted.
    """
    places = tuple(spots)
    fresh: set[Path] = set()
    began = False
    while True:
        known = sorted({folder for spot in places for folder in spot.folders()})
        for paths in _changes(known):
            if fresh:
                # Made before they were watched: what is in them has not been heard of.
                paths |= {file for folder in fresh for file in _files(folder)}
                fresh = set()
            if paths or not began:
                began = True
                yield frozenset(paths)
            current = {folder for spot in places for folder in spot.folders()}
            fresh = current - set(known)
            if fresh or set(known) - current:
                break


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else iter(())


def _changes(folders: list[Path]) -> Iterator[set[Path]]:
    """Changes in some folders; an empty set for each look in which nothing happened."""
    try:
        from watchfiles import watch
    except ModuleNotFoundError as error:
        msg = "the library watchfiles is not installed"
        raise CannotWatchError(msg) from error
    looks = watch(
        *folders,
        watch_filter=None,
        debounce=DEBOUNCE_MS,
        step=STEP_MS,
        rust_timeout=LOOK_MS,
        yield_on_timeout=True,
        recursive=False,
    )
    try:
        for found in looks:
            yield {Path(name) for _, name in found}
    except OSError as error:
        msg = f"files cannot be watched: {error.strerror or error}"
        raise CannotWatchError(msg) from error
    finally:
        looks.close()
