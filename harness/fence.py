"""The fence: everything that was sent before has arrived and been acted on.

Absence (of an ABORT, of a second broadcast) is judged behind a fence, never after a wait.
In simulation the loop itself knows when nothing can run. Over real sockets a round trip to
every engine that can answer travels behind all earlier messages of the same sockets, and
coordinator traffic, which has sockets of its own, is balanced against the trace. An engine that is
stalled, or dies or stalls on the way, is left out: what was sent to it stays under way. ABORTs for
callers who left go no such way in a frontend of its own process: they are waited for.
"""

from __future__ import annotations

import asyncio
from functools import partial

from client.aio import cancel_and_wait, resolve
from client.events import (
    CoordinatorPublished,
    CoordinatorStateApplied,
    FirstRequestHandled,
    FirstRequestQueued,
    HealthFailed,
    ScaleNoticeHandled,
    ScaleNoticeQueued,
    WaveNoticeHandled,
)
from harness.abandoned import Abandoned
from harness.targets.base import Frontend
from harness.trace.events import ProcessExited, Record
from harness.trace.recorder import Recorder
from harness.worlds import World
from mock_engines.cluster import Cluster
from mock_engines.events import (
    EngineDied,
    EngineJoined,
    EngineRemoved,
    EngineResumed,
    EngineStalled,
    GateOpened,
    StartWaveSeen,
    WaveNoticeSent,
)

_LIFE = (EngineJoined, EngineResumed, EngineDied, EngineRemoved, EngineStalled)
"""Events that tell whether an engine can answer."""
ROUNDS = 2
"""A reply may cause a send (an output ends a request, its wave completes); two rounds see it."""


class Fence:
    """Call it to fence. Keeps the balance of coordinator traffic from the trace."""

    def __init__(
        self,
        *,
        world: World,
        frontend: Frontend,
        cluster: Cluster,
        trace: Recorder,
        black_box: bool,
        publishes_seen: bool = False,
        frontends: int = 1,
    ) -> None:
        """Fence a run of ``world``, ``frontend``, ``cluster`` and ``trace``.

        Args:
            world: whose sockets and loop.
            frontend: what is fenced.
            cluster: its engines.
            trace: tells who lives, and what was handled.
            black_box: the frontend does not tell what it handles …
            publishes_seen: … but what it takes over from an external coordinator.
            frontends: how many subscribe at that coordinator.
        """
        self._world = world
        self._frontend = frontend
        self._cluster = cluster
        self._trace = trace
        told = publishes_seen or not black_box
        self._balance = Balance(frontends) if told and not world.virtual else None
        self._abandoned = Abandoned(trace) if black_box and not world.virtual else None
        self._live: dict[int, bool] = {}
        self._trip: asyncio.Future[None] | None = None
        self.waits_for = ""
        """What it waits for now, or waited for when it was ended; ``""``: it is over."""
        trace.subscribe(self._watch, *(() if self._balance is not None else _LIFE))

    def _watch(self, record: Record) -> None:
        event = record.event
        if isinstance(event, (EngineJoined, EngineResumed)):
            self._live[event.engine] = True
        elif isinstance(event, (EngineDied, EngineRemoved, EngineStalled)):
            self._live[event.engine] = False
            if self._trip is not None:
                resolve(self._trip)
        if self._balance is not None:
            self._balance.feed(event)

    async def __call__(self) -> None:
        """Fence now."""
        for _ in range(ROUNDS):
            self.waits_for = "engines are at work that waits for nothing scripted"
            await self._cluster.idle()
            if not self._world.virtual:
                await self._round_trip()
                self.waits_for = "what engines and coordinator told each other is not handled"
                await self._balanced()
                if self._abandoned is not None:
                    await self._abandoned.over(self._lives)
            await self._world.settle()
        self.waits_for = ""

    def _lives(self, rank: int) -> bool:
        return self._live.get(rank, False)

    def coordinator_restarted(self) -> None:
        """Forget what is under way: the external coordinator started anew, and has a frontend.

        Lost is what its predecessor had not handled, and what it published before that.
        """
        if self._balance is not None:
            self._balance.forget()

    def frontends_subscribed(self) -> None:
        """Forget what was published before anybody heard it."""
        if self._balance is not None:
            self._balance.forget_publishes()

    async def _round_trip(self) -> None:
        """Reach every engine that can answer; begin anew with the rest when one no longer can."""
        loop = asyncio.get_running_loop()
        over = False
        while not over:
            live = tuple(rank for rank in sorted(self._live) if self._live[rank])
            asked = ", ".join(map(str, live)) or "none"
            self.waits_for = f"the frontend has not heard of every engine that lives ({asked})"
            task = loop.create_task(self._frontend.fence(live), name="fence")
            self._trip = loop.create_future()
            task.add_done_callback(partial(_wake, self._trip))
            try:
                await self._trip
                over = task.done()
            finally:
                self._trip = None
                await cancel_and_wait([task])
        task.result()

    async def _balanced(self) -> None:
        balance = self._balance
        if balance is None or balance.settled():
            return
        process = getattr(self._frontend, "coordinator", None)
        if process is not None and not process.running:
            return  # nobody handles anything
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look(_record: Record) -> None:
            if balance.settled() and not done.done():
                done.set_result(None)

        unsubscribe = self._trace.subscribe(look)
        try:
            await done
        finally:
            unsubscribe()


def _wake(trip: asyncio.Future[None], _task: asyncio.Task[None]) -> None:
    resolve(trip)


class Balance:
    """Counts coordinator messages sent against those handled.

    That is told by the reference client, and by whoever uses an external coordinator, which is
    ours, and shows in its log what it takes over from it.

    A count below zero is no debt: the events of an engine in a child process may arrive later
    than those of the coordinator that they caused, and a socket may deliver what was forgotten.
    """

    def __init__(self, frontends: int = 1) -> None:
        self._frontends = frontends
        self._notices = 0
        self._firsts = 0
        self._scales = 0
        self._publishes = 0
        self._broadcasts_due: dict[int, int] = {}
        self._stalled: dict[int, None] = {}
        self._joined: dict[int, None] = {}
        self._unheard: dict[int, None] = {}
        """Ranks that came back, and have not shown yet that a broadcast reaches them."""
        self._closed = False

    def feed(self, event: object) -> None:
        """Take one trace event."""
        match event:
            case WaveNoticeSent():
                self._notices += 1
            case WaveNoticeHandled():
                self._notices -= 1
                if event.broadcast:
                    self._broadcast()
            case FirstRequestQueued():
                self._firsts += 1
            case FirstRequestHandled():
                self._firsts -= 1
                if event.broadcast_wave is not None:
                    self._broadcast()
            case ScaleNoticeQueued() | ScaleNoticeHandled():
                self._scales += 1 if isinstance(event, ScaleNoticeQueued) else -1
            case CoordinatorPublished():
                self._publishes += self._frontends
            case CoordinatorStateApplied():
                # Scripted bytes are not counted when they are published.
                self._publishes = max(0, self._publishes - 1)
            case GateOpened():
                self._broadcasts_due.setdefault(event.engine, 0)
                self._unheard.pop(event.engine, None)
            case (
                EngineJoined() | EngineDied() | EngineRemoved() | EngineStalled() | EngineResumed()
            ):
                self._engine(event)
            case StartWaveSeen() if event.engine in self._broadcasts_due:
                self._heard(event.engine)
            case HealthFailed() | ProcessExited():
                self._closed = True
            case _:
                pass

    def _engine(
        self, event: EngineJoined | EngineDied | EngineRemoved | EngineStalled | EngineResumed
    ) -> None:
        rank = event.engine
        if isinstance(event, EngineJoined):
            self._came(rank)
        elif isinstance(event, (EngineDied, EngineRemoved)):
            self._broadcasts_due.pop(rank, None)
        if isinstance(event, EngineStalled):
            self._stalled[rank] = None
        else:
            self._stalled.pop(rank, None)

    def _came(self, rank: int) -> None:
        """A rank has joined, or came back with new sockets.

        What was under way to the old ones is lost, and so is a broadcast that comes before the
        subscription; nobody says when that has arrived, but at startup (READY) or by a broadcast that is heard.
        """
        if rank not in self._joined:
            self._joined[rank] = None
            self._broadcasts_due.setdefault(rank, 0)
            return
        self._broadcasts_due[rank] = 0
        self._unheard[rank] = None

    def _heard(self, rank: int) -> None:
        if rank in self._unheard:
            del self._unheard[rank]
        else:
            self._broadcasts_due[rank] -= 1

    def _broadcast(self) -> None:
        for rank in self._broadcasts_due:
            if rank not in self._unheard:
                self._broadcasts_due[rank] += 1

    def forget(self) -> None:
        """Begin anew: nothing is under way, and engines hear nothing until READY reaches them."""
        self._notices = self._firsts = self._scales = self._publishes = 0
        self._broadcasts_due.clear()

    def forget_publishes(self) -> None:
        """No publish is under way."""
        self._publishes = 0

    def settled(self) -> bool:
        """Whether nothing is known to be under way. A failed client handles nothing more."""
        if self._closed:
            return True
        due = self._broadcasts_due.items()
        owed = any(count > 0 for rank, count in due if rank not in self._stalled)
        under_way = (self._notices, self._firsts, self._scales, self._publishes)
        return not owed and all(count <= 0 for count in under_way)
