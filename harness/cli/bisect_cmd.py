"""``wavecheck bisect``: the first bad or the first good release of a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from client.protocol.profiles import RELEASES
from harness.bisection import (
    FIXED,
    Bisection,
    BisectionError,
    Found,
    NothingJudgedError,
)
from harness.cli.frontend_flags import Environment, process_options
from harness.cli.output import (
    CommandError,
    Folder,
    Output,
    check_folder,
    json_option,
    unknown_word,
    usage_error,
)
from harness.cli.pool import Job, execute, interruptible
from harness.cli.run_cmd import TIMEOUT_MAX_S, a_number
from harness.cli.run_plan import TIMEOUT_S
from harness.cli.selecting import Part, chosen
from harness.invariants import discover as discover_invariants
from harness.reports.diagnostic import Diagnostic
from harness.reports.json_report import SCHEMA
from harness.reports.text import replay_command
from harness.results import ScenarioResult
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario
from harness.targets.base import TargetError
from harness.verdict import (
    ERROR,
    EXPECTATION,
    HELD,
    NOT_JUDGED,
    VIOLATED,
    ExitCode,
    assess,
    why_not_judged,
)
from harness.version import tool_version

KIND = "vllm-rs"
EPILOG = """\b
Examples:
  wavecheck bisect utility/failing-beside-hanging
  wavecheck bisect mine.yaml --good 0.28.0 --bad 0.33.0
  wavecheck bisect waves/rewind-under-a-flood-of-waves --invariant wave.never-rewinds

\b
Exit codes:
  0    found: two releases next to each other, one bad, one good
  2    bad input, or inconsistent ends: both good, both bad, or not what was said of them
  3    the frontend or the harness failed
  4    releases that decide it do not judge the scenario
  130  interrupted
"""


@click.command("bisect", epilog=EPILOG)
@click.argument("name", metavar="PATH|ID")
@click.option("--good", metavar="V", help="A release that keeps the promise.")
@click.option("--bad", metavar="V", help="A release that breaks it.")
@click.option(
    "--invariant",
    metavar="NAME",
    help="Look at this invariant alone, or at `expectation`. Default: any violation is bad.",
)
@process_options
@click.option(
    "--timeout",
    type=click.FloatRange(0, TIMEOUT_MAX_S, min_open=True),
    callback=a_number,
    default=TIMEOUT_S,
    show_default=True,
    metavar="S",
    help="Safety net: seconds after which one release is given up as an error.",
)
@json_option
@click.option(
    "--out",
    type=Folder(),
    metavar="DIR",
    help="Where failure files go. Default: wavecheck-out, made at the first failure.",
)
def bisect_command(name: str, **flags: Any) -> int:
    """Find the release in which a scenario's promise was broken or mended.

    Both ends are played first; then what is between them is halved. Either end may be the
    older one: the answer is the first good release or the first bad one. Without --good and
    --bad the ends are the oldest and the newest release that judge the scenario. A race is
    played as often as the scenario's `trials` says.
    """
    with interruptible():
        return int(_Bisect(name, **flags).go())


class _Bisect:
    """One invocation."""

    def __init__(
        self,
        name: str,
        *,
        good: str | None,
        bad: str | None,
        invariant: str | None,
        frontend_arg: tuple[str, ...],
        frontend_env: Environment,
        timeout: float,
        json_file: str | None,
        out: Path | None,
    ) -> None:
        self._name = name
        self._good, self._bad = good, bad
        self._invariant = invariant
        self._options = RunOptions(
            target=KIND,
            timeout_s=timeout,
            out=out,
            frontend_args=frontend_arg,
            frontend_env=frontend_env,
        )
        self._output = Output(json_file)
        self._results: dict[str, ScenarioResult] = {}

    def go(self) -> ExitCode:
        """Check the flags, search, report."""
        self._check()
        loaded = self._scenario()
        self._output.say(f"wavecheck {tool_version()}: {loaded.id} on {len(RELEASES)} releases")
        bisection = Bisection(RELEASES, lambda release: self._judge(loaded, release))
        found: Found | None = None
        problem = ""
        try:
            found = bisection.search(self._good, self._bad)
            code = ExitCode.OK if found.exact else ExitCode.NOT_JUDGED
        except NothingJudgedError as error:
            problem, code = str(error), ExitCode.NOT_JUDGED
        except BisectionError as error:
            problem, code = str(error), ExitCode.USAGE
        except TargetError as error:
            problem, code = str(error), ExitCode.HARNESS
        except KeyboardInterrupt:
            problem, code = "interrupted before the release was found", ExitCode.INTERRUPTED
        if found is not None:
            self._say(found)
        self._output.write(self._document(loaded, bisection, found, problem, code))
        if problem:
            helps = {ExitCode.USAGE: "name two releases that differ with --good and --bad"}
            message = Diagnostic("error", problem, where=loaded.id, help=helps.get(code, ""))
            raise CommandError([message], code)
        return code

    # --- before -----------------------------------------------------------------------------

    def _check(self) -> None:
        for flag, release in (("--good", self._good), ("--bad", self._bad)):
            if release is not None and release not in RELEASES:
                kind = f"{flag} release"
                raise unknown_word(kind, release, RELEASES)
        names = [EXPECTATION, *sorted(cls.id for cls in discover_invariants())]
        if self._invariant is not None and self._invariant not in names:
            msg = "invariant"
            raise unknown_word(msg, self._invariant, names)
        if self._options.out is not None:
            check_folder(self._options.out, "--out")

    def _scenario(self) -> LoadedScenario:
        loaded = chosen([self._name], Part())
        if len(loaded) != 1:
            msg = f"'{self._name}' is {len(loaded)} scenarios; bisect takes one"
            some = ", ".join(one.id for one in loaded[:3])
            raise usage_error(msg, expected=f"one scenario, such as {some}")
        return loaded[0]

    # --- meanwhile --------------------------------------------------------------------------

    def _judge(self, loaded: LoadedScenario, release: str) -> bool | None:
        """Play one release; ``None``: it does not judge it.

        Raises:
            TargetError: the release could not be played.
        """
        if not selection.applies(loaded.scenario, release):
            # Said without the binary, which may not even be here.
            self._tell(release, None, f"does not apply (applies to {loaded.scenario.profiles})")
            return None
        options = RunOptions(
            target=self._options.target,
            frontend=release,
            timeout_s=self._options.timeout_s,
            out=self._options.out,
            frontend_args=self._options.frontend_args,
            frontend_env=self._options.frontend_env,
        )
        result = execute(Job(loaded, options), run_scenario)
        self._results[release] = result
        if result.status == ERROR:
            msg = f"{release}: {result.error}"
            raise TargetError(msg)
        bad = _is_bad(result, self._invariant)
        self._tell(release, bad, _evidence(result, bad))
        return bad

    def _tell(self, release: str, bad: bool | None, evidence: str) -> None:
        self._output.say(f"{_word(bad):<10} {release:<8} {evidence}")

    # --- after ------------------------------------------------------------------------------

    def _say(self, found: Found) -> None:
        fixed = found.direction == FIXED
        first, last = ("good", "bad") if fixed else ("bad", "good")
        starts = f"{self._starts()} start{'' if self._starts() == 1 else 's'} of a frontend"
        if found.exact:
            self._output.say(
                f"first {first} release: {found.first} (last {last} one: {found.last}); {starts}"
            )
        else:
            between = ", ".join(found.between)
            self._output.say(
                f"first {first} release: {found.first}, or one that does not judge it: {between} "
                f"(last {last} one: {found.last}); {starts}"
            )
        shown = self._results[found.last if fixed else found.first]
        if shown.failure_file:
            self._output.say(f"what is bad there: {replay_command(shown.failure_file)}")
        seen = [set(_violated(one)) for one in self._results.values() if one.status == VIOLATED]
        if self._invariant is None and seen and not set.intersection(*seen):
            names = ", ".join(sorted(set.union(*seen)))
            title = f"releases are bad for different reasons: {names}"
            self._output.show(Diagnostic("note", title, help="name one with --invariant"))

    def _starts(self) -> int:
        """How often a frontend was started: once for each trial."""
        return sum(result.trials for result in self._results.values())

    def _document(
        self,
        loaded: LoadedScenario,
        bisection: Bisection,
        found: Found | None,
        problem: str,
        code: ExitCode,
    ) -> dict[str, Any]:
        fixed = found is not None and found.direction == FIXED
        return {
            "schema": SCHEMA,
            "tool": {"version": tool_version()},
            "scenario": loaded.id,
            "invariant": self._invariant,
            "direction": None if found is None else found.direction,
            "first_good": found.first if found is not None and fixed else None,
            "first_bad": found.first if found is not None and not fixed else None,
            "last_good": found.last if found is not None and not fixed else None,
            "last_bad": found.last if found is not None and fixed else None,
            "exact": None if found is None else found.exact,
            "between": [] if found is None else list(found.between),
            "tried": [self._trial(release, bad) for release, bad in bisection.tried.items()],
            "starts": self._starts(),
            "error": problem or None,
            "exit": int(code),
        }

    def _trial(self, release: str, bad: bool | None) -> dict[str, Any]:
        result = self._results.get(release)
        return {
            "release": release,
            "outcome": _word(bad).replace(" ", "_"),
            "violated": [] if result is None else _violated(result),
            "trials": 0 if result is None else result.trials,
            "reason": None if bad is not None or result is None else why_not_judged(result),
            "failure_file": None if result is None else result.failure_file,
        }


def _word(bad: bool | None) -> str:
    return {True: "bad", False: "good", None: "not judged"}[bad]


def _violated(result: ScenarioResult) -> list[str]:
    """Broken invariants, or ``expectation``, whether known or not."""
    found = assess(result)
    return [*found.unknown, *(name for name in found.known if name not in found.unknown)]


def _is_bad(result: ScenarioResult, invariant: str | None) -> bool | None:
    """Whether a result breaks the promise; ``None``: it says nothing of it."""
    if invariant is None:
        return {VIOLATED: True, HELD: False}.get(result.status)
    if invariant == EXPECTATION:
        statuses: Sequence[str] = [e.status for e in result.expectations]
    else:
        statuses = [v.verdict for v in result.verdicts if v.invariant == invariant]
    if VIOLATED in statuses:
        return True
    return False if HELD in statuses else None


def _evidence(result: ScenarioResult, bad: bool | None) -> str:
    many = f"{result.trials} trial{'' if result.trials == 1 else 's'}"
    if bad is None:
        return why_not_judged(result) if result.status == NOT_JUDGED else "not exercised"
    if not bad:
        return f"(not seen in {many})" if result.trials > 1 else f"({result.duration_s:.2f} s)"
    return f"{', '.join(_violated(result))}  (seen at trial {result.trials})"
