"""The built-in scenarios, loaded once for all tests of a process: reading them takes seconds."""

from __future__ import annotations

import functools

from harness.scenario import selection
from harness.scenario.loader import LoadedScenario


@functools.cache
def every_scenario() -> tuple[LoadedScenario, ...]:
    """All of them, in the order of a run."""
    return tuple(selection.load_all(selection.builtin()))
