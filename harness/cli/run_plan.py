"""What one run of scenarios is to be: its flags, what they mean, and how its results are told.

``wavecheck run`` and the pytest plugin both play by such a plan, so they cannot disagree.
"""

from __future__ import annotations

import datetime as dt
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from client.protocol.profiles import RELEASES, profile_for
from harness.baseline.ruling import WAIVED, Ruling
from harness.baseline.session import BaselineSession
from harness.cli.against_baseline import Outcome, check_day, day_of, opened, outcome
from harness.cli.catalogue import invariant_doc
from harness.cli.frontend_flags import Environment, check_as_release, check_mutant, fixed_path
from harness.cli.output import (
    STDOUT,
    check_folder,
    check_writable,
    unknown_word,
    usage_error,
)
from harness.cli.pool import Job, Work
from harness.cli.repeating import Repeated
from harness.cli.search_flags import SEARCH_FLAGS, SearchFlags
from harness.cli.selecting import Shard
from harness.cli.spreading import check_executor
from harness.failure import OUT_DEFAULT
from harness.mutants import discover as discover_mutants
from harness.mutants import unseen_note
from harness.reports.diagnostic import Diagnostic
from harness.reports.text import Origin, diagnostics, label
from harness.reports.wording import counted
from harness.results import ScenarioResult
from harness.runner import RunOptions
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.scenario.positions import LINE_BREAKS
from harness.targets.base import TargetInfo
from harness.targets.registry import is_black_box
from harness.targets.request import TargetRequest, is_reference
from harness.targets.target import Target
from harness.verdict import ERROR, counts
from harness.version import tool_version

FRONTEND = "vllm-rs"
"""The kind of target that starts a frontend's process."""
ADAPTER = "adapter"
"""The kind of target that is driven through a command of the user's."""
OURS = ("sim", "zmq", ADAPTER)
"""Targets that take a mutant as they are: our own client, or a command that may know it."""
ALL = "all"
"""``--profile all``: each release to which a scenario applies."""
TIMEOUT_S = 300
"""Default time limit of one scenario, in seconds: a safety net far above what any needs. Each
schedule adds one second."""


@dataclass(frozen=True, kw_only=True)
class RunFlags:
    """The parameters of ``wavecheck run`` but those on the search, as click gives them."""

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
    baseline: Path | None
    today: dt.date | None
    annotations: str

    @property
    def partial(self) -> bool:
        """Whether a part of what is named is played on purpose."""
        part = (self.word, self.quick, self.shard, self.last_failed, self.stop_first)
        return any(part)

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


class RunPlan:
    """The flags of one run, checked, and what follows from them.

    Attributes:
        flags: with ``allow_known`` as it applies to the target.
        search: which orders of events are tried.
        baseline: what the results are compared with, once the words have been checked.
    """

    def __init__(self, parameters: dict[str, Any]) -> None:
        """Take the parameters of ``wavecheck run`` by their names.

        Raises:
            CommandError: there is no such strategy.
        """
        rest = dict(parameters)
        self.search = SearchFlags.of(**{name: rest.pop(name) for name in SEARCH_FLAGS})
        given = RunFlags(**rest)
        self.baseline: BaselineSession | None = None
        self._asked_for_known = given.allow_known
        # Our own client has no known faults; what is left are those that the protocol's rules lead to.
        self.flags = replace(given, allow_known=given.allow_known or given.is_ours)

    # --- checks -----------------------------------------------------------------------------

    def check_words(self) -> None:
        """Refuse what is wrong by itself, whatever the target says.

        Raises:
            CommandError: as above (exit code 2).
        """
        flags = self.flags
        self.search.check_ordered(flags.target, ordered=flags.target == "sim")
        check_executor(flags.executor, flags.jobs, flags.attach)
        mutants = [mutant.id for mutant in discover_mutants()]
        if flags.mutant is not None and flags.mutant not in mutants:
            msg = "mutant"
            raise unknown_word(msg, flags.mutant, mutants)
        if flags.profile is not None and flags.profile not in {*RELEASES, ALL}:
            msg = "release"
            raise unknown_word(msg, flags.profile, [*RELEASES, ALL])
        self._check_files()
        self._open_baseline()
        if flags.mutant is not None and flags.target not in OURS:
            check_mutant(flags.mutant, [flags.frontend])

    def _open_baseline(self) -> None:
        flags = self.flags
        check_day(flags.today, flags.baseline)
        if flags.baseline is None:
            return
        self.baseline = BaselineSession(
            opened(flags.baseline),
            day_of(flags.today),
            target=flags.target,
            allow_known=flags.allow_known,
            strict=flags.strict,
        )

    def _check_files(self) -> None:
        flags = self.flags
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

    def check_target_flags(self) -> None:
        """Refuse flags that the kind of target cannot serve, before it is opened.

        Raises:
            CommandError: as above (exit code 2).
        """
        flags = self.flags
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
        flags = self.flags
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

    # --- what is played ---------------------------------------------------------------------

    @property
    def each_release(self) -> bool:
        """Whether a scenario is played in each release to which it applies."""
        return self.flags.profile == ALL

    @property
    def options(self) -> RunOptions:
        """What is fixed for all scenarios."""
        flags, search = self.flags, self.search
        return RunOptions(
            target=flags.target,
            frontend=fixed_path(flags.frontend),
            profile=flags.release,
            schedules=search.schedules,
            strategy=search.strategy,
            limits=search.limits,
            budget_s=search.budget_s,
            seed=search.seed,
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

    @property
    def request(self) -> TargetRequest:
        """What is opened."""
        return self.options.request

    def _time_limit_s(self) -> float:
        """The safety net of one scenario: far above what it needs."""
        search = self.search
        if search.open_ended:
            return TIMEOUT_S + 2 * (search.budget_s or 0)
        return TIMEOUT_S + search.schedules + (search.budget_s or 0)

    def notes(self, target: Target) -> list[str]:
        """What a reader should know of the target before the results."""
        flags = self.flags
        notes = list(target.info.notes) if target.black_box else []
        profile = target.profile(flags.release)
        if profile is None and flags.release is not None:
            profile = profile_for(flags.release)
        # Without one each scenario chooses its own, one to which it applies.
        if profile is not None and (
            note := unseen_note(flags.mutant, profile, black_box=flags.frontend is not None)
        ):
            notes.append(note)
        return notes

    def work(self, play: Work) -> Work:
        """What carries out a job. ``play`` plays a scenario once."""
        flags = self.flags
        if flags.repeat == 1:
            return play
        return Repeated(play, flags.repeat, by_known=self._asked_for_known)

    def jobs(self, loaded: Sequence[LoadedScenario]) -> list[Job]:
        """One job for each scenario and release."""
        flags, options = self.flags, self.options
        # Elsewhere nobody chooses the order; and repeats are compared as wholes.
        divisible = flags.target == "sim" and flags.repeat == 1 and options.search().divisible
        if not self.each_release:
            return [Job(one, options, flags.repeat, divisible) for one in loaded]
        return [
            Job(one, replace(options, profile=release), flags.repeat, divisible)
            for one in loaded
            for release in selection.releases_of(one.scenario, RELEASES)
        ]

    # --- what is told -----------------------------------------------------------------------

    def headline(self, info: TargetInfo, scenarios: int | None = None) -> str:
        """All settings in one line. ``scenarios``: how many, where that is known."""
        flags, search = self.flags, self.search
        parts = [] if scenarios is None else [counted(scenarios, "scenario")]
        parts.append(f"target {info.kind} {info.version}")
        if (profile := flags.as_release or flags.profile) is not None:
            parts.append(f"profile {profile}")
        if flags.attach is not None:
            parts.append(f"attached to {flags.attach}")
        parts += [f"frontend-arg {shlex.quote(word)}" for word in flags.frontend_arg]
        parts += [f"frontend-env {name}" for name, _ in flags.frontend_env]
        if flags.mutant is not None:
            parts.append(f"mutant {flags.mutant}")
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

    def ruling(self, result: ScenarioResult) -> Ruling:
        """What the baseline makes of a result; without one nothing."""
        return Ruling() if self.baseline is None else self.baseline.rule(result)

    def outcome(self, results: Sequence[ScenarioResult], *, interrupted: bool) -> Outcome:
        """What all results come to."""
        flags = self.flags
        return outcome(
            results,
            self.baseline,
            allow_known=flags.allow_known,
            strict=flags.strict,
            interrupted=interrupted,
            partial=flags.partial,
        )

    def fails(self, result: ScenarioResult) -> bool:
        """Whether a result makes the run red by a violation, or what counts as one."""
        flags = self.flags
        if self.baseline is not None:
            return self.ruling(result).fails
        return counts(result, allow_known=flags.allow_known, strict=flags.strict)

    def passes_as_known(self, result: ScenarioResult) -> bool:
        """Whether a result is violated, and does not count because all of that is known."""
        return self.label(result) == "known"

    def label(self, result: ScenarioResult) -> str:
        """The word for a result."""
        if self.ruling(result).waived:
            return WAIVED
        return label(result, allow_known=self.flags.allow_known)

    def is_bad(self, result: ScenarioResult) -> bool:
        """Whether a result is one to stop at: it fails, or is an error."""
        return result.status == ERROR or self.fails(result)

    def messages(self, result: ScenarioResult, loaded: LoadedScenario | None) -> list[Diagnostic]:
        """What a person is told of a result. ``loaded``: its scenario, where that is known."""
        return diagnostics(
            result,
            invariant_doc,
            allow_known=self.flags.allow_known,
            strict=self.flags.strict,
            origin=None if loaded is None else origin_of(loaded),
            preferred=self.preferred(loaded),
        )

    def preferred(self, loaded: LoadedScenario | None) -> list[str]:
        """What the run is about: a message is about one of these invariants first."""
        killers = [m.killed_by for m in discover_mutants() if m.id == self.flags.mutant]
        return [*killers, *([] if loaded is None else loaded.scenario.invariants)]


def origin_of(loaded: LoadedScenario) -> Origin:
    """Where a scenario stands, with the places of its steps."""
    places = (loaded.positions.find(("steps", i)) for i in range(len(loaded.scenario.steps)))
    builtin = selection.is_builtin(loaded.path)
    return Origin(
        loaded.id if builtin else str(loaded.path),
        tuple((place.line, place.column) for place in places),
        tuple(LINE_BREAKS.split(loaded.text)),
        builtin=builtin,
    )


def _same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
