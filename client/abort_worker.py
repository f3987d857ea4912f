"""The tasks that send ABORT: one that decides, and one for each engine that is being told.

Dropped streams queue their registration here; the worker takes it out of the registry when its
turn comes and skips what has ended meanwhile. All that is queued at that moment is grouped, one
frame for each engine (≥ 0.24). Explicit aborts, whose registrations are out already, go through
the same queue, so that a caller who leaves ``abort`` early cannot lose their frames. The worker
itself never waits for a send: each engine has a lane of its own, which keeps its frames in order,
so that an engine which takes nothing holds up neither the others nor who waits for them.

Source: Rust ``engine-core-client/src/client/imp.rs`` (abort loop); protocol page, section 8.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from client.aio import Mailbox, TaskSet, resolve
from client.errors import ClientError, DispatcherClosed
from client.events import AbortFailed
from client.inner import ClientInner, Request
from client.protocol.ids import Identity, RequestId
from client.requests import AbortGroup

BATCH_MAX = 1024
"""Drops that one round of grouping takes at most (as upstream)."""

Done = asyncio.Future[list[ClientError]]


@dataclass(frozen=True, slots=True, eq=False)
class Dropped:
    """A reader left; the request may still be in flight."""

    request: Request


@dataclass(frozen=True, slots=True, eq=False)
class Released:
    """Requests that were released already; their engines must still be told.

    ``done`` gets the errors of the sends; ``None``: nobody waits.
    """

    requests: tuple[Request, ...]
    done: Done | None


class _Batch:
    """Requests that were aborted together, until every frame of theirs is off."""

    def __init__(
        self, requests: Sequence[Request], groups: Sequence[AbortGroup], done: Done | None
    ) -> None:
        self.requests = requests
        self._open = dict.fromkeys(range(len(groups)))
        self._errors: dict[int, ClientError] = {}
        self._done = done
        self._look()

    def settle(self, position: int, error: ClientError | None) -> bool:
        """A frame is off, or never will be; ``False`` if that was known."""
        if position not in self._open:
            return False
        del self._open[position]
        if error is not None:
            self._errors[position] = error
        self._look()
        return True

    def _look(self) -> None:
        if not self._open and self._done is not None and not self._done.done():
            self._done.set_result([self._errors[at] for at in sorted(self._errors)])


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """One ABORT: its place in its batch, and the ids that it names."""

    batch: _Batch
    position: int
    request_ids: tuple[RequestId, ...]


class AbortWorker:
    """Queue and tasks for aborts of one client.

    Args:
        tasks: where its tasks live; a fault in one of them must fail the client.
    """

    def __init__(self, inner: ClientInner, tasks: TaskSet) -> None:
        self._inner = inner
        self._tasks = tasks
        self._queue: Mailbox[Dropped | Released] = Mailbox()
        self._lanes: dict[Identity, deque[_Frame]] = {}
        self._idle_waiters: list[asyncio.Future[None]] = []

    def start(self) -> None:
        """Start the worker's task."""
        self._tasks.spawn(self._run(), name="abort-worker")

    def drop(self, request: Request) -> None:
        """Abort a request whose reader left."""
        if not self._queue.closed:
            self._queue.put(Dropped(request))

    def follow_up(self, request: Request) -> None:
        """Send ABORT, once, for a request that was aborted while its ADD was on the way."""
        request.abort_due = False
        if self._queue.closed:
            self._inner.requests.departed(request)
        else:
            self._queue.put(Released((request,), None))

    def send(self, requests: Sequence[Request]) -> Done:
        """Send ABORT for released requests; the future gets the errors, one for each engine."""
        done: Done = asyncio.get_running_loop().create_future()
        item = Released(tuple(requests), done)
        if self._queue.closed:
            self._refuse(item)
        else:
            self._queue.put(item)
        return done

    async def drained(self) -> None:
        """Wait until the queue is empty and its frames have been handed to the transport."""
        while self._lanes or len(self._queue):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    def close(self) -> None:
        """Drop the queue and the lanes. Explicit aborts that were not sent get an error."""
        self._queue.close()
        for item in self._queue.clear():
            self._refuse(item)
        for engine, lane in list(self._lanes.items()):
            self._abandon(engine, lane)
        self._look_idle()

    # --- the worker ---

    async def _run(self) -> None:
        """Serve the queue until cancelled."""
        item: Dropped | Released | None = None
        try:
            while True:
                item = await self._queue.get()
                self._serve(item)
                item = None
                self._look_idle()
        finally:
            if item is not None:  # a fault of ours; who waits for it must hear of it
                self._refuse(item)
            self.close()

    def _serve(self, item: Dropped | Released) -> None:
        inner = self._inner
        match item:
            case Dropped():
                grouped = inner.profile.groups_aborts
                more = self._queue.take(_is_drop, BATCH_MAX - 1) if grouped else []
                dropped = [each.request for each in (item, *more) if isinstance(each, Dropped)]
                live = [
                    request
                    for request in dropped
                    if inner.release(request, "auto-aborted", departing=True)
                ]
                self._hand_out(live, None, one_frame_per_engine=grouped)
            case Released() if inner.health_error is not None:
                self._refuse(item)
            case Released():
                self._hand_out(item.requests, item.done, one_frame_per_engine=True)
            case _:
                assert_never(item)

    def _hand_out(
        self, requests: Sequence[Request], done: Done | None, *, one_frame_per_engine: bool
    ) -> None:
        """Give each frame to the lane of its engine."""
        groups = self._inner.abort_grouping.group(
            [(request.request_id, request.engine) for request in requests],
            one_frame_per_engine=one_frame_per_engine,
        )
        batch = _Batch(requests, groups, done)
        for position, (engine, request_ids) in enumerate(groups):
            lane = self._lanes.get(engine)
            if lane is None:
                lane = self._lanes[engine] = deque()
                name = f"abort rank {self._inner.ranks[engine]}"
                self._tasks.spawn(self._run_lane(engine, lane), name=name)
            lane.append(_Frame(batch, position, request_ids))

    def _refuse(self, item: Dropped | Released) -> None:
        if isinstance(item, Released):
            for request in item.requests:
                self._inner.requests.departed(request)
            if item.done is not None and not item.done.done():
                item.done.set_result([self._refusal()])

    def _refusal(self) -> ClientError:
        error = self._inner.health_error
        # A fault ends the tasks before it fails the client.
        return DispatcherClosed("the abort worker has ended") if error is None else error.again()

    # --- the lanes ---

    async def _run_lane(self, engine: Identity, lane: deque[_Frame]) -> None:
        """Send the frames of one engine, in order, until none is left."""
        try:
            while lane:
                frame = lane[0]
                error = await self._send_frame(engine, frame.request_ids)
                self._settle(engine, frame, error)
                if lane:
                    lane.popleft()
        finally:
            self._abandon(engine, lane)
            self._look_idle()

    def _abandon(self, engine: Identity, lane: deque[_Frame]) -> None:
        """A lane ends; what is left of it never leaves."""
        while lane:
            self._settle(engine, lane.popleft(), self._refusal())
        if self._lanes.get(engine) is lane:
            del self._lanes[engine]

    def _settle(self, engine: Identity, frame: _Frame, error: ClientError | None) -> None:
        if not frame.batch.settle(frame.position, error):
            return
        for request in frame.batch.requests:
            if request.engine == engine and request.request_id in frame.request_ids:
                self._inner.requests.departed(request)

    async def _send_frame(
        self, engine: Identity, request_ids: tuple[RequestId, ...]
    ) -> ClientError | None:
        inner = self._inner
        if inner.health_error is not None:
            return inner.health_error.again()
        try:
            await inner.send_to_engine(engine, inner.codec.encode_abort(request_ids))
        except ClientError as error:
            inner.emit(AbortFailed(inner.ranks[engine], request_ids, type(error).__name__))
            return error
        return None

    def _look_idle(self) -> None:
        if self._lanes or len(self._queue):
            return
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            resolve(waiter)


def _is_drop(item: Dropped | Released) -> bool:
    return isinstance(item, Dropped)
