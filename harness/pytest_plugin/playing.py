"""How scenarios are played within one pytest run, by the plan that ``wavecheck run`` has, too."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from _pytest.config import ExitCode as PytestExitCode

from harness.cli.jobs import Job, execute
from harness.cli.output import STDOUT, CommandError, usage_error
from harness.cli.run_cmd import run_command
from harness.cli.run_plan import RunPlan
from harness.files import write_text
from harness.pytest_plugin.items import ScenarioItem
from harness.pytest_plugin.options import as_ours, words_of
from harness.reports.diagnostic import plain
from harness.reports.json_report import run_document, to_text
from harness.results import ScenarioResult
from harness.runner import cached_target, run_scenario
from harness.scenario.loader import builtin_dir
from harness.start_failures import StartFailures
from harness.subsets import in_shard, quick
from harness.targets.base import TargetError, TargetInfo
from harness.verdict import ERROR, ExitCode

IDS = "wavecheck_ids"
"""What a worker process of xdist tells the one that reports: ids of its scenarios."""


class Playing:
    """One pytest run: a plan, the target, the results so far. Registered as a plugin.

    Attributes:
        plan: what the options come to.
    """

    def __init__(self, config: pytest.Config) -> None:
        """Read the options.

        Raises:
            pytest.UsageError: they are wrong.
        """
        self._config = config
        try:
            self.plan = _plan(words_of(config))
        except click.ClickException as error:
            raise pytest.UsageError(_text(error)) from error
        self._info: TargetInfo | None = None
        self._untold: list[str] = []
        self._starts = StartFailures()
        self._results: list[ScenarioResult] = []
        self._ids: set[str] = set()

    # --- before -----------------------------------------------------------------------------

    def root_of(self, path: Path) -> Path | None:
        """The folder that a file's id is relative to: what was named, unless it has a better one.

        As in ``wavecheck run FOLDER``.
        """
        if path.is_relative_to(builtin_dir()) or any(p.name == "scenarios" for p in path.parents):
            return None
        start = self._config.invocation_params.dir
        parts = [arg.partition("::")[0] for arg in self._config.args]
        named = [Path(os.path.realpath(start / part)) for part in parts]
        folders = [folder for folder in named if folder.is_dir() and path.is_relative_to(folder)]
        return max(folders, key=lambda folder: len(folder.parts), default=None)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Leave out what the options leave out, then open the target."""
        ours = [item for item in items if isinstance(item, ScenarioItem)]
        kept = self._kept(ours)
        left_out = [item for item in ours if item.name not in kept]
        if left_out:
            items[:] = [
                item for item in items if not isinstance(item, ScenarioItem) or item.name in kept
            ]
            session.config.hook.pytest_deselected(items=left_out)
        self._ids = {item.job.loaded.id for item in ours if item.name in kept}
        if self._ids and not session.config.option.collectonly and not _is_worker(self._config):
            self._open()

    def _kept(self, items: list[ScenarioItem]) -> set[str]:
        """Names of the items that ``--wavecheck-quick`` and ``--wavecheck-shard`` leave."""
        flags = self.plan.flags
        loaded = {item.job.loaded.id: item.job.loaded for item in items}
        ids = {one.id for one in quick(list(loaded.values()))} if flags.quick else {*loaded}
        if flags.shard is not None:
            ids = {name for name in ids if in_shard(name, *flags.shard)}
        return {item.name for item in items if item.job.loaded.id in ids}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Open the target before worker processes do, each for itself."""
        if _has_workers(self._config) and not session.config.option.collectonly:
            self._open()

    def _open(self) -> None:
        """Open the target.

        Raises:
            pytest.UsageError: it cannot serve what was asked for.
            pytest.exit.Exception: it cannot be had.
        """
        if self._info is not None:
            return
        try:
            self.plan.check_target_flags()
            target = cached_target(self.plan.request)
        except click.ClickException as error:
            raise pytest.UsageError(_text(error)) from error
        except TargetError as error:
            pytest.exit(f"wavecheck: {error}", int(ExitCode.HARNESS))
        except ValueError as error:
            raise pytest.UsageError(as_ours(str(error))) from error
        self._info = target.info
        self._untold.append(self.plan.headline(target.info))
        self._untold += [f"wavecheck: note: {note}" for note in self.plan.notes(target)]

    def pytest_report_header(self) -> list[str]:
        """Say all settings once they are known."""
        lines, self._untold = self._untold, []
        return lines

    def pytest_report_collectionfinish(self) -> list[str]:
        """The same, where the target was opened after the collection."""
        return self.pytest_report_header()

    # --- meanwhile --------------------------------------------------------------------------

    def play(self, job: Job) -> ScenarioResult:
        """Play a scenario as ``wavecheck run`` does, in this process.

        Raises:
            KeyboardInterrupt: interrupted; nothing of the run is left behind.
        """
        with warnings.catch_warnings():
            # Warnings that a test suite turns into errors must not change a verdict.
            warnings.simplefilter("default")
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            warnings.simplefilter("ignore", ImportWarning)
            warnings.simplefilter("ignore", ResourceWarning)
            return execute(job, self.plan.work(run_scenario))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Any:
        """Let the result travel with the report, and a skip name its scenario."""
        report = yield
        if not isinstance(item, ScenarioItem) or item.result is None:
            return report
        if report.skipped and isinstance(report.longrepr, tuple):
            report.longrepr = (str(item.path), 1, report.longrepr[2])
        if report.when == "setup":
            if report.failed and item.result.status == ERROR:
                # pytest asks an item for the text of a failed call only.
                report.longrepr = item.told()
            report.wavecheck = msgspec.to_builtins(item.result)
            connect_fails = item.job.loaded.scenario.connect_fails
            if self._starts.take(item.result, connect_fails=connect_fails):
                item.session.shouldfail = self._starts.title
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a result, wherever it was played."""
        if (found := getattr(report, "wavecheck", None)) is not None:
            self._results.append(msgspec.convert(found, ScenarioResult))

    # --- after ------------------------------------------------------------------------------

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Hear from a worker process which scenarios there are."""
        self._ids |= {*getattr(node, "workeroutput", {}).get(IDS, ())}

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the JSON that was asked for."""
        if _is_worker(self._config):
            self._config.workeroutput[IDS] = sorted(self._ids)  # type: ignore[attr-defined]
            return
        file, info, flags = self.plan.flags.json_file, self._info, self.plan.flags
        if file is None or info is None:
            return
        results = sorted(self._results, key=lambda one: (one.scenario, one.profile))
        known, strict = flags.allow_known, flags.strict
        interrupted = exitstatus == PytestExitCode.INTERRUPTED
        outcome = self.plan.outcome(results, interrupted=interrupted)
        left = sorted(self._ids - {result.scenario for result in results})
        document = run_document(
            info,
            results,
            outcome.code,
            left,
            allow_known=known,
            strict=strict,
            baseline=outcome.document,
        )
        try:
            write_text(Path(file), to_text(document))
        except OSError as error:
            text = f"cannot write {file}: {error.strerror or error}"
            pytest.exit(text, int(ExitCode.HARNESS))


def _plan(words: list[str]) -> RunPlan:
    """Read words as ``wavecheck run`` reads them.

    Raises:
        click.ClickException: they are wrong.
    """
    with run_command.make_context("pytest", words) as context:
        parameters = dict(context.params)
    del parameters["names"]
    plan = RunPlan(parameters)
    plan.check_words()
    if plan.flags.json_file == STDOUT:
        msg = "--json takes the name of a file here: standard output is pytest's"
        raise usage_error(msg)
    return plan


def _text(error: click.ClickException) -> str:
    if isinstance(error, CommandError):
        text = "\n".join(plain(diagnostic) for diagnostic in error.diagnostics)
        return as_ours(text.removeprefix("error: "))
    return as_ours(error.format_message())


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _has_workers(config: pytest.Config) -> bool:
    """Whether processes of xdist play, and this one only reports."""
    return not _is_worker(config) and config.getoption("dist", "no") != "no"
