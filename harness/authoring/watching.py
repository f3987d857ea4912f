"""From changes of files to what is to be played again. Pure: nobody looks at a disk here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.scenario.loader import SUFFIXES

CODE = ".py"
"""Suffix of files whose change may change any result."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What a watch is about; all paths are absolute.

    Attributes:
        files: scenario files that were selected one by one.
        folders: folders whose scenario files all count, also those that are new.
        code: folders of Python code that decides results, with all below them.
        others: files and folders of which any change counts: a binary, an adapter.
    """

    files: frozenset[Path] = frozenset()
    folders: tuple[Path, ...] = ()
    code: tuple[Path, ...] = ()
    others: tuple[Path, ...] = ()

    def is_scenario(self, path: Path) -> bool:
        """Whether a file is a scenario that counts."""
        if path in self.files:
            return True
        if path.suffix not in SUFFIXES or _hidden(path.name):
            return False
        return any(_below(path, folder) for folder in self.folders)

    def decides_all(self, path: Path) -> bool:
        """Whether a change of a file may change the result of every scenario."""
        if any(path == one or path.is_relative_to(one) for one in self.others):
            return not path.name.endswith((".pyc", "~"))
        return path.suffix == CODE and any(_below(path, folder) for folder in self.code)


@dataclass(frozen=True, slots=True)
class Round:
    """What one save leads to.

    Attributes:
        because: files that changed and count, sorted.
        scenarios: files to be played; empty where ``everything`` is.
        everything: play all that was selected.
        gone: scenario files that are not there any more.
    """

    because: tuple[Path, ...]
    scenarios: tuple[Path, ...] = ()
    everything: bool = False
    gone: tuple[Path, ...] = ()

    @property
    def plays(self) -> bool:
        """Whether anything is to be played."""
        return self.everything or bool(self.scenarios)


def next_round(
    changed: Iterable[Path], watched: Watched, there: Callable[[Path], bool]
) -> Round | None:
    """Decide what changes lead to; ``None``: none of them counts.

    Args:
        changed: files that were written, made, renamed or removed; in any order, with repeats.
        watched: what counts.
        there: whether a file exists now. Editors that save by renaming remove a file first.
    """
    paths = sorted(set(changed))
    scenarios = [path for path in paths if watched.is_scenario(path)]
    decisive = [path for path in paths if watched.decides_all(path) and path not in scenarios]
    if not scenarios and not decisive:
        return None
    gone = tuple(path for path in scenarios if not there(path))
    because = tuple(sorted({*scenarios, *decisive}))
    if decisive:
        return Round(because, everything=True, gone=gone)
    return Round(because, tuple(path for path in scenarios if path not in gone), gone=gone)


def _below(path: Path, folder: Path) -> bool:
    """Whether a file is below a folder, and in no hidden one there."""
    if not path.is_relative_to(folder):
        return False
    return not any(_hidden(part) for part in path.relative_to(folder).parts[:-1])


def _hidden(name: str) -> bool:
    return name.startswith(".") or name == "__pycache__"
