"""``wavecheck explore``: scenarios that nobody wrote, made by Hypothesis and judged like any other."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from client.protocol.profiles import RELEASES
from harness.cli.explore_report import Bag, document, show_errors, show_finding, summary
from harness.cli.frontend_flags import (
    Environment,
    check_as_release,
    check_mutant,
    fixed_path,
    start_options,
)
from harness.cli.output import (
    CommandError,
    Folder,
    Output,
    Progress,
    Trouble,
    cannot_write,
    check_folder,
    json_option,
    unknown_word,
    usage_error,
)
from harness.cli.pool import interruptible, run_jobs
from harness.cli.search_flags import SCHEDULES_MAX, seconds
from harness.cli.taking_up import HuntJournal, InOrder
from harness.failure import OUT_DEFAULT
from harness.mutants import discover as discover_mutants
from harness.mutants import unseen_note
from harness.reports.diagnostic import Diagnostic
from harness.reports.wording import counted
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.strategies import searches
from harness.targets.base import TargetError, TargetInfo
from harness.targets.registry import KINDS, is_black_box, open_target
from harness.verdict import ExitCode
from harness.version import tool_version

PROGRAM = "explore"
"""Name of the optional requirements that this command needs."""
FRONTEND = "vllm-rs"
ADAPTER = "adapter"
OURS = ("sim", "zmq", ADAPTER)
"""Targets that take a mutant as they are."""
BUDGET = "60s"
BUDGET_S = 60.0
BATCHES_MAX = 1_000_000
SCHEDULES = 3
SHRINK = "60s"
EPILOG = """\b
Examples:
  wavecheck explore                                  a minute, against the reference client
  wavecheck explore --mutant coordinator-rewinds     see a known bug found by itself
  wavecheck explore --budget 10m --jobs 2 --seed 7
  wavecheck explore --target vllm-rs --frontend 0.33.0 --keep-going

\b
Exit codes:
  0    nothing found within the budget
  1    a violation was found
  2    wrong use
  3    the target or the harness failed, and nothing was found
  4    nothing could be judged
  130  interrupted
"""


@click.command("explore", epilog=EPILOG)
@click.option(
    "--target",
    type=click.Choice([kind for kind in KINDS if kind != "vllm-py"]),
    default="sim",
    show_default=True,
    help="What is judged, as for `run`.",
)
@click.option(
    "--frontend",
    metavar="V|PATH",
    help="The real frontend to judge, as for `run`: a release, or a binary.",
)
@start_options
@click.option("--adapter", metavar="CMD", help="The command of an adapter, for --target adapter.")
@click.option(
    "--profile",
    metavar="V",
    help="The release whose protocol is spoken. Default: whichever a scenario asks for.",
)
@click.option("--mutant", metavar="ID", help="Judge a reference client that has this known bug.")
@click.option(
    "--budget",
    metavar="TIME",
    callback=seconds,
    help="How long scenarios are looked for: 60s, 10m, 1h. Making one small comes on top. "
    f"Default: {BUDGET}; with --batches: until they are done.",
)
@click.option(
    "--batches",
    type=click.IntRange(1, BATCHES_MAX),
    metavar="N",
    help="Look at N batches of up to ten scenarios, however long that takes.",
)
@click.option(
    "--resume", is_flag=True, help="Go on with the hunt in --out that was interrupted or killed."
)
@click.option(
    "--shrink",
    metavar="TIME",
    default=SHRINK,
    show_default=True,
    callback=seconds,
    help="How long a scenario that was found is made smaller, at most.",
)
@click.option(
    "--schedules",
    type=click.IntRange(1, SCHEDULES_MAX),
    default=SCHEDULES,
    show_default=True,
    metavar="N",
    help="How many orders of events are tried for each scenario, where they can be chosen. "
    "Elsewhere a scenario is played once.",
)
@click.option("--strategy", metavar="S", help="Who picks the orders. Default: auto.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    metavar="N",
    help="The same seed makes the same scenarios, as many as there is time for.",
)
@click.option(
    "--keep-going",
    is_flag=True,
    help="Look on until the time is over; one scenario for each promise that is broken.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Worker processes.",
)
@json_option
@click.option(
    "--out",
    type=Folder(),
    metavar="DIR",
    help=f"Where scenarios and failure files go. Default: {OUT_DEFAULT}/explore.",
)
def explore_command(**flags: Any) -> int:
    """Look for a scenario that breaks a promise.

    Topologies, engines that hang, fail, lie and die, callers who leave, waves that end: Hypothesis
    puts them together from all that a scenario file can say. Every invariant judges every one. One
    that breaks a promise is made small and written as a scenario file like any other, with a file
    that replays it.
    """
    with interruptible():
        return int(_Explore(**flags).go())


@dataclass(frozen=True, kw_only=True)
class _Flags:
    target: str
    frontend: str | None
    frontend_arg: tuple[str, ...]
    frontend_env: Environment
    as_release: str | None
    adapter: str | None
    profile: str | None
    mutant: str | None
    budget: float | None
    batches: int | None
    resume: bool
    shrink: float
    schedules: int
    strategy: str | None
    seed: int
    keep_going: bool
    jobs: int
    json_file: str | None
    out: Path | None

    @property
    def folder(self) -> Path:
        return self.out if self.out is not None else Path(OUT_DEFAULT) / "explore"

    @property
    def budget_s(self) -> float | None:
        """How long is looked; ``None``: until all batches are done."""
        if self.budget is not None or self.batches is not None:
            return self.budget
        return BUDGET_S

    @property
    def chosen_strategy(self) -> str:
        return self.strategy or ("fifo" if self.schedules == 1 else "auto")

    @property
    def options(self) -> RunOptions:
        """The options of each run."""
        return RunOptions(
            target=self.target,
            frontend=fixed_path(self.frontend),
            profile=self.as_release or self.profile,
            schedules=self.schedules if self.target == "sim" else 1,
            strategy=self.chosen_strategy,
            seed=self.seed,
            mutant=self.mutant,
            out=self.folder,
            frontend_args=self.frontend_arg,
            frontend_env=self.frontend_env,
            adapter=self.adapter,
        )

    @property
    def command(self) -> str:
        """The command that looks for the same scenarios again."""
        given = {
            "--target": self.target if self.target != "sim" else None,
            "--frontend": self.frontend,
            "--as-release": self.as_release,
            "--adapter": self.adapter,
            "--profile": self.profile,
            "--mutant": self.mutant,
            "--strategy": self.strategy,
        }
        words = [word for flag, value in given.items() if value for word in (flag, value)]
        words += ["--schedules", str(self.schedules), "--seed", str(self.seed)]
        return shlex.join(["wavecheck", "explore", *words])


class _Explore:
    """One invocation."""

    def __init__(self, **flags: Any) -> None:
        self._flags = _Flags(**flags)
        self._output = Output(self._flags.json_file)
        self._progress = Progress()
        self._began = 0.0

    def go(self) -> ExitCode:
        """Check the flags, hunt, report."""
        self._check()
        try:
            from harness.generate.hunt import Tally, real_clock
        except ImportError as error:
            msg = f"{PROGRAM} needs Hypothesis, which is not installed ({error})"
            raise CommandError(
                [Diagnostic("error", msg, help=f"pip install 'wavecheck[{PROGRAM}]'")],
                ExitCode.USAGE,
            ) from error
        bag = Bag(Tally())
        try:
            info = self._open_target()
        except TargetError as error:
            bag.lost.append(str(error))
            return self._report(TargetInfo(self._flags.target, "", frozenset()), bag)
        flags = self._flags
        journal = HuntJournal(
            flags.options,
            flags.folder,
            keep_going=flags.keep_going,
            resume=flags.resume,
            show=self._output.show,
        )
        over = False
        try:
            self._began = real_clock() - journal.spent_s
            bag.interrupted = self._hunt(bag, info, journal)
            try:
                self._work_out(bag)
            except KeyboardInterrupt:
                bag.interrupted = True
            self._progress.clear()
            code = self._report(info, bag)
            over = not (bag.interrupted or bag.lost)
        finally:
            journal.end(over=over)
        return code

    # --- before -----------------------------------------------------------------------------

    def _check(self) -> None:
        flags = self._flags
        mutants = [mutant.id for mutant in discover_mutants()]
        for kind, word, choices in (
            ("strategy", flags.strategy, list(searches())),
            ("mutant", flags.mutant, mutants),
            ("release", flags.profile, list(RELEASES)),
        ):
            if word is not None and word not in choices:
                raise unknown_word(kind, word, choices)
        if flags.out is not None:
            check_folder(flags.out, "--out")
        if flags.mutant is not None and flags.target not in OURS:
            check_mutant(flags.mutant, [flags.frontend])
        self._check_target_flags()

    def _check_target_flags(self) -> None:
        flags = self._flags
        if flags.frontend is not None and not is_black_box(flags.target):
            msg = f"--frontend does not go with --target {flags.target}"
            raise usage_error(msg, expected=f"--target {FRONTEND}")
        given = {
            "--frontend-arg": flags.frontend_arg,
            "--frontend-env": flags.frontend_env,
            "--as-release": flags.as_release,
        }
        named = next((flag for flag, value in given.items() if value), None)
        if named is not None and flags.target != FRONTEND:
            msg = f"{named} does not go with --target {flags.target}"
            raise usage_error(msg, expected=f"--target {FRONTEND}")
        if flags.adapter is not None and flags.target != ADAPTER:
            msg = f"--adapter does not go with --target {flags.target}"
            raise usage_error(msg, expected="--target adapter --adapter 'CMD ...'")
        frontends = [] if flags.frontend is None else [flags.frontend]
        check_as_release(flags.as_release, frontends, attached=False)
        if flags.as_release is not None and flags.profile not in {None, flags.as_release}:
            msg = f"--as-release {flags.as_release} contradicts --profile {flags.profile}"
            raise usage_error(msg, help_text="they mean the same for a file; give one")

    def _open_target(self) -> TargetInfo:
        flags = self._flags
        try:
            target = open_target(flags.options.request)
        except ValueError as error:
            raise usage_error(str(error)) from error
        if target.black_box:
            for note in target.info.notes:
                self._output.show(Diagnostic("note", note))
        profile = target.profile(flags.options.profile)
        if profile is not None and (
            note := unseen_note(flags.mutant, profile, black_box=flags.frontend is not None)
        ):
            self._output.show(Diagnostic("note", note))
        return target.info

    def _headline(self, info: TargetInfo, kept: int) -> str:
        flags = self._flags
        parts = [f"explore, target {info.kind} {info.version}"]
        if (profile := flags.options.profile) is not None:
            parts.append(f"profile {profile}")
        if flags.mutant is not None:
            parts.append(f"mutant {flags.mutant}")
        if flags.target == "sim":
            many = counted(flags.schedules, "schedule")
            parts.append(f"strategy {flags.chosen_strategy}, {many} each")
        if flags.budget_s is not None:
            parts.append(f"budget {flags.budget_s:g} s")
        if flags.batches is not None:
            parts.append(counted(flags.batches, "batch", "batches"))
        parts.append(f"seed {flags.seed}")
        if kept:
            parts.append(f"{counted(kept, 'part')} of it played before")
        return f"wavecheck {tool_version()}: {', '.join(parts)}"

    # --- the hunt ---------------------------------------------------------------------------

    def _hunt(self, bag: Bag, info: TargetInfo, journal: HuntJournal) -> bool:
        """Look for broken promises; whether somebody interrupted it."""
        from harness.generate.hunt import real_clock
        from harness.generate.shares import Share, count_of, jobs

        flags = self._flags
        budget_s = math.inf if flags.budget_s is None else flags.budget_s
        until = self._began + budget_s
        shares = InOrder(
            journal.shares(self._began),
            count_of(flags.budget_s, flags.batches),
            lambda result: self._take(bag, result),
            self._stops,
        )
        self._output.say(self._headline(info, shares.kept))
        batch = run_jobs(
            jobs(flags.options, shares.left),
            Share(seed=flags.seed, until=until, keep_going=flags.keep_going, batches=flags.batches),
            processes=flags.jobs,
            on_result=shares.take,
            stops=self._stops,
            on_done=lambda _index, result: journal.keep(result, self._began, real_clock()),
            wanted=lambda _index: real_clock() < until,
        )
        shares.finish()
        return batch.interrupted

    def _stops(self, result: ScenarioResult) -> bool:
        from harness.generate.shares import ShareResult

        if not isinstance(result, ShareResult) or result.hopeless:
            return True
        return bool(result.found) and not self._flags.keep_going

    def _take(self, bag: Bag, result: ScenarioResult) -> None:
        from harness.generate.shares import ShareResult

        if not isinstance(result, ShareResult):
            bag.lost.append(result.error or "a share was lost")
            return
        bag.tally.add(result.tally)
        bag.hopeless = bag.hopeless or result.hopeless
        there = {one.violated for one in bag.found}
        bag.found += [one for one in result.found if one.violated not in there]
        tally = bag.tally
        self._progress.show(
            f"{counted(tally.scenarios, 'scenario')}, {counted(tally.schedules, 'schedule')}, "
            f"{len(bag.found)} found"
        )

    def _work_out(self, bag: Bag) -> None:
        """Make each found scenario small, write it, show it; after an interruption as it is."""
        from harness.generate.findings import work_out

        flags = self._flags
        for found in bag.found:
            self._progress.show(f"making the scenario small that breaks {found.violated}")
            try:
                finding = work_out(
                    found,
                    flags.options,
                    hunt_seed=flags.seed,
                    shrink_s=0.0 if bag.interrupted else flags.shrink,
                    command=flags.command,
                )
            except OSError as error:
                raise cannot_write(flags.folder, error) from error
            bag.findings.append(finding)
            self._progress.clear()
            show_finding(self._output, finding, self._began)

    def _report(self, info: TargetInfo, bag: Bag) -> ExitCode:
        flags, trouble = self._flags, Trouble()
        show_errors(self._output, bag, flags.folder, flags.command, trouble)
        with trouble.kept():
            code = trouble.code(bag.code)
            self._output.write(
                document(
                    info,
                    flags.options,
                    bag,
                    code,
                    began=self._began,
                    budget_s=flags.budget_s,
                    batches=flags.batches,
                )
            )
        code = trouble.code(bag.code)
        self._output.say(summary(bag, code))
        trouble.show()
        return code
