"""Chapters of scenarios as markers."""

from __future__ import annotations

import pytest

from harness.scenario.loader import builtin_dir

WITH_A_MEANING = frozenset(
    {"filterwarnings", "parametrize", "skip", "skipif", "timeout", "usefixtures", "xfail"}
)
"""Markers that do something; a folder of that name must not."""


def chapters_of(scenario_id: str) -> list[str]:
    """The parts of an id but the last that can be markers."""
    parts = scenario_id.split("/")[:-1]
    return [part for part in parts if part not in WITH_A_MEANING and not part.startswith("_")]


def register(config: pytest.Config, chapter: str) -> None:
    """Declare the marker of a chapter, so that ``--strict-markers`` knows it."""
    line = f"{chapter}: scenarios of the chapter {chapter}"
    if line not in config.getini("markers"):
        config.addinivalue_line("markers", line)


def register_builtin(config: pytest.Config) -> None:
    """Declare those of the built-in scenarios."""
    for folder in sorted(path.name for path in builtin_dir().iterdir() if path.is_dir()):
        register(config, folder)
