"""One thing that a check found, by its path in the data."""

from __future__ import annotations

from dataclasses import dataclass

from harness.scenario.positions import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem before it has a place in a file. ``on_key``: it is the key that is wrong."""

    path: Path
    title: str
    expected: str = ""
    help: str = ""
    seen: str = ""
    on_key: bool = False
