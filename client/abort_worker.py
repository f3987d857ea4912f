"""The one task that sends ABORT.

Dropped streams queue their registration here; the worker takes it out of the registry when its
turn comes and skips what has ended meanwhile. All that is queued at that moment is grouped, one
frame for each engine (≥ 0.24). Explicit aborts, whose registrations are out already, go through
the same queue, so that a caller who leaves ``abort`` early cannot lose their frames.

Source: Rust ``engine-core-client/src/client/imp.rs`` (abort loop); protocol page, section 8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from client.aio import Mailbox, resolve, settle_all
from client.errors import ClientError
from client.events import AbortFailed
from client.inner import ClientInner, Request
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


class AbortWorker:
    """Queue and task for aborts of one client."""

    def __init__(self, inner: ClientInner) -> None:
        self._inner = inner
        self._queue: Mailbox[Dropped | Released] = Mailbox()
        self._busy = False
        self._idle_waiters: list[asyncio.Future[None]] = []

    def drop(self, request: Request) -> None:
        """Abort a request whose reader left."""
        if not self._queue.closed:
            self._queue.put(Dropped(request))

    def follow_up(self, request: Request) -> None:
        """Send ABORT for a request that was aborted while its ADD was on the way."""
        if self._queue.closed:
            self._inner.requests.departed(request)
        else:
            self._queue.put(Released((request,), None))

    def send(self, requests: Sequence[Request]) -> Done:
        """Send ABORT for released requests; the future gets the errors, one for each engine."""
        done: Done = asyncio.get_running_loop().create_future()
        if self._queue.closed:
            done.set_result(self._closed_errors())
        else:
            self._queue.put(Released(tuple(requests), done))
        return done

    async def drained(self) -> None:
        """Wait until the queue is empty and its frames have been handed to the transport."""
        while self._busy or len(self._queue):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await waiter

    async def run(self) -> None:
        """Serve the queue until cancelled."""
        try:
            while True:
                item = await self._queue.get()
                self._busy = True
                await self._serve(item)
                self._busy = False
                if not len(self._queue):
                    self._wake_idle()
        finally:
            self.close()

    def close(self) -> None:
        """Drop the queue. Explicit aborts that were not sent get the sticky error."""
        self._queue.close()
        self._busy = False
        for item in self._queue.clear():
            self._finish(item, self._closed_errors())
        self._wake_idle()

    async def _serve(self, item: Dropped | Released) -> None:
        inner = self._inner
        errors: list[ClientError] = self._closed_errors()
        try:
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
                    await self._send(live, one_frame_per_engine=grouped)
                case Released():
                    if inner.health_error is None:
                        errors = await self._send(item.requests, one_frame_per_engine=True)
        finally:
            self._finish(item, errors)

    @staticmethod
    def _finish(item: Dropped | Released, errors: list[ClientError]) -> None:
        if isinstance(item, Released) and item.done is not None and not item.done.done():
            item.done.set_result(errors)

    def _closed_errors(self) -> list[ClientError]:
        error = self._inner.health_error
        return [] if error is None else [error.again()]

    async def _send(
        self, requests: Sequence[Request], *, one_frame_per_engine: bool
    ) -> list[ClientError]:
        inner = self._inner
        groups = inner.abort_grouping.group(
            [(request.request_id, request.engine) for request in requests],
            one_frame_per_engine=one_frame_per_engine,
        )
        try:
            if len(groups) > 1 and one_frame_per_engine:
                # One engine's full pipe must not hold up the others.
                outcomes = await settle_all(
                    [self._send_frame(group) for group in groups],
                    names=[f"abort rank {inner.ranks[engine]}" for engine, _ in groups],
                )
            else:
                outcomes = [await self._send_frame(group) for group in groups]
        finally:
            for request in requests:
                inner.requests.departed(request)
        errors: list[ClientError] = []
        for outcome in outcomes:
            if isinstance(outcome, ClientError):
                errors.append(outcome)
            elif outcome is not None:
                raise outcome
        return errors

    async def _send_frame(self, group: AbortGroup) -> ClientError | None:
        engine, request_ids = group
        inner = self._inner
        try:
            await inner.send_to_engine(engine, inner.codec.encode_abort(request_ids))
        except ClientError as error:
            inner.emit(AbortFailed(inner.ranks[engine], request_ids, type(error).__name__))
            return error
        return None

    def _wake_idle(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            resolve(waiter)


def _is_drop(item: Dropped | Released) -> bool:
    return isinstance(item, Dropped)
