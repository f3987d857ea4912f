"""``wavecheck record``: a live session as messages, golden vectors and a scenario."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from client.protocol.ids import RANKS_MAX
from client.protocol.profiles import NEWEST, RELEASES, profile_for
from client.protocol.transport import TransportError
from harness.capture.file import CaptureFileError
from harness.cli.addresses import full_address, joining_options, start_rank_option
from harness.cli.engine_cmd import (
    HINT_S,
    BehaviourFile,
    Show,
    load_behaviour,
)
from harness.cli.gate_lines import GateLines
from harness.cli.output import (
    CommandError,
    Folder,
    Output,
    cannot_write,
    echo,
    json_option,
    unknown_word,
    usage_error,
)
from harness.cli.record_result import tell, tell_nothing
from harness.cli.record_wish import Wish, check_capture, check_new, check_use, duration
from harness.loopback import exposure
from harness.recording.folder import FRAMES, Made, make
from harness.recording.init_addresses import Addresses
from harness.recording.live import Ended, Engines, record_engines, record_proxy
from harness.recording.proxy import Plan
from harness.recording.redaction import NOTE, Redaction
from harness.recording.release import ReleaseGuess
from harness.recording.sink import Sink
from harness.reports.diagnostic import Diagnostic
from harness.scenario.problems import ScenarioFileError
from harness.verdict import ExitCode
from mock_engines.cluster import JoinAddresses
from mock_engines.gates import Gates

EPILOG = """\b
Examples:
  wavecheck record --handshake 127.0.0.1:29550 --engines 2 -o session
  wavecheck record --proxy --handshake 127.0.0.1:29550 --listen 127.0.0.1:29551 -o session
  wavecheck record --proxy --input ipc:///tmp/in --output ipc:///tmp/out --engines 2 \\
      --listen ipc:///tmp/engines -o session
  wavecheck record --from session/frames.jsonl -o again
  wavecheck run session/scenario.yaml

\b
The first has mock engines of ours in it, as `wavecheck engine` has. The second stands between a
frontend and engines of any kind: the frontend is started as usual, the engines are told the
address behind --listen in place of the frontend's. The third does so for engines that are given
their addresses: with --listen ipc:///tmp/engines these are ipc:///tmp/engines-input and -output,
with --listen HOST:PORT they are PORT and the ports behind it.

\b
Exit codes:
  0    something was recorded, however it ended
  2    bad input or wrong use, an address that is in use
  3    an engine, a socket or the disk failed (what was recorded is kept)
  4    nothing was recorded
"""
_SUFFIXES = ("input", "output", "coordinator-input", "coordinator-output")


@click.command("record", epilog=EPILOG)
@joining_options
@click.option(
    "--engines", metavar="N", type=click.IntRange(1, RANKS_MAX), help="How many there are."
)
@start_rank_option
@click.option(
    "--behaviour",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What mock engines do; without it they behave well.",
)
@click.option(
    "--profile",
    "release",
    metavar="V",
    help="Release of the frontend. Mock engines speak it (default: the newest); with --proxy it is "
    "told by the messages.",
)
@click.option(
    "--proxy", is_flag=True, help="Stand between the frontend and engines that are not ours."
)
@click.option(
    "--listen",
    metavar="ADDR",
    callback=full_address,
    help="With --proxy: where the engines connect. Default: a free port on 127.0.0.1.",
)
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    callback=duration,
    help="End after so long, such as 10s or 5m.",
)
@click.option("--from", "source", metavar="CAPTURE", type=click.Path(path_type=Path),
              help="Record nothing: make vectors and scenario out of a capture.")  # fmt: skip
@click.option(
    "-o",
    "--output-dir",
    "folder",
    metavar="DIR",
    type=Folder(),
    default=Path("recording"),
    show_default=True,
    help="Folder of what is made; it must be new or empty.",
)
@click.option("--redact", is_flag=True, help="Replace texts and tokens by others as long.")
@click.option("--verbose", "-v", is_flag=True, help="Show also what mock engines send.")
@json_option
def record_command(
    *,
    handshake: str | None,
    input: str | None,  # noqa: A002  (the option's name)
    output: str | None,
    coordinator_input: str | None,
    coordinator_output: str | None,
    folder: Path,
    source: Path | None,
    json_file: str | None,
    **rest: Any,
) -> int:
    """Record a live session between a frontend and engines, until Ctrl-C.

    Writes DIR/frames.jsonl (a capture, message by message as they pass), DIR/golden (vectors) and
    DIR/scenario.yaml, a skeleton that `wavecheck run` plays. It ends on Ctrl-C, after --for, or
    when the frontend or all engines have left.

    Prompts and outputs of a session may be private: --redact replaces them before anything is
    written.
    """
    addresses = JoinAddresses(handshake, input, output, coordinator_input, coordinator_output)
    wish = Wish(addresses, **rest)
    if wish.release is not None and wish.release not in RELEASES:
        kind = "release"
        raise unknown_word(kind, wish.release, RELEASES)
    check_use(wish, source)
    check_new(folder)
    out = Output(json_file)
    guess = ReleaseGuess(wish.release)
    if source is not None:
        check_capture(source)
        _make_folder(folder)
        path = folder / FRAMES
        try:
            shutil.copyfile(source, path)
        except OSError as error:
            raise cannot_write(path, error) from error
        made = _retold(folder, path, wish.release, source)
        return tell(out, folder, wish, Ended("made of a capture", made.ranks), made)
    if not wish.proxy and wish.release is None:
        guess = ReleaseGuess(NEWEST, "what the mock engines speak")
    return _record(wish, guess, folder, out)


# --- recording ------------------------------------------------------------------------------


def _record(wish: Wish, guess: ReleaseGuess, folder: Path, out: Output) -> int:
    try:
        file = (
            BehaviourFile()
            if wish.behaviour is None
            else load_behaviour(wish.behaviour, wish.ranks)
        )
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error
    _make_folder(folder)
    path = folder / FRAMES
    redaction = Redaction(guess) if wish.redact else None
    try:
        sink = Sink(path, guess, redaction, notes=[NOTE] if wish.redact else [])
    except OSError as error:
        raise cannot_write(path, error) from error
    loop = asyncio.SelectorEventLoop()
    try:
        if wish.proxy:
            ended = loop.run_until_complete(_proxied(wish, sink, out))
        else:
            ended = loop.run_until_complete(_with_engines(wish, guess, file, sink, out))
    except TransportError as error:
        raise usage_error(str(error)) from error
    except ValueError as error:
        raise usage_error(str(error)) from error
    finally:
        sink.close()
        loop.close()
        # What engines say into the void before anybody has answered one of them is no session.
        nothing = not sink.messages or (sink.one_sided and not (ended.failure or sink.failure))
        if nothing:
            _remove(folder, path)
    ended.failure = ended.failure or sink.failure
    if nothing:
        return tell_nothing(wish, ended, out)
    made = _made(folder, path, guess.release, guess.why, redacted=wish.redact)
    return tell(out, folder, wish, ended, made)


def _remove(folder: Path, path: Path) -> None:
    """Leave no folder with nothing in it."""
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


async def _with_engines(
    wish: Wish, guess: ReleaseGuess, file: BehaviourFile, sink: Sink, out: Output
) -> Ended:
    profile = profile_for(guess.release)
    show = Show(wish.ranks, wish.addresses, verbose=wish.verbose, say=out.say)
    show.begins(wish.ranks, profile)
    hint = asyncio.get_running_loop().call_later(HINT_S, show.still_waiting)

    @contextlib.contextmanager
    def lines(gates: Gates) -> Iterator[None]:
        reader = GateLines(gates, out.say)
        reader.start()
        try:
            yield
        finally:
            reader.stop()

    setup = Engines(profile, wish.ranks, wish.addresses, file.engines, file.waves, show, lines)
    try:
        return await record_engines(setup, sink, wish.seconds)
    finally:
        hint.cancel()


async def _proxied(wish: Wish, sink: Sink, out: Output) -> Ended:
    given = wish.addresses
    listen = wish.listen or "tcp://127.0.0.1:*"
    out.say(f"a proxy at {given.handshake or given.input} (Ctrl-C ends)")
    if listen.startswith("tcp://"):
        what = "whoever reaches it can speak to the frontend through this proxy"
        note = exposure("--listen", listen.removeprefix("tcp://").rpartition(":")[0], what)
        if note is not None:
            echo(note, err=True)
    if given.handshake is not None:
        plan = Plan(handshake=given.handshake, listen=listen)
    else:
        assert given.input is not None
        assert given.output is not None
        upstream = Addresses(
            (given.input,), (given.output,), given.coordinator_input, given.coordinator_output
        )
        plan = Plan(upstream=upstream, down=_down(upstream, listen), ranks=wish.ranks)

    def hint() -> None:
        if not sink.messages:
            echo("still waiting: no engine has come yet", err=True)

    timer = asyncio.get_running_loop().call_later(HINT_S, hint)
    try:
        return await record_proxy(plan, sink, wish.seconds, out.say)
    finally:
        timer.cancel()


def _down(upstream: Addresses, listen: str) -> Addresses:
    """Our addresses for engines that are given theirs: names or ports in a row."""

    def address(place: int) -> str:
        if listen.startswith("ipc://"):
            return f"{listen}-{_SUFFIXES[place]}"
        host, _, port = listen.rpartition(":")
        return f"{host}:*" if port == "*" else f"{host}:{int(port) + place}"

    if upstream.coordinator_input is None:
        return Addresses((address(0),), (address(1),))
    return Addresses((address(0),), (address(1),), address(2), address(3))


def _retold(folder: Path, path: Path, release: str | None, source: Path) -> Made:
    """What is made of the copy of a capture, which is nobody's session: one that cannot be told is bad input."""
    try:
        return make(
            folder, path, release=release, why="as --profile or the capture says", redacted=False
        )
    except CaptureFileError as error:
        _remove(folder, path)
        raise usage_error(str(error)) from error
    except ScenarioFileError as error:
        _remove(folder, path)
        first = error.diagnostics()[0]
        told = Diagnostic(
            "error",
            f"this capture cannot be told as a scenario: {first.title}",
            where=str(source),
            expected=first.expected,
            seen=first.seen,
            help=f"wavecheck decode {shlex.quote(str(source))} shows its messages",
        )
        raise CommandError([told], ExitCode.USAGE) from error
    except OSError as error:
        raise cannot_write(folder, error) from error


def _made(folder: Path, path: Path, release: str | None, why: str, *, redacted: bool) -> Made:
    try:
        return make(folder, path, release=release, why=why, redacted=redacted)
    except CaptureFileError as error:
        raise usage_error(str(error)) from error
    except OSError as error:
        raise cannot_write(folder, error) from error
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.HARNESS) from error


def _make_folder(folder: Path) -> None:
    try:
        # What passed may be nobody else's business.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
