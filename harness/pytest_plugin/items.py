"""Scenarios as pytest's items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest

from harness.cli.pool import Job
from harness.pytest_plugin.chapters import chapters_of, register
from harness.pytest_plugin.telling import Told, told
from harness.reports.diagnostic import plain
from harness.results import ScenarioResult
from harness.scenario.loader import load
from harness.scenario.problems import ScenarioFileError
from harness.verdict import ERROR, NOT_JUDGED, assess, why_not_judged

if TYPE_CHECKING:
    from harness.pytest_plugin.playing import Playing


def items_of(file: pytest.File, playing: Playing) -> Iterator[ScenarioItem]:
    """Load a scenario file: one item, or with ``--wavecheck-profile all`` one for each release.

    Raises:
        CollectError: it is not valid; the text is that of ``wavecheck validate``.
    """
    try:
        loaded = load(file.path, root=playing.root_of(file.path))
    except ScenarioFileError as error:
        text = "\n\n".join(plain(diagnostic) for diagnostic in error.diagnostics())
        raise file.CollectError(text) from error
    several = playing.plan.each_release
    for job in playing.plan.jobs([loaded]):
        name = f"{loaded.id}[{job.options.profile}]" if several else loaded.id
        yield ScenarioItem.of(file, name, job, playing)


class NotHeldError(Exception):
    """A scenario that fails, or could not be judged through a fault of the target or of ours."""


class ScenarioItem(pytest.Item):
    """One scenario. It is played as the item is set up, and judged as it is called.

    So a fault of the target, or of ours, is an error in pytest's sense, and no failure.
    """

    job: Job
    playing: Playing
    result: ScenarioResult | None = None

    @classmethod
    def of(cls, parent: pytest.File, name: str, job: Job, playing: Playing) -> Self:
        """Make the item of a job."""
        made: Self = cls.from_parent(parent, name=name)
        made.job = job
        made.playing = playing
        made.extra_keyword_matches.add(job.loaded.scenario.title)
        made.add_marker("wavecheck")
        for chapter in chapters_of(job.loaded.id):
            register(parent.config, chapter)
            made.add_marker(chapter)
        return made

    def setup(self) -> None:
        """Play.

        Raises:
            NotHeldError: it could not be judged through a fault.
        """
        result = self.result = self.playing.play(self.job)
        for name in ("status", "profile", "mutant", "digest", "failure_file"):
            if (value := getattr(result, name)) is not None:
                self.user_properties.append((f"wavecheck.{name}", value))
        if result.status == ERROR:
            raise NotHeldError

    def runtest(self) -> None:
        """Judge.

        Raises:
            NotHeldError: it fails, as it would in ``wavecheck run``.
        """
        result, plan = self.result, self.playing.plan
        assert result is not None
        if plan.fails(result):
            raise NotHeldError
        if result.status == NOT_JUDGED:
            pytest.skip(f"not judged: {why_not_judged(result)}")
        if waived := plan.ruling(result).waived:
            pytest.xfail(waived)
            raise NotHeldError
        if plan.passes_as_known(result):
            pytest.xfail(f"known fault of {result.profile}: {', '.join(assess(result).known)}")
            # Only with --runxfail: then what would be an expected failure is one.
            raise NotHeldError

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | Told | Any:
        """Tell a result as ``wavecheck run`` does."""
        if isinstance(excinfo.value, NotHeldError):
            return self.told()
        return super().repr_failure(excinfo, style)

    def told(self) -> Told:
        """The text of the result."""
        assert self.result is not None
        detailed = self.config.get_verbosity() > 1
        return told(self.result, self.job.loaded, self.playing.plan, detailed=detailed)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it stands: the beginning of its file."""
        return self.path, 0, self.name
