"""``wavecheck run``: play scenarios and judge."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.cli import annotating, completing
from harness.cli.against_baseline import Outcome, rule_of, today_option
from harness.cli.catalogue import invariant_doc
from harness.cli.frontend_flags import (
    start_options,
)
from harness.cli.last_failed import Failed, elsewhere, recall, remember
from harness.cli.output import (
    CommandError,
    Folder,
    Output,
    Progress,
    Trouble,
    json_option,
    usage_error,
)
from harness.cli.pool import Batch, Job, interruptible, run_jobs
from harness.cli.run_plan import TIMEOUT_S, RunPlan
from harness.cli.search_flags import search_options
from harness.cli.selecting import Part, chosen, part_options
from harness.cli.so_far import SoFar, event_list
from harness.cli.spreading import open_executor, spreading_options
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import run_document
from harness.reports.junit import junit, write_junit
from harness.reports.not_judged import not_judged_text
from harness.reports.text import result_line, summary_line
from harness.reports.visible import printable
from harness.results import ScenarioResult
from harness.runner import run_scenario
from harness.scenario.loader import LoadedScenario
from harness.start_failures import StartFailures
from harness.targets.base import TargetError, TargetInfo
from harness.targets.registry import KINDS, open_target
from harness.verdict import NOT_JUDGED, ExitCode

REPEAT_MAX = 10_000
NAMED_MAX = 3
"""How many of the scenarios that were not run are named; the JSON has them all."""
EACH_MAX = 10
"""Results of a run of which each that was not judged has its own line; of more they are told
together, at the end."""
TIMEOUT_MAX_S = 1_000_000
"""Largest time limit, in seconds: more than a week."""

EPILOG = """\b
Examples:
  wavecheck run                                everything, in simulation
  wavecheck run waves/stale-first-request      one scenario by its id
  wavecheck run waves routing --target zmq     two chapters, over real sockets
  wavecheck run mine.yaml more-scenarios/      files and folders of your own
  wavecheck run --schedules 200 --strategy random --seed 7 --jobs 2
  wavecheck run --mutant ID                    see what a known bug looks like
  wavecheck run --target vllm-rs --frontend 0.28.0 --json result.json
  wavecheck run --target vllm-rs --frontend target/release/vllm-rs --as-release 0.33.0 --quick
  wavecheck run --target vllm-rs --frontend 0.33.0 --shard 1/4 --repeat 3
  wavecheck run --schedules 100000 --executor dask://scheduler.example:8786
"""


def a_number(
    _context: click.Context, parameter: click.Parameter, value: float | None
) -> float | None:
    """Refuse ``nan``, which is in every range since it is neither too small nor too large."""
    if value is not None and math.isnan(value):
        msg = "nan is not a number of seconds"
        raise click.BadParameter(msg, param=parameter)
    return value


@click.command("run", epilog=EPILOG)
@click.argument("names", metavar="[PATH|ID]...", nargs=-1, shell_complete=completing.scenario_names)
@click.option(
    "--target",
    type=click.Choice(list(KINDS)),
    default="sim",
    show_default=True,
    help="What is judged: our reference client in simulation (sim) or over real sockets (zmq), "
    "the real Rust frontend (vllm-rs), vLLM's own Python classes (vllm-py), or any client behind "
    "the line protocol (adapter).",
)
@click.option(
    "--frontend",
    metavar="V|PATH",
    shell_complete=completing.frontends,
    help="The real frontend to judge: a vLLM release, fetched if need be, or a binary. "
    "`reference` or reference:V is our own client as a server. Default: the newest known release.",
)
@start_options
@click.option(
    "--attach",
    metavar="ADDRESS",
    help="Drive the frontend at this address, which somebody else started.",
)
@click.option(
    "--adapter",
    metavar="CMD",
    help="The command of an adapter, for --target adapter. Default: ours, over our client.",
)
@click.option(
    "--profile",
    metavar="V|all",
    shell_complete=completing.releases_or_all,
    help="The release whose protocol is spoken and whose promises are judged; all = each one "
    "that applies. Default: the newest that applies.",
)
@search_options
@click.option(
    "--mutant",
    metavar="ID",
    shell_complete=completing.mutant_names,
    help="Judge a reference client that has this known bug.",
)
@part_options
@click.option(
    "--repeat",
    type=click.IntRange(1, REPEAT_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Play each scenario N times; one whose repeats differ is unstable, which counts as a "
    "violation.",
)
@click.option("-x", "stop_first", is_flag=True, help="Stop at the first violation or error.")
@spreading_options("1")
@click.option(
    "--timeout",
    type=click.FloatRange(0, TIMEOUT_MAX_S, min_open=True),
    callback=a_number,
    metavar="S",
    help="Safety net: seconds after which one scenario is stopped and counts as an error. "
    f"Default: {TIMEOUT_S}, and 1 more for each schedule.",
)
@click.option(
    "--allow-known",
    is_flag=True,
    help="Violations that a scenario's `known` predicts for this release do not count, and "
    "predicted ones that are missing do. Always so for our own client (sim, zmq, adapter, "
    "--frontend reference): known are only faults that the rules of a release lead to.",
)
@click.option(
    "--strict", is_flag=True, help="What could not be judged counts, and violated `should` rules."
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Fail on regressions only: on what this committed file does not say. Violations that it "
    "waives are shown and do not count (docs/baseline.md).",
)
@today_option
@annotating.annotations_option
@json_option
@click.option("--junit", "junit_file", metavar="FILE", help="Write a JUnit XML report.")
@click.option(
    "--out",
    type=Folder(),
    metavar="DIR",
    help="Where failure files go. Default: wavecheck-out, made at the first failure.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show every event of a failing run behind its message; > marks the witness. Name each "
    "scenario that was not judged, which a run of many counts by reason.",
)
@click.option(
    "--shrink/--no-shrink",
    default=True,
    show_default=True,
    help="Show a failing order of events with as few departures from FIFO as possible.",
)
def run_command(names: tuple[str, ...], **flags: Any) -> int:
    """Play scenarios and judge what the target did.

    PATH is a scenario file or a folder of them, anywhere. ID is a built-in scenario such as
    waves/stale-first-request, or a chapter such as waves. Default: all built-in scenarios.

    A violation shows the broken rule, what was expected beside what was seen, the events in
    order, and the command that replays it.
    """
    with interruptible():
        return int(_Run(names, **flags).go())


def _some(names: Sequence[str]) -> str:
    """The first few names, in brackets."""
    more = ", ..." if len(names) > NAMED_MAX else ""
    return f" ({', '.join(names[:NAMED_MAX])}{more})"


class _Run:
    """One invocation."""

    def __init__(self, names: Sequence[str], **flags: Any) -> None:
        self._plan = RunPlan(flags)
        self._flags = self._plan.flags
        self._names = names
        self._output = Output(self._flags.json_file)
        self._progress = Progress()
        self._told = 0
        self._total = 0
        self._so_far = SoFar(self._flags.allow_known)
        self._loaded: dict[str, LoadedScenario] = {}
        self._starts = StartFailures()
        self._start_told: str | None = None

    def go(self) -> ExitCode:
        """Check the flags, play, report."""
        self._plan.check_words()
        loaded = self._select()
        try:
            info = self._open_target()
        except TargetError as error:
            return self._no_target(error)
        self._loaded = {one.id: one for one in loaded}
        jobs = self._plan.jobs(loaded)
        self._total = len(jobs)
        try:
            self._output.say(self._plan.headline(info, len(loaded)))
            self._tell_progress(jobs)
            batch = run_jobs(
                jobs,
                self._plan.work(run_scenario),
                processes=self._flags.jobs or 1,
                executor=open_executor(self._flags.executor),
                on_result=lambda result: self._tell(result, jobs),
                stops=self._stops,
            )
        except KeyboardInterrupt:
            # Before anything was begun: ``run_jobs`` itself keeps what there is.
            batch = Batch((), interrupted=True, not_run=tuple(range(len(jobs))))
        self._progress.clear()
        for result in batch.results[self._told :]:
            self._print(result)
        if self._starts.hopeless:
            help_text = "the first message above says how it ended, and by which command"
            self._output.show(Diagnostic("error", self._starts.title, help=help_text))
        return self._report(info, jobs, batch)

    # --- before -----------------------------------------------------------------------------

    def _select(self) -> list[LoadedScenario]:
        flags = self._flags
        failed = recall(flags.folder) if flags.last_failed else None
        part = Part(word=flags.word, quick=flags.quick, shard=flags.shard, failed=failed)
        if failed is not None and (note := elsewhere(failed, ())):
            self._output.show(Diagnostic("note", note))
        return chosen(self._names, part)

    def _open_target(self) -> TargetInfo:
        """What the target is; refuses flags that it cannot serve before it is opened."""
        self._plan.check_target_flags()
        try:
            target = open_target(self._plan.request)
        except ValueError as error:
            # An unknown release of the frontend, or a path that is none.
            raise usage_error(str(error)) from error
        for note in self._plan.notes(target):
            self._output.show(Diagnostic("note", note))
        return target.info

    # --- meanwhile --------------------------------------------------------------------------

    def _stops(self, result: ScenarioResult) -> bool:
        about_starts = self._loaded[result.scenario].scenario.connect_fails
        if self._starts.take(result, connect_fails=about_starts):
            return True
        return self._flags.stop_first and self._plan.is_bad(result)

    def _tell(self, result: ScenarioResult, jobs: Sequence[Job]) -> None:
        self._progress.clear()
        self._told += 1
        self._print(result)
        self._tell_progress(jobs)

    def _tell_progress(self, jobs: Sequence[Job]) -> None:
        if self._told < len(jobs):
            name = jobs[self._told].loaded.id
            self._progress.show(f"[{self._told + 1}/{self._total}] {name}{self._so_far}")

    def _told_together(self, result: ScenarioResult) -> bool:
        """Whether it is one of many that could not be judged, and changes nothing."""
        if result.status != NOT_JUDGED or self._total <= EACH_MAX:
            return False
        flags = self._flags
        return not (flags.verbose or flags.strict or self._plan.ruling(result).lines)

    def _print(self, result: ScenarioResult) -> None:
        self._so_far.take(result)
        if self._told_together(result):
            return
        ruling = self._plan.ruling(result)
        allow_known = self._flags.allow_known
        word = self._plan.label(result)
        self._output.say(result_line(result, allow_known=allow_known, word=word))
        for line in ruling.lines:
            self._output.say(f"{'':<10} {printable(line)}")
        if result.start_failure is not None and result.start_failure == self._start_told:
            self._output.say(f"{'':<10} it did not start, as told above")
            return
        self._start_told = result.start_failure or self._start_told
        if ruling.waived and not self._flags.verbose:
            return
        messages = self._plan.messages(result, self._loaded.get(result.scenario))
        for diagnostic in messages:
            self._output.show(diagnostic)
        if self._flags.verbose and messages:
            for line in event_list(result):
                self._output.say(line)
            self._output.say("")

    def _preferred(self, result: ScenarioResult) -> list[str]:
        return self._plan.preferred(self._loaded.get(result.scenario))

    # --- after ------------------------------------------------------------------------------

    def _report(self, info: TargetInfo, jobs: Sequence[Job], batch: Batch) -> ExitCode:
        flags, results = self._flags, batch.results
        outcome = self._plan.outcome(results, interrupted=batch.interrupted)
        code = outcome.code
        trouble = Trouble()
        if flags.junit_file is not None:
            with trouble.kept(flags.junit_file):
                self._write_junit(info, results, Path(flags.junit_file))
        with trouble.kept():
            self._remember(batch)
        # All that is written says the code that the command ends with, as far as it is known.
        left = [jobs[index].loaded.id for index in batch.not_run]
        with trouble.kept():
            self._output.write(
                run_document(
                    info,
                    results,
                    trouble.code(code),
                    left,
                    allow_known=flags.allow_known,
                    strict=flags.strict,
                    baseline=outcome.document,
                )
            )
        code = trouble.code(code)
        for message in outcome.messages:
            self._output.show(message)
        self._annotate(results, outcome)
        together = [result for result in results if self._told_together(result)]
        if (text := not_judged_text(together)) is not None:
            self._output.say(text)
        if left:
            self._output.say(f"not run: {len(left)}{_some(left)}")
        self._output.say(
            summary_line(
                results,
                code,
                allow_known=flags.allow_known,
                strict=flags.strict,
                meaning=outcome.meaning if code is outcome.code else "",
            )
        )
        trouble.show()
        return code

    def _annotate(self, results: Sequence[ScenarioResult], outcome: Outcome) -> None:
        if annotating.wanted(self._flags.annotations):
            found = annotating.of_run(results, self._plan, self._loaded, outcome.comparison)
            annotating.write_annotations(self._output, found)

    def _write_junit(self, info: TargetInfo, results: Sequence[ScenarioResult], path: Path) -> None:
        flags = self._flags
        report = junit(
            results,
            invariant_doc,
            target=info.kind,
            allow_known=flags.allow_known,
            strict=flags.strict,
            preferred=self._preferred,
            rule=rule_of(self._plan.baseline),
        )
        write_junit(report, path)

    def _remember(self, batch: Batch) -> None:
        """Keep what failed, for ``--last-failed``; an interrupted run forgets nothing."""
        flags = self._flags
        failed = [
            Failed(result.scenario, os.path.abspath(self._loaded[result.scenario].path))
            for result in batch.results
            if self._plan.is_bad(result)
        ]
        if failed or not batch.interrupted:
            remember(flags.folder, failed)

    def _no_target(self, error: TargetError) -> ExitCode:
        """The target cannot be had: say so, and leave a document for who asked for one."""
        flags = self._flags
        info = TargetInfo(flags.target, flags.frontend or "", frozenset())
        CommandError([Diagnostic("error", str(error))], ExitCode.HARNESS).show()
        self._output.write(run_document(info, [], ExitCode.HARNESS))
        return ExitCode.HARNESS
