"""``wavecheck engine``: mock engines as a process, against any frontend."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import click
from pydantic import Field, model_validator

from client.protocol.profiles import NEWEST, RELEASES, Profile, profile_for
from client.protocol.transport import TransportError
from client.transports.sockets import ZmqTransport
from harness.cli.output import CommandError, unknown_word, usage_error
from harness.reports.diagnostic import Diagnostic
from harness.scenario.loader import load_model
from harness.scenario.problems import Problem, ScenarioFileError
from harness.verdict import ExitCode
from mock_engines import events
from mock_engines.behaviours.model import EngineSpec, Strict
from mock_engines.behaviours.registry import spec_problems
from mock_engines.cluster import Cluster, JoinAddresses
from mock_engines.process import ProcessFactory

BRIEF = (
    events.EngineJoined,
    events.AddSeen,
    events.AbortSeen,
    events.UtilitySeen,
    events.StartWaveSeen,
    events.UnknownSeen,
    events.EngineDied,
)
"""Events that are shown without ``--verbose``: joins, deaths, and what the frontend sends."""


class BehaviourFile(Strict):
    """A behaviour file: a list of engine entries, or a mapping with ``engines`` and ``waves``."""

    engines: list[EngineSpec] = Field(default_factory=list)
    waves: Literal["auto", "script"] = "auto"

    @model_validator(mode="before")
    @classmethod
    def _list_of_engines(cls, value: Any) -> Any:
        return {"engines": value} if isinstance(value, list) else value


def load_behaviour(path: Path) -> BehaviourFile:
    """Load a behaviour file.

    Raises:
        ScenarioFileError: it cannot be read, is invalid, or has actions that fit no message.
    """
    model, _, text = load_model(path, BehaviourFile)
    if problems := spec_problems(model.engines):
        raise ScenarioFileError(path, text, [Problem(problem) for problem in problems])
    return model


@click.command(
    "engine",
    epilog="""\b
Examples:
  wavecheck engine --handshake tcp://127.0.0.1:29550 --engines 2
  wavecheck engine --handshake tcp://127.0.0.1:29550 --engines 2 --behaviour slow.yaml
  wavecheck engine --input ipc:///tmp/in --output ipc:///tmp/out --engines 2 --start-rank 4

\b
A behaviour file is a list such as
  - engine: 1
    rules:
      - {on: utility, method: is_sleeping, do: [{reply: true}]}
      - {on: add, nth: 2, do: [{stream: {tokens: 2, finish: null}}, {die: sentinel}]}
""",
)
@click.option("--handshake", metavar="ADDR", help="Handshake address of the frontend.")
@click.option("--input", "input_", metavar="ADDR", help="Input address (bootstrapped frontend).")
@click.option("--output", metavar="ADDR", help="Output address (bootstrapped frontend).")
@click.option("--coordinator-input", metavar="ADDR", help="Where the coordinator publishes.")
@click.option("--coordinator-output", metavar="ADDR", help="Where the coordinator listens.")
@click.option("--engines", metavar="N", type=click.IntRange(min=1), required=True, help="How many.")
@click.option(
    "--start-rank",
    metavar="S",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Global rank of the first.",
)
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
    help="Release whose shapes they speak.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show also what the engines send.")
def engine(
    *,
    handshake: str | None,
    input_: str | None,
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

    With --handshake they join a frontend that runs the startup handshake; with --input and
    --output they register at a bootstrapped one. Ranks are S to S+N-1. Ends with 0 on Ctrl-C or
    SIGTERM, with 2 for bad input, with 3 when an engine fails.
    """
    if release not in RELEASES:
        kind = "release"
        raise unknown_word(kind, release, RELEASES)
    addresses = JoinAddresses(
        handshake=_address(handshake),
        input=_address(input_),
        output=_address(output),
        coordinator_input=_address(coordinator_input),
        coordinator_output=_address(coordinator_output),
    )
    try:
        file = BehaviourFile() if behaviour is None else load_behaviour(behaviour)
    except ScenarioFileError as error:
        raise CommandError(error.diagnostics(), ExitCode.USAGE) from error
    ranks = range(start_rank, start_rank + engines)
    show = _printer(verbose=verbose)
    loop = asyncio.SelectorEventLoop()
    try:
        loop.run_until_complete(_serve(profile_for(release), ranks, file, addresses, show))
    finally:
        loop.close()
    return int(ExitCode.OK)


def _address(text: str | None) -> str | None:
    """Let ``host:port`` stand for ``tcp://host:port``."""
    return text if text is None or "://" in text else f"tcp://{text}"


def _printer(*, verbose: bool) -> Callable[[events.MockEvent], None]:
    def show(event: events.MockEvent) -> None:
        if verbose or isinstance(event, BRIEF):
            click.echo(describe(event))

    return show


def describe(event: events.MockEvent) -> str:
    """Return an event as one line: ``engine 0: UtilitySeen call_id=1 method='sleep' …``."""
    rest = " ".join(
        f"{field.name}={getattr(event, field.name)!r}"
        for field in dataclasses.fields(event)
        if field.name != "engine"
    )
    return f"engine {event.engine}: {type(event).__name__} {rest}"


async def _serve(
    profile: Profile,
    ranks: range,
    file: BehaviourFile,
    addresses: JoinAddresses,
    show: Callable[[events.MockEvent], None],
) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stopped.set)
    transport = ZmqTransport()
    try:
        try:
            cluster = Cluster(
                transport,
                profile,
                ranks,
                file.engines,
                addresses,
                waves=file.waves,
                observer=show,
                real_peer=True,
                process_factory=ProcessFactory(),
                on_failure=lambda _error: stopped.set(),
            )
        except ValueError as error:
            raise usage_error(str(error)) from error
        where = addresses.handshake or addresses.input
        click.echo(
            f"{len(ranks)} engines, ranks {ranks[0]} to {ranks[-1]}, release {profile.release},"
            f" joining {where} (process {os.getpid()}; Ctrl-C ends)"
        )
        cluster.start()
        try:
            await stopped.wait()
        finally:
            await _stop(cluster)
    finally:
        transport.close()
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(signum)


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
    click.echo("engines stopped")
