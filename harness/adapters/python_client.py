"""The shipped adapter, over our own client: ``python -m harness.adapters.python_client``.

It drives the same ``ClientFrontend`` as the target ``zmq``, in a process of its own, so that the
whole collection through the line protocol must come to the same verdicts: that is how the
protocol itself is tested. Whoever writes an adapter in Python may start from here.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from client.aio import cancel_and_wait, turn
from client.components import Components
from client.errors import ClientError
from client.protocol.profiles import profile_for
from client.transports.sockets import ZmqTransport
from harness.adapters.outlet import Outlet, plain_fields
from harness.mutants import discover, find_mutant
from harness.scenario.model import CallStep, ClientConfigSpec, LinkStep, Topology, UtilityStep
from harness.targets.adapter.agreed import LINE_BYTES_MAX
from harness.targets.adapter.values import from_plain, to_plain
from harness.targets.adapter.vocabulary import PROVIDED
from harness.targets.client_frontend import CAPABILITIES, ClientFrontend
from harness.trace.events import Event
from harness.trace.kinds import FIELDS_OF, KIND_OF
from harness.version import tool_version
from mock_engines.cluster import JoinAddresses
from mock_engines.gates import Gates

VERSION = 1
TURNS = 20
"""Turns of the loop after each command: what can go on without anybody's help has gone on then,
and a command counts as carried out before the next one is read."""

Line = dict[str, Any]


class GuestGates(Gates):
    """Gates that the harness opens; it hears who waits at them."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    async def wait(self, name: str, released: Callable[[], None] | None = None) -> None:
        """Wait as usual; the harness counts us meanwhile."""
        if self.is_open(name):
            return
        self._outlet.say("waiting", gate=name, change=1)
        try:
            await super().wait(name, released)
        finally:
            self._outlet.say("waiting", gate=name, change=-1)


class GuestFrontend(ClientFrontend):
    """``ClientFrontend`` at addresses that it is given; an external coordinator is elsewhere."""

    def __init__(self, line: Line, outlet: Outlet, gates: Gates, transport: ZmqTransport) -> None:
        self._given = JoinAddresses(**line["endpoints"])
        self._coordinator_at: str | None = line["coordinator_address"]
        components = Components()
        if line["mutant"] is not None:
            components = find_mutant(line["mutant"]).components(components)

        def tell(event: Event) -> None:
            kind, fields = KIND_OF[type(event)][0], dict.fromkeys(FIELDS_OF[type(event)])
            outlet.say("event", kind=kind, fields=plain_fields(event, fields))

        super().__init__(
            topology=topology_of(line),
            profile=profile_for(line["release"]),
            transport=transport,
            components=components,
            observer=tell,
            emit=tell,
            wait_gate=gates.wait,
        )

    def _choose_addresses(self) -> JoinAddresses:
        return self._given

    def _coordinator_address(self) -> str | None:
        return self._coordinator_at


def topology_of(line: Line) -> Topology:
    """What a ``start`` line says, in the words of a scenario."""
    return Topology(
        ranks=list(line["ranks"]),
        coordinator=line["coordinator"],
        transport=line["mode"],
        config=ClientConfigSpec(
            engine_count=line["engine_count"],
            engine_start_index=line["engine_start_index"],
            data_parallel_size=line["data_parallel_size"],
            ready_timeout_s=line["ready_timeout_s"],
            utility_timeout_s=line["utility_timeout_s"],
        ),
    )


class Run:
    """One run: from ``start`` to ``stop``."""

    def __init__(self, line: Line, outlet: Outlet) -> None:
        self._outlet = outlet
        self._gates = GuestGates(outlet)
        self._transport = ZmqTransport()
        self._frontend = GuestFrontend(line, outlet, self._gates, self._transport)
        self._ops: dict[str, asyncio.Task[None]] = {}
        self._works: dict[asyncio.Task[None], None] = {}
        self._fence: asyncio.Task[None] | None = None

    async def obey(self, line: Line) -> None:
        """Carry out a command, or begin to: what may take long goes on in a task."""
        number = line.get("id", 0)
        match line["do"]:
            case "call":
                self._begin(line["op"], self._call(line))
            case "utility":
                self._begin(line["op"], self._utility(line))
            case "cancel" | "drop":
                if (task := self._ops.get(line["op"])) is not None:
                    task.cancel()
            case "open":
                if line["gate"] == "*":
                    self._gates.open_all()
                else:
                    self._gates.open(line["gate"])
            case "link":
                keys = {key: value for key, value in line.items() if key in LinkStep.model_fields}
                self._frontend.faults.apply(LinkStep(**keys))
                self._outlet.reply(number)
            case "connect":
                self._work(self._answer(number, self._frontend.start()))
            case "abort":
                work = self._frontend.abort(list(line["request_ids"]))
                self._work(self._answer(number, work))
            case "shutdown":
                work = self._frontend.shutdown(line["timeout_s"])
                self._work(self._answer(number, work))
            case "fence":
                if self._fence is not None:
                    await cancel_and_wait([self._fence])
                work = self._fenced(tuple(line["ranks"]))
                self._fence = self._work(self._answer(number, work))
            case _:
                await self._observe(line["do"], number)

    async def _observe(self, what: str, number: int) -> None:
        match what:
            case "snapshot":
                shot = await self._frontend.snapshot("")
                names = [name for name in FIELDS_OF[type(shot)] if name != "label"]
                self._outlet.reply(number, **{name: getattr(shot, name) for name in names})
            case "health":
                health = await self._frontend.health()
                self._outlet.reply(
                    number, healthy=health.healthy, error=health.error, message=health.message
                )
            case "server_info":
                self._outlet.reply(number, info=to_plain(await self._frontend.server_info()))
            case _:
                msg = f"there is no command {what!r} in a run"
                raise ValueError(msg)

    # --- operations -------------------------------------------------------------------------

    def _begin(self, op: str, work: Coroutine[Any, Any, Line]) -> None:
        self._ops[op] = self._work(self._operation(op, work))

    async def _operation(self, op: str, work: Coroutine[Any, Any, Line]) -> None:
        try:
            ended = await work
        except asyncio.CancelledError:
            ended = {"outcome": "cancelled"}
        del self._ops[op]
        self._outlet.say("ended", op=op, **ended)

    async def _call(self, line: Line) -> Line:
        keys = {key: value for key, value in line.items() if key in CallStep.model_fields}
        step = CallStep(id=line["op"], **keys)

        def on_output(tokens: tuple[int, ...], finish: str | None, text: str = "") -> None:
            self._outlet.say("output", op=step.id, tokens=tokens, finish=finish, text=text)

        result = await self._frontend.generate(step, on_output)
        return {
            "outcome": result.outcome,
            "finish": result.finish,
            "error": result.error,
            "message": result.message,
            "kv_transfer_params": to_plain(result.kv_transfer_params),
        }

    async def _utility(self, line: Line) -> Line:
        keys = {key: value for key, value in line.items() if key in UtilityStep.model_fields}
        keys["args"] = [from_plain(arg) for arg in line["args"]]
        result = await self._frontend.utility(UtilityStep(id=line["op"], **keys))
        return {
            "outcome": result.outcome,
            "value": to_plain(result.value),
            "error": result.error,
            "message": result.message,
        }

    # --- commands that take their time ------------------------------------------------------

    def _work(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._works[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        """Let go of a task; a fault of ours ends the process, with its traceback."""
        del self._works[task]
        if task is self._fence:
            self._fence = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._outlet.say("broken", message=f"{type(error).__name__}: {error}")
            raise error

    async def _answer(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ClientError as error:
            self._outlet.refuse(number, type(error).__name__, str(error))
        else:
            self._outlet.reply(number)

    async def _fenced(self, ranks: tuple[int, ...]) -> None:
        await settle()
        await self._frontend.fence(ranks)
        # What arrived before the last reply has been read; its readers get their turn.
        await settle()

    async def stop(self) -> None:
        """End everything and release it."""
        try:
            await cancel_and_wait(list(self._works))
            await settle()
            await self._frontend.stop()
        finally:
            self._transport.close()


async def settle() -> None:
    """Let callbacks that are ready run, and those that they make ready."""
    for _ in range(TURNS):
        await turn()


async def serve(reader: asyncio.StreamReader, outlet: Outlet) -> None:
    """Obey lines until they end."""
    run: Run | None = None
    try:
        while raw := await reader.readline():
            line: Line = json.loads(raw)
            match line["do"]:
                case "hello":
                    greet(line, outlet)
                case "ping":
                    outlet.reply(line["id"])
                case "start":
                    run = Run(line, outlet)
                    outlet.reply(line["id"], addresses=line["endpoints"])
                case "stop" if run is not None:
                    await run.stop()
                    run = None
                    outlet.reply(line["id"])
                case _ if run is not None:
                    await run.obey(line)
                case unknown:
                    msg = f"{unknown!r} came outside of a run"
                    raise ValueError(msg)
            await settle()
    finally:
        if run is not None:
            await run.stop()


def greet(line: Line, outlet: Outlet) -> None:
    """Answer ``hello``."""
    if VERSION not in line["versions"]:
        message = f"version {VERSION} is not among those offered: {line['versions']}"
        outlet.say("broken", message=message)
        return
    outlet.say(
        "hello",
        version=VERSION,
        name="python-client",
        adapter_version=tool_version(),
        capabilities=sorted(CAPABILITIES - PROVIDED),
        mutants=[mutant.id for mutant in discover()],
        reusable=True,
        schemes=["ipc", "tcp"],
    )


async def _main(outlet: Outlet) -> None:
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    try:
        await serve(reader, outlet)
    finally:
        pipe.close()


def main() -> int:
    """Serve the harness at standard input and output; 0 when it has no more to say."""
    outlet = Outlet()
    gc.collect()
    gc.freeze()  # what is imported now lives on; a collection after a run then costs little
    loop = asyncio.SelectorEventLoop()
    try:
        loop.run_until_complete(_main(outlet))
    except BrokenPipeError:
        return 1  # the harness is gone; nobody is there to tell
    finally:
        loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
