"""``wavecheck engine``: mock engines as a process, against any frontend."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import Field, model_validator

from client.protocol.ids import RANKS_MAX
from client.protocol.profiles import NEWEST, RELEASES, Profile, profile_for
from client.protocol.transport import TransportError
from client.transports.sockets import ZmqTransport
from harness.cli.addresses import joining_options, start_rank_option
from harness.cli.gate_lines import GateLines
from harness.cli.output import CommandError, echo, unknown_word, usage_error
from harness.interruption import listened
from harness.reports.diagnostic import Diagnostic
from harness.reports.wording import counted
from harness.scenario.checks_engines import check_behaviour
from harness.scenario.loader import load_model, placed
from harness.scenario.problems import ScenarioFileError
from harness.trace.render import describe
from harness.verdict import ExitCode
from mock_engines import events
from mock_engines.behaviours.model import EngineSpec, Strict
from mock_engines.cluster import Cluster, JoinAddresses
from mock_engines.gates import Gates
from mock_engines.process import ProcessFactory

BRIEF = (
    events.EngineJoined,
    events.AddSeen,
    events.AbortSeen,
    events.UtilitySeen,
    events.StartWaveSeen,
    events.UnknownSeen,
    events.EngineDied,
    events.EngineStalled,
    events.EngineResumed,
)
"""Events that are shown without ``--verbose``: what becomes of engines, what frontends send."""
HINT_S = 5.0
"""After so many seconds without any frontend the user is told what we wait for."""


class BehaviourFile(Strict):
    """A behaviour file: a list of engine entries, or a mapping with ``engines`` and ``waves``."""

    engines: list[EngineSpec] = Field(default_factory=list)
    waves: Literal["auto", "script"] = "auto"

    @model_validator(mode="before")
    @classmethod
    def _list_of_engines(cls, value: Any) -> Any:
        return {"engines": value} if isinstance(value, list) else value


def load_behaviour(path: Path, ranks: range) -> BehaviourFile:
    """Load a behaviour file for engines at ``ranks``.

    Raises:
        ScenarioFileError: it cannot be read, is invalid, has actions that fit no message, or
            names an engine that does not take part.
    """
    shape = "a list of engines, or a mapping with engines and waves"
    model, positions, text = load_model(path, BehaviourFile, shape=shape)
    found = list(check_behaviour(model.engines, ("engines",), ranks))
    if found:
        raise ScenarioFileError(path, text, placed(found, positions))
    return model


def check_addresses(addresses: JoinAddresses) -> None:
    """Refuse addresses that would be ignored, or waited at for ever.

    Raises:
        CommandError: an address of the bootstrapped mode beside ``--handshake``, or a socket file
            in a folder that is not there.
    """
    given = {
        f"--{name.replace('_', '-')}": address
        for name, address in dataclasses.asdict(addresses).items()
        if isinstance(address, str)
    }
    others = [name for name in given if name != "--handshake"]
    if "--handshake" in given and others:
        msg = f"{others[0]} does not go with --handshake"
        raise usage_error(
            msg, help_text="a frontend that answers HELLO tells the other addresses itself"
        )
    for name, address in given.items():
        folder = Path(address.removeprefix("ipc://")).parent
        # A name that begins with @ is in the abstract namespace (Linux), not a file.
        is_file = address.startswith("ipc://") and not address.startswith("ipc://@")
        if is_file and not folder.is_dir():
            msg = f"{name}: there is no folder {folder}"
            raise usage_error(
                msg, help_text="the frontend makes the socket file, but not its folder"
            )


@click.command(
    "engine",
    epilog="""\b
Examples:
  wavecheck engine --handshake 127.0.0.1:29550 --engines 2
  wavecheck engine --handshake 127.0.0.1:29550 --engines 2 --behaviour slow.yaml
  wavecheck engine --input ipc:///tmp/in --output ipc:///tmp/out --engines 2 --start-rank 4

\b
The first joins a frontend that was, or will be, started like this:
  vllm-rs serve MODEL --data-parallel-size 2 --data-parallel-size-local 0 \\
      --data-parallel-address 127.0.0.1 --data-parallel-rpc-port 29550

\b
A behaviour file is a list of engines with rules; docs/scenarios.md has all keys. slow.yaml:
  - engine: 1
    rules:
      - {on: utility, method: is_sleeping, do: {reply: true}}
      - {on: utility, method: "reset_*", do: [{hang: go}, {default: true}]}
      - {on: add, nth: 2, do: [{stream: {tokens: 2, finish: null}}, {die: sentinel}]}
      - {on: start_wave, where: {wave: 3}, do: {stall: go}}
A line "go" on standard input opens the gate go.
""",
)
@joining_options
@click.option(
    "--engines", metavar="N", type=click.IntRange(1, RANKS_MAX), required=True, help="How many."
)
@start_rank_option
@click.option(
    "--behaviour",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What they do; without it they behave well.",
)
@click.option(
    "--profile",
    "release",
    metavar="V",
    default=NEWEST,
    show_default=True,
    help="Release whose shapes they speak: that of the frontend.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show also what the engines send.")
def engine(
    *,
    handshake: str | None,
    input: str | None,  # noqa: A002  (the option's name)
    output: str | None,
    coordinator_input: str | None,
    coordinator_output: str | None,
    engines: int,
    start_rank: int,
    behaviour: Path | None,
    release: str,
    verbose: bool,
) -> int:
    """Run mock engines against any frontend, until Ctrl-C.

    With --handshake they join a frontend that runs the startup handshake, and learn the other
    addresses from it; with --input and --output they register at a bootstrapped one. They may be
    started before the frontend or after it, but join once: start them anew with a new frontend.
    Their global ranks are S to S+N-1.

    An address is HOST:PORT, tcp://HOST:PORT or ipc:///PATH. It is the frontend that binds it.

    Ends with 0 on Ctrl-C, SIGTERM or SIGHUP, with 2 for bad input, with 3 when an engine fails.
    """
    if release not in RELEASES:
        kind = "release"
        raise unknown_word(kind, release, RELEASES)
    addresses = JoinAddresses(handshake, input, output, coordinator_input, coordinator_output)
    check_addresses(addresses)
    ranks = range(start_rank, start_rank + engines)
    try:
        file = BehaviourFile() if behaviour is None else load_behaviour(behaviour, ranks)
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error
    loop = asyncio.SelectorEventLoop()
    try:
        show = Show(ranks, addresses, verbose=verbose)
        loop.run_until_complete(_serve(profile_for(release), ranks, file, addresses, show))
    finally:
        loop.close()
    return int(ExitCode.OK)


class Show:
    """Tells the user what happens, one line each."""

    def __init__(
        self,
        ranks: range,
        addresses: JoinAddresses,
        *,
        verbose: bool,
        say: Callable[[str], object] = echo,
    ) -> None:
        self._say = say
        self._missing = dict.fromkeys(ranks)
        self._where = addresses.handshake or addresses.input
        self._verbose = verbose

    def __call__(self, event: events.MockEvent) -> None:
        """Show an event, if it is one of those that are asked for."""
        if self._verbose or isinstance(event, BRIEF):
            self._say(describe(event))
        if isinstance(event, events.EngineJoined) and event.engine in self._missing:
            del self._missing[event.engine]
            if not self._missing:
                self._say("all engines have joined")

    def begins(self, ranks: range, profile: Profile) -> None:
        """Say who tries to join what."""
        count = counted(len(ranks), "engine")
        span = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        self._say(
            f"{count}, {span}, release {profile.release}, joining {self._where}"
            f" (process {os.getpid()}; Ctrl-C ends)"
        )

    def still_waiting(self) -> None:
        """Say that startup takes long, and what may be the reason."""
        if self._missing:
            ranks = ", ".join(str(rank) for rank in self._missing)
            echo(
                f"still waiting at {self._where}: no startup yet for rank {ranks}. Is the frontend"
                f" up, and does it expect these ranks?",
                err=True,
            )


async def _serve(
    profile: Profile,
    ranks: range,
    file: BehaviourFile,
    addresses: JoinAddresses,
    show: Show,
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = listened()
    for signum in signals:
        loop.add_signal_handler(signum, stopped.set)
    transport = ZmqTransport()
    gates = Gates()
    try:
        try:
            cluster = Cluster(
                transport,
                profile,
                ranks,
                file.engines,
                addresses,
                waves=file.waves,
                gates=gates,
                observer=show,
                real_peer=True,
                process_factory=ProcessFactory(),
                on_failure=lambda _error: stopped.set(),
            )
        except ValueError as error:
            raise usage_error(str(error)) from error
        show.begins(ranks, profile)
        await _until_stopped(cluster, gates, show, stopped)
    finally:
        transport.close()
        for signum in signals:
            loop.remove_signal_handler(signum)


async def _until_stopped(
    cluster: Cluster, gates: Gates, show: Show, stopped: asyncio.Event
) -> None:
    hint = asyncio.get_running_loop().call_later(HINT_S, show.still_waiting)
    lines = GateLines(gates, echo)
    cluster.start()
    lines.start()
    try:
        await stopped.wait()
    finally:
        hint.cancel()
        lines.stop()
        await _stop(cluster)


async def _stop(cluster: Cluster) -> None:
    """Stop the engines; what made one of them fail ends the command."""
    try:
        await cluster.stop()
    except (TransportError, ValueError) as error:
        # An address that no socket can be opened on.
        title = f"an engine could not join: {error}"
        raise usage_error(title) from error
    except Exception as error:
        title = f"an engine failed: {type(error).__name__}: {error}"
        raise CommandError([Diagnostic("error", title)], ExitCode.HARNESS) from error
    echo("engines stopped")
