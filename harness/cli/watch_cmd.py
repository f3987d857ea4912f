"""``wavecheck watch``: play again what was saved."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import click

import client
import harness
import mock_engines
from harness.authoring.noticing import CannotWatchError, Spot, batches
from harness.authoring.rerunning import run_again
from harness.authoring.watching import Round, Watched, next_round
from harness.cli.output import STDOUT, CommandError, Output, echo, usage_error
from harness.cli.run_cmd import run_command
from harness.cli.run_plan import RunPlan
from harness.doctor.libraries import pip_install
from harness.reports.diagnostic import Diagnostic
from harness.reports.wording import counted
from harness.scenario import selection
from harness.scenario.loader import SUFFIXES, builtin_dir
from harness.verdict import ExitCode

NAMED_MAX = 3
"""Changed files that are named; more are counted."""
RUN_WORDS = f"{__name__}.run_words"
"""Where the words of a run are kept in the context of the command."""
OWN = ("also", "first_run")
"""Parameters of this command that a run does not take."""


class Play(Protocol):
    """Plays, and returns an exit code; ``compact``: without a line for what held."""

    def __call__(self, words: Sequence[str], *, compact: bool) -> int:
        """See the class."""


Source = Callable[[Sequence[Spot]], Iterable[frozenset[Path]]]


class WatchCommand(click.Command):
    """Takes every option of ``wavecheck run``, and keeps the words as they were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words that a run is to be given."""
        given, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[RUN_WORDS] = list(_words(given, order))
        return super().parse_args(ctx, args)


def _words(given: dict[str, Any], order: Iterable[click.Parameter]) -> Iterator[str]:
    """The options of a run as words, from what was parsed and not converted yet."""
    for option in dict.fromkeys(order):
        if not isinstance(option, click.Option) or option.name in {*OWN, "help"}:
            continue
        value = given[option.name or ""]
        if option.is_flag:
            yield option.opts[0] if value else option.secondary_opts[0]
        elif option.multiple:
            for one in value:
                yield from (option.opts[0], str(one))
        else:
            yield from (option.opts[0], str(value))


@click.command(
    "watch",
    cls=WatchCommand,
    params=[parameter for parameter in run_command.params if parameter.name != "last_failed"],
    epilog="""\b
Examples:
  wavecheck watch mine.yaml
  wavecheck watch my-scenarios/ --mutant fail-fast-fan-out
  wavecheck watch waves --no-first-run               nothing before the first save
  wavecheck watch utility --target vllm-rs --frontend target/release/vllm-rs --as-release 0.33.0

\b
Exit codes:
  2    bad input or wrong use, before anything is watched
  3    files cannot be watched here
  130  interrupted (Ctrl-C), which is how it ends
""",
)
@click.option(
    "--also",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A file or folder that decides results, too: any change in it plays everything again. "
    "May be given again.",
)
@click.option(
    "--first-run/--no-first-run",
    default=True,
    show_default=True,
    help="Play everything once at the beginning.",
)
def watch_command(
    names: tuple[str, ...],
    also: tuple[Path, ...],
    first_run: bool,
    **flags: Any,
) -> int:
    """Play scenarios again when they are saved; takes every option of `wavecheck run`.

    A scenario that was saved is played itself. A change of our Python code in a checkout, of the
    --adapter, of the --frontend or of what --also names plays everything that was selected. Each
    time it is a new process. A save while something is played is played afterwards. It ends with
    Ctrl-C.
    """
    words = click.get_current_context().meta[RUN_WORDS]
    _check(names, {**flags, "names": names})
    watch = Watch(names, words, also, flags.get("adapter"), flags.get("frontend"))
    try:
        watch.go(first_run=first_run)
    except CannotWatchError as error:
        message = Diagnostic("error", str(error), help=pip_install(["wavecheck[watch]"]))
        raise CommandError([message], ExitCode.HARNESS) from error
    except KeyboardInterrupt:
        echo("interrupted", err=True)
    return int(ExitCode.INTERRUPTED)


def _check(names: Sequence[str], flags: dict[str, Any]) -> None:
    """Refuse what no run would take, before anything is watched.

    Raises:
        CommandError: see above.
    """
    if STDOUT in {flags.get("json_file"), flags.get("junit_file")}:
        msg = "one document after the other on standard output is none"
        raise usage_error(msg, expected="--json FILE, which each run replaces")
    rest = {key: value for key, value in flags.items() if key != "names"}
    plan = RunPlan({"last_failed": False, **rest})
    plan.check_words()
    plan.check_target_flags()
    try:
        selection.select(names)
    except selection.SelectionError as error:
        raise usage_error(str(error), help_text=error.help) from error


class Watch:
    """One watch.

    Args:
        names: what was selected; nothing: all built-in scenarios.
        words: options of each run.
        also: further files and folders that decide results.
        adapter: command of an adapter, whose files decide results.
        frontend: a release, or a file that decides results.
        play: plays; returns an exit code.
        source: notices changes; yields an empty batch once it does.
    """

    def __init__(
        self,
        names: Sequence[str],
        words: Sequence[str],
        also: Sequence[Path] = (),
        adapter: str | None = None,
        frontend: str | None = None,
        *,
        play: Play = run_again,
        source: Source = batches,
    ) -> None:
        self._names, self._words = list(names), list(words)
        self._play, self._source = play, source
        self._output = Output(None)
        self.watched = _watched(names, also, adapter, frontend)

    def go(self, *, first_run: bool) -> None:
        """Watch until interrupted, or until the source ends."""
        pending = first_run
        for changed in self._source(_spots(self.watched)):
            if not changed:
                self._output.say(_headline(self.watched))
            found = next_round(changed, self.watched, Path.exists)
            if pending:
                # Whatever was saved until now is played with all the rest.
                pending = False
                self._run(self._names)
            elif found is not None:
                self._tell(found)
                if found.plays:
                    files = [_shown(path) for path in found.scenarios]
                    self._run(self._names if found.everything else files)

    def _tell(self, found: Round) -> None:
        named = ", ".join(_shown(path) for path in found.because[:NAMED_MAX])
        more = len(found.because) - NAMED_MAX
        rest = f" and {counted(more, 'other')}" if more > 0 else ""
        what = "everything" if found.everything else counted(len(found.scenarios), "scenario")
        self._output.say(
            f"\nsaved: {named}{rest}; {f'playing {what}' if found.plays else 'nothing to play'}"
        )
        for path in found.gone:
            self._output.say(f"gone: {_shown(path)}")

    def _run(self, names: Sequence[str]) -> None:
        one = len(names) == 1 and names[0].endswith(SUFFIXES)
        code = self._play([*names, *self._words], compact=not one)
        self._output.say(f"watching: {_MEANINGS.get(code, 'ended')} ({code}); Ctrl-C ends")


_MEANINGS: Mapping[int, str] = {
    ExitCode.OK: "held",
    ExitCode.VIOLATION: "violated",
    ExitCode.USAGE: "could not be played",
    ExitCode.HARNESS: "the target or the harness failed",
    ExitCode.NOT_JUDGED: "nothing was judged",
}


def _watched(
    names: Sequence[str], also: Sequence[Path], adapter: str | None, frontend: str | None
) -> Watched:
    """What is to be watched, from what was named."""
    folders = [_full(Path(name)) for name in names if _own_folder(name)]
    files = {
        _full(found.path)
        for found in selection.select(names)
        if not any(_full(found.path).is_relative_to(folder) for folder in folders)
    }
    if not names:
        folders.append(_full(builtin_dir()))
        files = set()
    others = [_full(path) for path in also]
    if adapter is not None:
        others += [_full(Path(word)) for word in shlex.split(adapter) if Path(word).is_file()]
    if frontend is not None and Path(frontend).is_file():
        others.append(_full(Path(frontend)))
    return Watched(frozenset(files), tuple(folders), _code(), tuple(others))


def _own_folder(name: str) -> bool:
    """Whether a name is a folder, and not the chapter that goes before one."""
    chapters = {found.id.partition("/")[0] for found in selection.builtin()}
    return Path(name).is_dir() and name.rstrip("/") not in chapters


def _code() -> tuple[Path, ...]:
    """Our packages, where they are a checkout that may change."""
    if builtin_dir().parent.name == harness.__name__:
        return ()
    return tuple(
        _full(Path(str(package.__file__)).parent) for package in (client, harness, mock_engines)
    )


def _spots(watched: Watched) -> list[Spot]:
    """The folders in which changes are noticed."""
    shallow = {path.parent for path in watched.files}
    deep = [*watched.folders, *watched.code]
    for path in watched.others:
        if path.is_dir():
            deep.append(path)
        else:
            shallow.add(path.parent)
    return [*(Spot(one) for one in sorted(shallow)), *(Spot(one, deep=True) for one in deep)]


def _headline(watched: Watched) -> str:
    parts = []
    if watched.files:
        parts.append(counted(len(watched.files), "scenario"))
    parts += [f"scenarios below {_shown(folder)}" for folder in watched.folders]
    if watched.code:
        parts.append("the code of wavecheck")
    parts += [_shown(path) for path in watched.others]
    return f"watching {', '.join(parts)}; Ctrl-C ends"


def _full(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _shown(path: Path) -> str:
    here = Path(os.path.realpath("."))
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
