"""An engine that runs as a child process; ``mock_engines.child_entry`` starts it.

It lives exactly as long as its parent wants: end of file on the control pipe ends it, and on
Linux the kernel kills it when the parent dies.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import socket
from collections.abc import Coroutine
from typing import Any

import msgspec

from client.protocol.messages import Init
from client.protocol.profiles import profile_for
from client.protocol.transport import SocketKind, Transport
from mock_engines import events
from mock_engines.behaviours.model import Action, Join, Rule
from mock_engines.control import ChildControl
from mock_engines.endpoint import Endpoint
from mock_engines.event_json import event_to_json
from mock_engines.gates import Gates
from mock_engines.handle import EngineSetup
from mock_engines.join import JoinAddresses
from mock_engines.spawn import open_child_control
from mock_engines.specs import EngineScript

FLUSH_ADDRESS = "tcp://127.0.0.1:0"
"""A port, not a socket file: a process that is killed while it is halted removes none."""


class ParentWaves:
    """``WaveLink`` whose model lives in the parent."""

    def __init__(self, control: ChildControl) -> None:
        self._control = control
        self.current = 0

    def _tell(self, call: str, **arguments: Any) -> None:
        self._control.send({"do": "waves", "call": call, "arguments": arguments})

    def wave(self, rank: int) -> int:  # noqa: ARG002
        """The rank's current wave, as the parent said last."""
        return self.current

    def enter(self, rank: int) -> None:  # noqa: ARG002
        """The engine joined a coordinator."""
        self._tell("enter")

    def leave(self, rank: int) -> None:  # noqa: ARG002
        """The engine died."""
        self._tell("leave")

    def added(self, rank: int, *, wave: int, paused: bool) -> None:  # noqa: ARG002
        """ADD arrived."""
        self._tell("added", wave=wave, paused=paused)

    def start_dp_wave(self, rank: int, *, wave: int, exclude: int | None) -> None:  # noqa: ARG002
        """START_DP_WAVE took effect."""
        self._tell("start_dp_wave", wave=wave, exclude=exclude)

    def work(self, rank: int, *, unfinished: bool) -> None:  # noqa: ARG002
        """The engine has unfinished requests now, or none."""
        self._tell("work", unfinished=unfinished)

    def stall(self, rank: int) -> None:  # noqa: ARG002
        """The engine stopped for a while."""
        self._tell("stall")

    def resume(self, rank: int) -> None:  # noqa: ARG002
        """The engine goes on."""
        self._tell("resume")


class ChildGates(Gates):
    """Gates that tell the parent what is opened here and who waits here."""

    def __init__(self, control: ChildControl) -> None:
        super().__init__()
        self._control = control

    async def wait(self, name: str, released: Any = None) -> None:
        """Wait as usual; the parent counts us meanwhile."""
        if self.is_open(name):
            return
        self._control.send({"do": "waiting", "gate": name, "change": 1})
        try:
            await super().wait(name, released)
        finally:
            self._control.send({"do": "waiting", "gate": name, "change": -1})

    def open_here(self, name: str) -> None:
        """Open because the parent says so."""
        if name == "*":
            self.open_all()
        else:
            super().open(name)

    def open(self, name: str) -> None:
        """Open, and let the parent open it for all the others."""
        if not self.is_open(name):
            self._control.send({"do": "opened", "gate": name})
        super().open(name)


class Child:
    """Obeys the parent's lines."""

    def __init__(self, control: ChildControl, config: dict[str, Any]) -> None:
        self._control = control
        self._config = config
        self._gates = ChildGates(control)
        for name in config["gates"]:
            self._gates.open_here(name)
        self._waves = ParentWaves(control) if config["waves"] else None
        self._transport = _transport(config["transport"])
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._reporting = False
        self.endpoint = Endpoint(
            self._setup(),
            self._transport,
            vanish=self._vanish,
            halt=self._halt,
            met=config["met"],
        )

    def _setup(self) -> EngineSetup:
        config = self._config
        return EngineSetup(
            rank=config["rank"],
            profile=profile_for(config["release"]),
            script=EngineScript(
                join=Join.model_validate(config["join"]),
                rules=tuple(Rule.model_validate(rule) for rule in config["rules"]),
                process=True,
            ),
            addresses=JoinAddresses(**config["addresses"]),
            data_parallel_size=config["data_parallel_size"],
            real_peer=config["real_peer"],
            gates=self._gates,
            observer=self._observe,
            waves=self._waves,
            on_failure=self._failed,
        )

    def _observe(self, event: events.MockEvent) -> None:
        line: dict[str, Any] = {"do": "event", "event": event_to_json(event)}
        if not isinstance(event, events.OutputSent | events.WaveNoticeSent):
            line["state"] = dict(self.endpoint.state())
        self._control.send_event(line)
        if not self._reporting:
            self._reporting = True
            asyncio.get_running_loop().call_soon(self._report)

    def _failed(self, error: BaseException) -> None:
        self._control.send({"do": "failure", "error": f"{type(error).__name__}: {error}"})

    def _vanish(self) -> None:
        """Go without a word, but not before the parent can read what happened until now."""
        self._report()
        self._spawn(self._kill_self())

    async def _kill_self(self) -> None:
        await self._control.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    def _halt(self, gate: str) -> None:
        """The engine stands still; let the parent stop the process as well."""
        self._spawn(self._ask_to_be_halted(gate))

    async def _ask_to_be_halted(self, gate: str) -> None:
        await self._flush_sockets()
        if self.endpoint.stalled:
            self._control.send({"do": "halt", "gate": gate})

    async def _flush_sockets(self) -> None:
        """Return once what was sent has left the process, as far as its peers take it.

        One thread does the work of all sockets, in the order in which it was asked: when a
        message to ourselves has come round, it has dealt with all that was sent before.
        """
        pull = await self._transport.bind(SocketKind.PULL, FLUSH_ADDRESS)
        push = await self._transport.connect(SocketKind.PUSH, pull.endpoint)
        try:
            await push.send([b""])
            await pull.recv()
        finally:
            push.close()
            pull.close()

    def _report(self) -> None:
        self._reporting = False
        self._control.send({"do": "state", "state": dict(self.endpoint.state())})

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def run(self) -> None:
        """Join, then obey until told to stop, or until the parent is gone."""
        if self._config["rejoin"] is not None:
            self._spawn(self._join_again(Init(**self._config["rejoin"])))
        else:
            self.endpoint.start()
            self._spawn(self._report_join())
        while True:
            line = await self._control.receive()
            if line is None or line["do"] == "stop":
                break
            self._obey(line)
        await self.endpoint.stop()
        self._report()
        await self._control.flush()
        self._transport.close()

    async def _join_again(self, init: Init) -> None:
        self.endpoint.init = init
        await self.endpoint.rejoin()
        await self._report_join()

    async def _report_join(self) -> None:
        await self.endpoint.joined()
        self._report()
        init = self.endpoint.init
        known = None if init is None else msgspec.structs.asdict(init)
        self._control.send({"do": "joined", "init": known})

    def _obey(self, line: dict[str, Any]) -> None:
        match line["do"]:
            case "open":
                self._gates.open_here(line["gate"])
            case "wave":
                if self._waves is not None:
                    self._waves.current = line["wave"]
            case _:
                self._spawn(self._answer(line))

    async def _answer(self, line: dict[str, Any]) -> None:
        error = None
        try:
            await self._carry_out(line)
        except Exception as caught:  # noqa: BLE001  (the parent raises it, with its text)
            error = f"{type(caught).__name__}: {caught}"
        self._report()
        self._control.send({"do": "done", "id": line["id"], "error": error})

    async def _carry_out(self, line: dict[str, Any]) -> None:
        match line["do"]:
            case "act":
                actions = [Action.model_validate(action) for action in line["actions"]]
                await self.endpoint.act(actions, background=line["background"])
            case "idle":
                await self.endpoint.idle()
            case "die":
                await self.endpoint.die(line["how"])
            case "notice":
                await self.endpoint.notice(line["notice"], line["wave"])
            case "rejoin":
                await self.endpoint.rejoin()
            case unknown:
                msg = f"no such command: {unknown!r}"
                raise ValueError(msg)


def _transport(name: str) -> Transport:
    """Make the transport that the parent names, as ``module:class``.

    The name comes at run time, since mock engines know no implementation of a transport.
    """
    module, _, attribute = name.partition(":")
    transport: Transport = getattr(importlib.import_module(module), attribute)()
    return transport


async def _main(descriptor: int, taken: int) -> None:
    pipe = socket.socket(fileno=descriptor)
    control = await open_child_control(pipe, taken)
    config = await control.receive()
    if config is None:
        return
    await Child(control, config).run()
    control.close()


def run(descriptor: int, taken: int) -> None:
    """Run one engine.

    Args:
        descriptor: of the pipe to the parent.
        taken: descriptor of what says that events were taken.
    """
    asyncio.run(_main(descriptor, taken))
