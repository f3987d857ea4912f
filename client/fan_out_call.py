"""One utility call on several engines, carried out.

Ids, waiters and payloads come first, for all engines; then all sends at once; then every engine
settles before anything is visible. No error of one engine shortens the wait for another, so the
caller may compensate a change that only some engines made.

Source: PR #52671; protocol page, section 9.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from client.aio import TaskSet, resolve
from client.errors import ClientError, UtilityCallClosed, UtilityCallTimeout, from_codec
from client.guards import UtilityGuard
from client.inner import ClientInner
from client.protocol.codec_errors import EncodeError
from client.protocol.ids import CallId, Identity
from client.protocol.messages import UtilityCall, UtilityOutput
from client.utility import Failed, FanOut, Ok, typed_value

if TYPE_CHECKING:
    from client.components import Waiter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared:
    """One engine's part: who, which id, the bytes, and what waits for the reply."""

    engine: Identity
    rank: int
    call_id: CallId
    frames: list[bytes]
    waiter: Waiter


class FanOutCall(Generic[T]):
    """One call. Make it, ``run`` it once."""

    def __init__(
        self,
        inner: ClientInner,
        *,
        client_index: int,
        method: str,
        args: Sequence[Any],
        result_type: type[T],
        engines: Sequence[Identity],
        timeout_s: float | None,
    ) -> None:
        self._inner = inner
        self._client_index = client_index
        self._method = method
        self._args = args
        self._result_type = result_type
        self._engines = engines
        self._timeout_s = timeout_s
        self._fan_out: FanOut[T] = inner.components.fan_out(
            [inner.ranks[engine] for engine in engines]
        )
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fault: BaseException | None = None
        self._tasks = TaskSet(self._on_fault)

    async def run(self) -> list[T]:
        """Return one value for each engine, in engine order.

        Raises:
            ClientError: of the first engine, in engine order, that has one, once all settled.
            Encode: an argument cannot be encoded; nothing was sent.
            UtilityCallTimeout: the overall timeout passed.
        """
        self._inner.calls.append(self._tasks)
        try:
            with self._inner.components.utility_guard(self._inner.release_utility) as guard:
                prepared = [self._prepare(engine, guard) for engine in self._engines]
                for position, part in enumerate(prepared):
                    task = self._tasks.spawn(
                        self._run_part(position, part),
                        name=f"utility {self._method} rank {part.rank}",
                    )
                    task.add_done_callback(partial(self._cut_short, position, part))
                await self._settled()
                return self._fan_out.results()
        finally:
            self._inner.calls.remove(self._tasks)
            self._done.cancel()  # parts that end from now on are of no account
            try:
                await self._tasks.close()
            finally:
                del self._tasks  # it refers to this call, which is over

    def _prepare(self, engine: Identity, guard: UtilityGuard) -> Prepared:
        inner, rank = self._inner, self._inner.ranks[engine]
        waiter: Waiter = asyncio.get_running_loop().create_future()
        call_id = inner.register_utility(waiter, rank, self._method)
        guard.own(call_id)
        try:
            frames = inner.codec.encode_utility(
                UtilityCall(self._client_index, call_id, self._method, tuple(self._args))
            )
        except EncodeError as error:
            raise from_codec(error) from error
        return Prepared(engine, rank, call_id, frames, waiter)

    async def _settled(self) -> None:
        if self._fan_out.settled:
            return  # a call on no engine
        timer: asyncio.TimerHandle | None = None
        if self._timeout_s is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._timeout_s, resolve, self._done)
        try:
            await self._done
        finally:
            if timer is not None:
                timer.cancel()
        if self._fault is not None:
            raise self._fault
        if not self._fan_out.settled:
            assert self._timeout_s is not None
            raise UtilityCallTimeout(
                self._method,
                self._timeout_s,
                self._fan_out.describe(),
                self._fan_out.open_ranks(),
            )

    async def _run_part(self, position: int, part: Prepared) -> None:
        """Send to one engine and wait for its reply; whatever happens is its outcome."""
        outcome: Ok[T] | Failed
        try:
            await self._inner.send_to_engine(part.engine, part.frames)
            reply = await part.waiter
        except ClientError as error:
            self._inner.release_utility(part.call_id)
            outcome = Failed(error)
        except asyncio.CancelledError:
            if self._done.done():
                raise  # the call is over; its guard cleans up
            outcome = self._closed(part)
        else:
            outcome = self._read(reply)
        self._settle(position, part, outcome)

    def _cut_short(self, position: int, part: Prepared, task: asyncio.Task[None]) -> None:
        """Settle for a task that was cancelled before it ran, and so could not do it itself."""
        if task.cancelled() and not self._done.done():
            self._settle(position, part, self._closed(part))

    def _closed(self, part: Prepared) -> Failed:
        """The outcome of a part that a shutdown ends."""
        self._inner.release_utility(part.call_id)
        sticky = self._inner.health_error
        closed = UtilityCallClosed(self._method, part.call_id)
        return Failed(closed if sticky is None else sticky.again())

    def _read(self, reply: UtilityOutput | ClientError) -> Ok[T] | Failed:
        if isinstance(reply, ClientError):
            return Failed(reply)
        try:
            return Ok(typed_value(reply, self._method, self._result_type))
        except ClientError as error:
            return Failed(error)

    def _settle(self, position: int, part: Prepared, outcome: Ok[T] | Failed) -> None:
        if self._done.done():
            return  # too late to count; the guard drops what nobody recorded
        self._fan_out.record(position, outcome)
        error = outcome.error if isinstance(outcome, Failed) else None
        self._inner.utility_settled(part.call_id, part.rank, self._method, error)
        if self._fan_out.settled:
            resolve(self._done)

    def _on_fault(self, _name: str, error: BaseException) -> None:
        self._fault = error
        resolve(self._done)
