"""Another number of engines while the deployment runs: elastic growing and shrinking.

Theory of operation. A change has two stages. *Prepare*: engines that stay are told of the size to
come, and new ones are started; requests go on. *Commit*: all old engines pause, which takes their
agreement, and are told to go on; old and new ones meet and are another group from then on. The
first of them says so with a notice that answers no call. Then the external coordinator is told of
the size, and a resume, in which all of the new group meet, lets them run.

Growing, new engines get requests only after that resume: until then their peers are paused, and a
request would have them wait alone. Shrinking, the engines that leave get no request from the
commit on, and their pause aborts what they have; each says when it is done and ends.

Source: Python ``v1/engine/core_client.py`` (``prepare_elastic_ep``, ``commit_elastic_ep``) of 0.27
to 0.33, which differ in no message; docs/lockstep.md, section Elastic changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Protocol

from packaging.version import Version

from client.aio import DeadlineExceeded, Mailbox, MailboxClosed, TaskSet, all_done, with_deadline
from client.coordinator_shell import Coordinator
from client.errors import (
    ClientClosed,
    ClientError,
    InputRegistrationTimeout,
    ScaleRefused,
    Transport,
    from_codec,
)
from client.events import EnginesChanged
from client.inner import ClientInner
from client.protocol.codec_errors import DecodeError
from client.protocol.ids import (
    KEEPS_RANK,
    LEAVES_GROUP,
    RANKS_MAX,
    Identity,
    identity_from_rank,
)
from client.protocol.messages import ConnectedEngine
from client.protocol.transport import TransportError

SINCE = Version("0.27")
"""Before, engines change over while they run, and what leaving ones have is lost."""
PREPARE, COMMIT = "reinitialize_distributed", "commit_prepared_elastic_ep"
PAUSE, RESUME = "pause_scheduler", "resume_scheduler"
KEEP, ABORT = "keep", "abort"
FINISHED, GONE = "RECONFIGURE_FINISHED", "SHUTDOWN_COMPLETE"


class Launcher(Protocol):
    """Who starts engine processes, and cleans up behind them."""

    async def start(self, ranks: Sequence[int], size: int) -> None:
        """Start engines of a deployment of ``size``; return once they are ready to change over."""

    async def stop(self, ranks: Sequence[int]) -> None:
        """Release engines that have ended."""


class Scaling:
    """One change. Make it, ``run`` it once."""

    def __init__(
        self,
        inner: ClientInner,
        coordinator: Coordinator | None,
        launcher: Launcher,
        *,
        client_index: int,
        ready_timeout_s: float,
    ) -> None:
        self.inner = inner
        self._coordinator = coordinator
        self._launcher = launcher
        self._client_index = client_index
        self._ready_timeout_s = ready_timeout_s
        self._tasks = TaskSet(lambda _name, _error: None)  # whoever waits for a task reads it
        self._notices: Mailbox[tuple[str, int]] = Mailbox()

    async def run(self, size: int) -> None:
        """Go to ``size`` engines; to the present number is nothing to do.

        A change that fails half-way leaves the engines as they are, perhaps paused.

        Raises:
            ScaleRefused: the size, the release or the deployment does not admit it, or another
                change is under way; nothing was sent.
            InputRegistrationTimeout: a new engine did not register.
            ClientError: of an engine, or the sticky one.
        """
        inner = self.inner
        before = inner.connected()
        self._check(size, before)
        if size == len(before):
            return
        inner.elastic_notices = self._notices
        inner.calls.append(self._tasks)
        try:
            if size > len(before):
                work = self.grow(before, [identity_from_rank(r) for r in range(len(before), size)])
            else:
                work = self.shrink(before[:size], before[size:])
            await self._done(work)
        finally:
            inner.elastic_notices = None
            inner.calls.remove(self._tasks)
            await self._tasks.close()

    def _check(self, size: int, before: Sequence[Identity]) -> None:
        inner = self.inner
        if inner.health_error is not None:
            raise inner.health_error.again()
        if not 1 <= size <= RANKS_MAX:
            raise ScaleRefused(size, f"it must be between 1 and {RANKS_MAX}")
        if inner.profile.version < SINCE:
            raise ScaleRefused(size, f"{inner.profile.release} has no two-stage change")
        if [inner.ranks[each] for each in before] != list(range(len(before))):
            raise ScaleRefused(size, "this client is not connected to ranks 0 and up")
        if inner.elastic_notices is not None:
            raise ScaleRefused(size, "another change is under way")

    # --- the two ways -----------------------------------------------------------------------

    async def grow(self, old: Sequence[Identity], new: Sequence[Identity]) -> None:
        """More engines."""
        inner, size = self.inner, len(old) + len(new)
        gate = None
        if self._coordinator is not None:
            gate = self._spawn(self._coordinator.admit(), "scale-gate")
        ranks = range(len(old), size)
        await self.together(
            self._call(PREPARE, [self._request(size, KEEPS_RANK)], old),
            self._launcher.start(ranks, size),
        )
        if gate is not None:
            gate.cancel()
        await self._call(PAUSE, [KEEP, False], old)
        await self._call(COMMIT, [], old)
        await self._told([(FINISHED, 0)])
        inner.connect(await self._registrations(new))
        self.route(old)
        self.announce(size)
        await self.before_resume([*old, *new])
        await self._call(RESUME, [], [*old, *new])
        self.route([*old, *new])

    async def shrink(self, stay: Sequence[Identity], leave: Sequence[Identity]) -> None:
        """Fewer engines; the last ranks leave."""
        inner, size = self.inner, len(stay)
        await self._call(PREPARE, [self._request(size, KEEPS_RANK)], stay)
        self.route(stay)
        await inner.adds_handed_over(leave)
        await self.together(
            self._call(PAUSE, [KEEP, False], stay),
            self._call(PAUSE, [self.pause_of_leaving(), False], leave),
        )
        await self.together(
            self._call(COMMIT, [], stay),
            self._call(PREPARE, [self._request(size, LEAVES_GROUP)], leave),
        )
        self.announce(size)
        await self._told([(FINISHED, 0), *((GONE, inner.ranks[each]) for each in leave)])
        inner.disconnect(leave)
        self.route(stay)
        await self._launcher.stop([inner.ranks[each] for each in leave])
        await self._call(RESUME, [], stay)

    async def before_resume(self, engines: Sequence[Identity]) -> None:
        """New engines are connected and not used yet; nothing is to be done."""

    def pause_of_leaving(self) -> str:
        """How engines that leave are paused: what they have is aborted, or it would be lost."""
        return ABORT

    # --- steps of both ----------------------------------------------------------------------

    def route(self, engines: Sequence[Identity]) -> None:
        """Send new requests to these engines only."""
        inner = self.inner
        inner.routing.use(engines)
        connected = tuple(inner.ranks[each] for each in inner.connected())
        inner.emit(EnginesChanged(connected, tuple(inner.ranks[each] for each in engines)))

    def announce(self, size: int) -> None:
        """Tell the external coordinator how many engines there are."""
        if self._coordinator is not None:
            self._coordinator.announce(size)

    @staticmethod
    def _request(size: int, rank: int) -> dict[str, Any]:
        """The message of ``reinitialize_distributed``; addresses mean nothing to mock engines."""
        return {
            "new_data_parallel_size": size,
            "new_data_parallel_rank": rank,
            "new_data_parallel_rank_local": KEEPS_RANK,
            "new_data_parallel_master_ip": "127.0.0.1",
            "new_data_parallel_master_port": 0,
            "new_data_parallel_master_port_list": [],
            "coord_store_port": 0,
        }

    async def _call(self, method: str, args: Sequence[Any], engines: Sequence[Identity]) -> None:
        call = self.inner.components.fan_out_call(
            self.inner,
            client_index=self._client_index,
            method=method,
            args=args,
            result_type=object,
            engines=engines,
            timeout_s=None,
        )
        await call.run()

    async def _told(self, due: Iterable[tuple[str, int]]) -> None:
        """Wait until engines have told all of this: notice and rank; others are passed over."""
        missing = dict.fromkeys(due)
        while missing:
            try:
                missing.pop(await self._notices.get(), None)
            except MailboxClosed:
                raise self._sticky() from None

    async def _registrations(self, new: Sequence[Identity]) -> list[ConnectedEngine]:
        """Read what new engines say of themselves; whoever else registers is passed over."""
        found: dict[Identity, ConnectedEngine] = {}
        while len(found) < len(new):
            try:
                frames = await with_deadline(
                    self.inner.next_registration(), self._ready_timeout_s, name="scale-register"
                )
            except DeadlineExceeded:
                raise InputRegistrationTimeout(self._ready_timeout_s) from None
            except TransportError as error:
                raise Transport(str(error)) from error
            identity = Identity(frames[0])
            if identity not in new or len(frames) != 2:
                continue
            try:
                ready = self.inner.codec.decode_ready_response(frames[1])
            except DecodeError as error:
                raise from_codec(error) from error
            found[identity] = ConnectedEngine(identity, ready)
        return [found[identity] for identity in new]

    # --- tasks ------------------------------------------------------------------------------

    async def together(self, *work: Coroutine[Any, Any, None]) -> None:
        """Do all of this at once; the first error counts, once all have ended."""
        tasks = [self._spawn(each, f"scale-{n}") for n, each in enumerate(work)]
        await all_done(tasks)
        for task in tasks:
            self._result(task)

    async def _done(self, work: Coroutine[Any, Any, None]) -> None:
        # A task of its own, which the end of the client ends, whoever called.
        task = self._spawn(work, "scale")
        await all_done([task])
        self._result(task)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return self._tasks.spawn(work, name=name)

    def _result(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            raise self._sticky()
        task.result()

    def _sticky(self) -> ClientError:
        error = self.inner.health_error
        return ClientClosed() if error is None else error.again()
