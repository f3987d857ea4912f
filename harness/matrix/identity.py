"""What a cell depends on, as digests: a cell is kept as long as none of it has changed."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

from harness.matrix.model import Column
from harness.scenario.loader import LoadedScenario
from harness.version import tool_version

PACKAGES = ("client", "harness", "mock_engines")


def digest_of(*parts: Any) -> str:
    """SHA-256 of plain data, independent of how it was come by."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def tool_identity() -> str:
    """Version of the tool and digest of its own code, so that a changed check judges afresh."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return f"{tool_version()}+{digest.hexdigest()}"


def cell_key(
    loaded: LoadedScenario, column: Column, *, repeat: int, race_budget_s: float | None
) -> str:
    """What a finished cell is known by: scenario, frontend, tool, and how much is played."""
    return digest_of(
        tool_identity(),
        loaded.id,
        hashlib.sha256(loaded.text.encode()).hexdigest(),
        column.identity,
        column.release,
        repeat,
        race_budget_s,
    )
