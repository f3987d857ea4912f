"""``wavecheck run``: play scenarios and judge."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from client.protocol.profiles import RELEASES, profile_for
from harness.cli.catalogue import invariant_doc
from harness.cli.frontend_flags import (
    Environment,
    check_as_release,
    check_mutant,
    fixed_path,
    start_options,
)
from harness.cli.last_failed import Failed, recall, remember
from harness.cli.output import (
    STDOUT,
    CommandError,
    Folder,
    Output,
    Progress,
    Trouble,
    check_folder,
    check_writable,
    json_option,
    unknown_word,
    usage_error,
)
from harness.cli.pool import Batch, Job, Work, interruptible, run_jobs
from harness.cli.repeating import Repeated
from harness.cli.search_flags import SEARCH_FLAGS, SearchFlags, search_options
from harness.cli.selecting import Part, Shard, chosen, part_options
from harness.cli.so_far import SoFar, event_list
from harness.cli.spreading import check_executor, open_executor, spreading_options
from harness.failure import OUT_DEFAULT
from harness.mutants import discover as discover_mutants
from harness.mutants import unseen_note
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import run_document
from harness.reports.junit import junit, write_junit
from harness.reports.text import Origin, diagnostics, result_line, summary_line
from harness.reports.wording import counted
from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.start_failures import StartFailures
from harness.targets.base import TargetError, TargetInfo
from harness.targets.registry import KINDS, is_black_box, open_target
from harness.targets.request import TargetRequest, is_reference
from harness.targets.target import Target
from harness.verdict import ERROR, ExitCode, counts, exit_code
from harness.version import tool_version

FRONTEND = "vllm-rs"
"""The kind of target that starts a frontend's process."""
ADAPTER = "adapter"
"""The kind of target that is driven through a command of the user's."""
OURS = ("sim", "zmq", ADAPTER)
"""Targets that take a mutant as they are: our own client, or a command that may know it."""
REPEAT_MAX = 10_000
ALL = "all"
"""``--profile all``: each release to which a scenario applies."""
TIMEOUT_S = 300
"""Default time limit of one scenario, in seconds: a safety net far above what any needs. Each
schedule adds one second."""

NAMED_MAX = 3
"""How many of the scenarios that were not run are named; the JSON has them all."""
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
@click.argument("names", metavar="[PATH|ID]...", nargs=-1)
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
    help="The release whose protocol is spoken and whose promises are judged; all = each one "
    "that applies. Default: the newest that applies.",
)
@search_options
@click.option("--mutant", metavar="ID", help="Judge a reference client that has this known bug.")
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
    help="Show every event of a failing run behind its message; > marks the witness.",
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


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


@dataclass(frozen=True, kw_only=True)
class _Flags:
    target: str
    frontend: str | None
    frontend_arg: tuple[str, ...]
    frontend_env: Environment
    as_release: str | None
    attach: str | None
    adapter: str | None
    profile: str | None
    mutant: str | None
    word: str | None
    quick: bool
    shard: Shard | None
    last_failed: bool
    repeat: int
    stop_first: bool
    jobs: int | None
    executor: str | None
    timeout: float | None
    allow_known: bool
    strict: bool
    json_file: str | None
    junit_file: str | None
    out: Path | None
    verbose: bool
    shrink: bool

    @property
    def release(self) -> str | None:
        """The release to judge by, however it was said; not ``all``."""
        return self.as_release or (None if self.profile == ALL else self.profile)

    @property
    def is_ours(self) -> bool:
        """Whether our own client is judged."""
        return self.target in OURS or (self.frontend is not None and is_reference(self.frontend))

    @property
    def folder(self) -> Path:
        """Where failure files go."""
        return self.out if self.out is not None else Path(OUT_DEFAULT)


def _origin(loaded: LoadedScenario) -> Origin:
    places = (loaded.positions.find(("steps", i)) for i in range(len(loaded.scenario.steps)))
    return Origin(str(loaded.path), tuple((place.line, place.column) for place in places))


class _Run:
    """One invocation."""

    def __init__(self, names: Sequence[str], **flags: Any) -> None:
        self._search = SearchFlags.of(
            **{name: flags.pop(name) for name in SEARCH_FLAGS},
        )
        given = _Flags(**flags)
        self._asked_for_known = given.allow_known
        # Our own client has no known faults; what is left are those that the protocol's rules lead to.
        self._flags = replace(given, allow_known=given.allow_known or given.is_ours)
        self._names = names
        self._output = Output(self._flags.json_file)
        self._progress = Progress()
        self._told = 0
        self._total = 0
        self._so_far = SoFar(self._flags.allow_known)
        self._killers = [m.killed_by for m in discover_mutants() if m.id == self._flags.mutant]
        self._named: dict[str, list[str]] = {}
        self._paths: dict[str, str] = {}
        self._origins: dict[str, Origin] = {}
        self._starts = StartFailures()
        self._about_starts: set[str] = set()
        self._start_told: str | None = None

    def go(self) -> ExitCode:
        """Check the flags, play, report."""
        self._check_words()
        loaded = self._select()
        try:
            info = self._open_target()
        except TargetError as error:
            return self._no_target(error)
        self._named = {one.id: one.scenario.invariants for one in loaded}
        self._about_starts = {one.id for one in loaded if one.scenario.connect_fails}
        self._paths = {one.id: os.path.abspath(one.path) for one in loaded}
        self._origins = {
            one.id: _origin(one) for one in loaded if not selection.is_builtin(one.path)
        }
        jobs = self._jobs(loaded)
        self._total = len(jobs)
        try:
            self._output.say(self._headline(info, len(loaded)))
            self._tell_progress(jobs)
            batch = run_jobs(
                jobs,
                self._work(),
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

    def _check_words(self) -> None:
        flags = self._flags
        self._search.check_ordered(flags.target, ordered=flags.target == "sim")
        check_executor(flags.executor, flags.jobs, flags.attach)
        mutants = [mutant.id for mutant in discover_mutants()]
        if flags.mutant is not None and flags.mutant not in mutants:
            msg = "mutant"
            raise unknown_word(msg, flags.mutant, mutants)
        if flags.profile is not None and flags.profile not in {*RELEASES, ALL}:
            msg = "release"
            raise unknown_word(msg, flags.profile, [*RELEASES, ALL])
        if flags.junit_file is not None:
            if flags.junit_file == STDOUT:
                msg = "--junit takes the name of a file, not standard output"
                raise usage_error(msg)
            check_writable(flags.junit_file, "--junit")
            if flags.json_file not in {None, STDOUT} and _same_file(
                flags.junit_file, str(flags.json_file)
            ):
                msg = "--json and --junit name the same file"
                raise usage_error(msg, expected="one file for each report")
        if flags.out is not None:
            check_folder(flags.out, "--out")
        if flags.mutant is not None and flags.target not in OURS:
            check_mutant(flags.mutant, [flags.frontend])

    def _select(self) -> list[LoadedScenario]:
        flags = self._flags
        part = Part(
            word=flags.word,
            quick=flags.quick,
            shard=flags.shard,
            failed=recall(flags.folder) if flags.last_failed else None,
        )
        return chosen(self._names, part)

    def _open_target(self) -> TargetInfo:
        """What the target is; refuses flags that it cannot serve before it is opened."""
        self._check_target_flags()
        try:
            target = open_target(self._request())
        except ValueError as error:
            # An unknown release of the frontend, or a path that is none.
            raise usage_error(str(error)) from error
        if target.black_box:
            for note in target.info.notes:
                self._output.show(Diagnostic("note", note))
        self._tell_of_an_unseen_mutant(target)
        return target.info

    def _tell_of_an_unseen_mutant(self, target: Target) -> None:
        flags = self._flags
        profile = target.profile(flags.release)
        if profile is None and flags.release is not None:
            profile = profile_for(flags.release)
        if profile is None:
            # Each scenario chooses its own, one to which it applies.
            return
        if note := unseen_note(flags.mutant, profile, black_box=flags.frontend is not None):
            self._output.show(Diagnostic("note", note))

    def _request(self) -> TargetRequest:
        flags = self._flags
        return RunOptions(
            target=flags.target,
            frontend=fixed_path(flags.frontend),
            profile=flags.release,
            mutant=flags.mutant,
            frontend_args=flags.frontend_arg,
            frontend_env=flags.frontend_env,
            attach=flags.attach,
            adapter=flags.adapter,
        ).request

    def _check_target_flags(self) -> None:
        flags = self._flags
        self._check_start_flags()
        if not is_black_box(flags.target):
            if flags.frontend is not None:
                msg = f"--frontend does not go with --target {flags.target}"
                raise usage_error(
                    msg,
                    help_text="the reference client speaks every release: use --profile, or "
                    "--target vllm-rs",
                )
        elif flags.profile == ALL:
            msg = f"--profile all does not go with --target {flags.target}"
            raise usage_error(
                msg,
                help_text="the frontend decides the release: run once for each --frontend",
            )

    def _check_start_flags(self) -> None:
        """Refuse flags on how a frontend is started, where none is."""
        flags = self._flags
        given = {
            "--frontend-arg": flags.frontend_arg,
            "--frontend-env": flags.frontend_env,
            "--as-release": flags.as_release,
            "--attach": flags.attach,
        }
        named = next((flag for flag, value in given.items() if value), None)
        if named is not None and flags.target != FRONTEND:
            msg = f"{named} does not go with --target {flags.target}"
            raise usage_error(msg, expected=f"--target {FRONTEND}")
        if flags.attach is not None and flags.frontend is not None:
            msg = "--attach does not go with --frontend"
            raise usage_error(msg, help_text="the frontend runs already; say --as-release V")
        if flags.attach is not None and (flags.frontend_arg or flags.frontend_env):
            msg = "--attach does not go with --frontend-arg or --frontend-env"
            raise usage_error(msg, help_text="who starts the frontend gives it its arguments")
        if flags.adapter is not None and flags.target != ADAPTER:
            msg = f"--adapter does not go with --target {flags.target}"
            raise usage_error(msg, expected="--target adapter --adapter 'CMD ...'")
        frontends = [] if flags.frontend is None else [flags.frontend]
        check_as_release(flags.as_release, frontends, attached=flags.attach is not None)
        if flags.as_release is not None and flags.profile not in {None, flags.as_release}:
            msg = f"--as-release {flags.as_release} contradicts --profile {flags.profile}"
            raise usage_error(msg, help_text="they mean the same for a file; give one")

    def _work(self) -> Work:
        flags = self._flags
        if flags.repeat == 1:
            return run_scenario
        return Repeated(run_scenario, flags.repeat, by_known=self._asked_for_known)

    def _jobs(self, loaded: Sequence[LoadedScenario]) -> list[Job]:
        flags = self._flags
        options = RunOptions(
            target=flags.target,
            frontend=fixed_path(flags.frontend),
            profile=flags.release,
            schedules=self._search.schedules,
            strategy=self._search.strategy,
            limits=self._search.limits,
            budget_s=self._search.budget_s,
            seed=self._search.seed,
            mutant=flags.mutant,
            timeout_s=flags.timeout or self._time_limit_s(),
            allow_known=flags.allow_known,
            strict=flags.strict,
            out=flags.out,
            frontend_args=flags.frontend_arg,
            frontend_env=flags.frontend_env,
            attach=flags.attach,
            adapter=flags.adapter,
            shrink=flags.shrink,
        )
        # Elsewhere nobody chooses the order; and repeats are compared as wholes.
        divisible = flags.target == "sim" and flags.repeat == 1 and options.search().divisible
        if flags.profile != ALL:
            return [Job(one, options, flags.repeat, divisible) for one in loaded]
        return [
            Job(one, replace(options, profile=release), flags.repeat, divisible)
            for one in loaded
            for release in selection.releases_of(one.scenario, RELEASES)
        ]

    def _time_limit_s(self) -> float:
        """The safety net of one scenario: far above what it needs."""
        search = self._search
        if search.open_ended:
            return TIMEOUT_S + 2 * (search.budget_s or 0)
        return TIMEOUT_S + search.schedules + (search.budget_s or 0)

    def _headline(self, info: TargetInfo, scenarios: int) -> str:
        flags = self._flags
        parts = [counted(scenarios, "scenario")]
        parts.append(f"target {info.kind} {info.version}")
        if (profile := flags.as_release or flags.profile) is not None:
            parts.append(f"profile {profile}")
        if flags.attach is not None:
            parts.append(f"attached to {flags.attach}")
        parts += [f"frontend-arg {shlex.quote(word)}" for word in flags.frontend_arg]
        parts += [f"frontend-env {name}" for name, _ in flags.frontend_env]
        if flags.mutant is not None:
            parts.append(f"mutant {flags.mutant}")
        search = self._search
        parts.append(f"strategy {search.strategy}")
        if not search.open_ended:
            parts.append(counted(search.schedules, "schedule"))
        if search.budget_s is not None:
            parts.append(f"at most {search.budget_s:g} s each")
        parts.append(f"seed {search.seed}")
        if flags.repeat > 1:
            parts.append(f"{flags.repeat} repeats")
        if flags.executor is not None:
            parts.append(f"executor {flags.executor}")
        return f"wavecheck {tool_version()}: {', '.join(parts)}"

    # --- meanwhile --------------------------------------------------------------------------

    def _stops(self, result: ScenarioResult) -> bool:
        flags = self._flags
        if self._starts.take(result, connect_fails=result.scenario in self._about_starts):
            return True
        if not flags.stop_first:
            return False
        bad = counts(result, allow_known=flags.allow_known, strict=flags.strict)
        return bad or result.status == ERROR

    def _tell(self, result: ScenarioResult, jobs: Sequence[Job]) -> None:
        self._progress.clear()
        self._told += 1
        self._print(result)
        self._tell_progress(jobs)

    def _tell_progress(self, jobs: Sequence[Job]) -> None:
        if self._told < len(jobs):
            name = jobs[self._told].loaded.id
            self._progress.show(f"[{self._told + 1}/{self._total}] {name}{self._so_far}")

    def _print(self, result: ScenarioResult) -> None:
        self._so_far.take(result)
        allow_known = self._flags.allow_known
        self._output.say(result_line(result, allow_known=allow_known))
        if result.start_failure is not None and result.start_failure == self._start_told:
            self._output.say(f"{'':<10} it did not start, as told above")
            return
        self._start_told = result.start_failure or self._start_told
        messages = diagnostics(
            result,
            invariant_doc,
            allow_known=allow_known,
            strict=self._flags.strict,
            origin=self._origins.get(result.scenario),
            preferred=self._preferred(result),
        )
        for diagnostic in messages:
            self._output.show(diagnostic)
        if self._flags.verbose and messages:
            for line in event_list(result):
                self._output.say(line)
            self._output.say("")

    def _preferred(self, result: ScenarioResult) -> list[str]:
        """What the run is about: the message is about one of these first."""
        return [*self._killers, *self._named.get(result.scenario, ())]

    # --- after ------------------------------------------------------------------------------

    def _report(self, info: TargetInfo, jobs: Sequence[Job], batch: Batch) -> ExitCode:
        flags, results = self._flags, batch.results
        code = exit_code(
            results,
            allow_known=flags.allow_known,
            strict=flags.strict,
            interrupted=batch.interrupted,
        )
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
                )
            )
        code = trouble.code(code)
        if left:
            self._output.say(f"not run: {len(left)}{_some(left)}")
        self._output.say(
            summary_line(results, code, allow_known=flags.allow_known, strict=flags.strict)
        )
        trouble.show()
        return code

    def _write_junit(self, info: TargetInfo, results: Sequence[ScenarioResult], path: Path) -> None:
        flags = self._flags
        report = junit(
            results,
            invariant_doc,
            target=info.kind,
            allow_known=flags.allow_known,
            strict=flags.strict,
            preferred=self._preferred,
        )
        write_junit(report, path)

    def _remember(self, batch: Batch) -> None:
        """Keep what failed, for ``--last-failed``; an interrupted run forgets nothing."""
        flags = self._flags
        failed = [
            Failed(result.scenario, self._paths[result.scenario])
            for result in batch.results
            if result.status == ERROR
            or counts(result, allow_known=flags.allow_known, strict=flags.strict)
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
