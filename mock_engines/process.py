"""Engines that run as child processes, so that they can really vanish, and really stall.

A child that stalls holds itself up first, and when what it had sent is gone it asks to be stopped;
we stop it (SIGSTOP) if its gate is still closed, and let it go on when that opens. So both signals
are ours and cannot overtake each other.

Only for real sockets. No child outlives its parent: see ``mock_engines.child``.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mock_engines import aio, events
from mock_engines.behaviours.model import Action
from mock_engines.commands import Commands
from mock_engines.control import Control
from mock_engines.event_json import event_from_json
from mock_engines.handle import EngineSetup
from mock_engines.outlets import ScriptError
from mock_engines.spawn import ChildProcess, open_control, spawn

STOP_S_MAX = 5.0
"""How long a child may take to stop in order before it is killed."""


class ChildError(Exception):
    """A child process failed or ended by itself; the text is its own."""


class ChildKilledError(ChildError):
    """Somebody else killed a child process."""

    def __init__(self, rank: int) -> None:
        """``rank``: of its engine."""
        super().__init__(f"process of engine {rank} was killed (SIGKILL), and not by us")
        self.rank = rank


class ProcessFactory:
    """Makes engines in child processes; give it to ``Cluster(process_factory=…)``.

    Args:
        transport: the transport of the children, as ``module:class``.
    """

    def __init__(self, transport: str = "client.transports.sockets:ZmqTransport") -> None:
        self._transport = transport

    def __call__(self, setup: EngineSetup) -> ProcessEngine:
        """Make the handle of one engine; ``start`` starts its process."""
        return ProcessEngine(setup, self._transport)


class ProcessEngine:
    """One engine in a child process. Implements ``EngineHandle``."""

    def __init__(self, setup: EngineSetup, transport: str) -> None:
        self.setup = setup
        self._transport = transport
        self._process: ChildProcess | None = None
        self._control: Control | None = None
        self._life: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()
        self._connected = asyncio.Event()
        self._state: dict[str, Any] = {"alive": True, "joined": False, "request_ids": []}
        self._commands = Commands()
        self._stalled_at: str | None = None
        self._vanishing = False
        self._killed = False
        self._gates_here: dict[str, int] = {}
        self._init: dict[str, Any] | None = None
        self._in_waves = False
        self._wave_told = 0
        self._failure: BaseException | None = None
        self._stopped = False
        setup.gates.on_open(self._gate_opened)

    # --- EngineHandle -----------------------------------------------------------------------

    def start(self) -> None:
        """Start the process; it joins in the background."""
        self._launch(rejoin=False)

    @property
    def has_joined(self) -> bool:
        """Whether startup is over and the engine lives."""
        return bool(self._joined.is_set() and self._state["alive"] and self._failure is None)

    @property
    def busy(self) -> bool:
        """Whether a command is being carried out; the child itself is asked by ``idle``."""
        return self._commands.busy

    @property
    def stalled(self) -> bool:
        """Whether it reads and sends nothing, until a gate opens."""
        return self._stalled_at is not None

    @property
    def process_id(self) -> int | None:
        """Id of the process, ``None`` when there is none."""
        return None if self._process is None else self._process.pid

    @property
    def stands_still(self) -> bool:
        """Whether somebody else stopped its process."""
        return self._process is not None and self._process.stands_still

    async def joined(self) -> None:
        """Return once startup is over. Raises what it failed with."""
        await self._joined.wait()
        if self._failure is not None:
            raise self._failure

    async def act(self, actions: Sequence[Action], *, background: bool = False) -> None:
        """Carry out actions outside any rule. One that stalls the engine is not waited for."""
        if not self._state["alive"]:
            msg = f"engine {self.setup.rank} is dead and cannot act"
            raise ScriptError(msg)
        if self.stalled and any(action.die == "vanish" for action in actions[:1]):
            await self.die("vanish")
            return
        dumped = [action.model_dump(exclude_unset=True) for action in actions]
        await self._ask(
            {"do": "act", "actions": dumped, "background": background},
            until_stalled=background or any(action.stall is not None for action in actions),
        )

    async def idle(self) -> None:
        """Return once its actions ended or wait, and all its events have arrived.

        A stalled engine is not waited for.
        """
        if self._life is not None and not self.stalled:
            await self._ask({"do": "idle"}, until_stalled=True)

    def state(self) -> Mapping[str, Any]:
        """The engine's state, as it said last."""
        return {**self._state, "joined": self.has_joined, "stalled": self.stalled}

    async def notice(self, notice: str, wave: int) -> None:
        """Send a wave notice that the wave model asks for; a stalled engine does so later."""
        await self._ask({"do": "notice", "notice": notice, "wave": wave}, until_stalled=True)

    def waves_moved(self) -> None:
        """Tell the child its wave, if that has changed."""
        if not self._in_waves or self.setup.waves is None:
            return
        wave = self.setup.waves.wave(self.setup.rank)
        if wave != self._wave_told:
            self._wave_told = wave
            self._tell({"do": "wave", "wave": wave})

    async def die(self, how: str) -> None:
        """Die; ``vanish`` is a SIGKILL, which a stalled engine need not help with."""
        if not self._state["alive"]:
            return
        if how == "vanish" and self.stalled:
            self._state = {**self._state, "alive": False}
            self._killed = True
            self.setup.observer(events.EngineDied(self.setup.rank, how))
            self._kill()
        else:
            await self._ask({"do": "die", "how": how})
        if how == "vanish" and self._life is not None:
            await aio.ended([self._life])

    async def elastic_notice(self, notice: str) -> None:
        """Refuse: engines whose number changes live in the harness's own process."""
        msg = f"engine {self.setup.rank} is a process of its own and sends no {notice}"
        raise ScriptError(msg)

    async def remove(self) -> None:
        """Refuse, for the same reason."""
        msg = f"engine {self.setup.rank} is a process of its own and cannot be removed"
        raise ScriptError(msg)

    async def rejoin(self) -> None:
        """Come back with the same identity, in a new process if the old one is gone."""
        if self._vanishing and self._life is not None:
            # It has said so, and is gone in a moment.
            await aio.ended([self._life])
        if self._life is not None:
            await self._ask({"do": "rejoin"})
            return
        if self._init is None:
            msg = f"engine {self.setup.rank} never learnt where to connect"
            raise ScriptError(msg)
        self._joined.clear()
        self._launch(rejoin=True)
        await self.joined()

    async def stop(self) -> None:
        """Stop the process, kill it if it is halted or takes too long, and reap it. Idempotent."""
        self._stopped = True
        if self._life is None:
            return
        if self._process is not None and self._process.halted:
            self._kill()
        timer = asyncio.get_running_loop().call_later(STOP_S_MAX, self._kill)
        try:
            self._tell({"do": "stop"})
            await aio.ended([self._life])
        except asyncio.CancelledError:
            self._kill()
            raise
        finally:
            timer.cancel()

    # --- the process ------------------------------------------------------------------------

    def _launch(self, *, rejoin: bool) -> None:
        self._connected.clear()
        self._vanishing = self._killed = False
        loop = asyncio.get_running_loop()
        name = f"engine {self.setup.rank}: process"
        self._life = loop.create_task(self._live(rejoin=rejoin), name=name)
        self._life.add_done_callback(self._life_ended)

    def _config(self, *, rejoin: bool) -> dict[str, Any]:
        setup = self.setup
        return {
            "rank": setup.rank,
            "release": setup.profile.release,
            "join": setup.script.join.model_dump(exclude_unset=True),
            "rules": [rule.model_dump(exclude_unset=True) for rule in setup.script.rules],
            "met": self._state.get("rules_met", []),
            "addresses": dataclasses.asdict(setup.addresses),
            "data_parallel_size": setup.data_parallel_size,
            "real_peer": setup.real_peer,
            "gates": list(setup.gates.opened()),
            "waves": setup.waves is not None,
            "transport": self._transport,
            "rejoin": self._init if rejoin else None,
        }

    async def _live(self, *, rejoin: bool) -> None:
        self._process, pipe = await spawn()
        try:
            self._control = await open_control(pipe)
            self._tell({"do": "config", **self._config(rejoin=rejoin)})
            self._connected.set()
            if self._stopped:
                self._tell({"do": "stop"})
            while (line := await self._control.receive()) is not None:
                self._take(line)
        except ConnectionError:
            # The other end is gone, and so is its holder, who was not ended by us.
            self._process.make_sure()
            raise
        except BaseException:
            self._kill()
            raise
        finally:
            if self._control is not None:
                self._control.close()
                self._control = None
            await self._process.wait()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _life_ended(self, task: asyncio.Task[None]) -> None:
        code = self._process.exit_code if self._process is not None else None
        killed = (
            self._process is not None and self._process.killed_from_outside and not self._vanishing
        )
        self._life = None
        self._process = None
        self._stalled_at = None
        self._connected.set()
        for gate, number in self._gates_here.items():
            self.setup.gates.count_remote(gate, -number)
        self._gates_here.clear()
        error = None if task.cancelled() else task.exception()
        if killed:
            # Also at the end: what was seen before may come of it.
            error = ChildKilledError(self.setup.rank)
        elif error is None and self._state["alive"] and not self._stopped:
            error = ChildError(f"process of engine {self.setup.rank} ended by itself ({code})")
        self._state = {**self._state, "alive": False, "joined": False}
        self._leave_waves()
        self._commands.end()
        if error is not None:
            self._failed(error)
        elif not self._stopped:
            self._joined.set()

    def _failed(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            self._joined.set()
            self.setup.on_failure(error)

    # --- lines ------------------------------------------------------------------------------

    def _tell(self, line: Mapping[str, Any]) -> None:
        if self._control is not None:
            self._control.send(line)

    async def _ask(self, line: Mapping[str, Any], *, until_stalled: bool = False) -> None:
        """Send a command and wait until it is done; a process that is gone has nothing to do.

        ``until_stalled``: do not wait for a stalled engine, which does it later.
        """
        if self._life is None or self._stopped:
            return
        await self._connected.wait()
        if self._control is None:
            return
        number = self._commands.number()
        self._tell({**line, "id": number})
        if until_stalled and self.stalled:
            self._commands.let_go(number)
        else:
            await self._commands.wait(number, until_stalled=until_stalled)

    # --- stalls -----------------------------------------------------------------------------

    def _stalled(self, gate: str) -> None:
        """The engine holds itself up; whoever need not wait for it is let go."""
        if self.setup.gates.is_open(gate):
            return  # the child hears of it in a moment
        self._stalled_at = gate
        self._commands.stalled()

    def _halt(self, gate: str) -> None:
        """The engine asks to be stopped. Not if its gate has opened meanwhile, or at the end."""
        if self._process is not None and self._stalled_at == gate and not self._stopped:
            self._process.halt()

    def _gate_opened(self, name: str) -> None:
        self._tell({"do": "open", "gate": name})
        if self._stalled_at is not None and name in (self._stalled_at, "*"):
            self._stalled_at = None
            assert self._process is not None, "who stands still is a process"
            self._process.go_on()

    def _take(self, line: dict[str, Any]) -> None:
        if self._killed:
            return  # what was in the pipe when we killed it changes nothing any more
        if "state" in line:
            self._state = line["state"]
        match line["do"]:
            case "event":
                self._event(line["event"])
            case "halt":
                self._halt(line["gate"])
            case "joined":
                self._init = line["init"]
                self._joined.set()
            case "waves":
                self._wave_input(line["call"], line["arguments"])
            case "opened":
                self.setup.gates.open(line["gate"])
            case "waiting":
                gate, change = line["gate"], line["change"]
                self._gates_here[gate] = self._gates_here.get(gate, 0) + change
                self.setup.gates.count_remote(gate, change)
            case "failure":
                self._failed(ChildError(line["error"]))
            case "done":
                if (error := self._commands.answered(line["id"], line["error"])) is not None:
                    self._failed(error)

    def _event(self, dumped: Mapping[str, Any]) -> None:
        """Record an event, then let the child go on: what the event is about leaves behind it."""
        event = event_from_json(dumped)
        if isinstance(event, events.EngineStalled):
            self._stalled(event.gate)
        elif isinstance(event, events.EngineDied):
            self._vanishing = event.how == "vanish"
        self.setup.observer(event)
        assert self._process is not None, "its lines are read while there is one"
        self._process.event_taken()

    def _wave_input(self, call: str, arguments: Mapping[str, Any]) -> None:
        waves, rank = self.setup.waves, self.setup.rank
        if waves is None:
            return
        match call:
            case "enter":
                self._in_waves = True
                waves.enter(rank)
            case "leave":
                self._leave_waves()
            case _ if self._in_waves:
                getattr(waves, call)(rank, **arguments)

    def _leave_waves(self) -> None:
        if self._in_waves and self.setup.waves is not None:
            self._in_waves = False
            self.setup.waves.leave(self.setup.rank)
