"""Which stories are captured: the fixed set, single ones of it, or any scenarios."""

from __future__ import annotations

from collections.abc import Sequence

from harness.capture.take import builtin_stories
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.scenario.problems import did_you_mean

PREFIX = "capture/"
"""Ids of the fixed set begin with this."""


def chosen_stories(names: Sequence[str]) -> list[LoadedScenario]:
    """Load what is named, in that order; the fixed set where nothing is named.

    Raises:
        SelectionError: there is no such story or scenario.
        InvalidScenariosError: a file is no valid scenario.
    """
    fixed = {story.id: story for story in builtin_stories()}
    if not names:
        return list(fixed.values())
    loaded: dict[str, LoadedScenario] = {}
    for name in names:
        for story in _of(name, fixed):
            loaded.setdefault(story.id, story)
    return list(loaded.values())


def _of(name: str, fixed: dict[str, LoadedScenario]) -> list[LoadedScenario]:
    if name in fixed:
        return [fixed[name]]
    if name.rstrip("/") == PREFIX.rstrip("/"):
        return list(fixed.values())
    if name.startswith(PREFIX):
        msg = f"the fixed set has no story '{name}'"
        raise selection.SelectionError(msg, did_you_mean(name, list(fixed)))
    return selection.load_all(selection.select([name]))
