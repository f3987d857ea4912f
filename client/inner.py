"""The part of a client that its tasks hold: registries, sockets, the sticky health error.

Tasks, streams and guards refer to this object, never to the ``EngineClient`` in front of it, so
that a caller who drops the client really drops it.

Sources: Rust ``engine-core-client/src/client/imp.rs``; protocol page, sections 5 and 6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, assert_never

from client.aio import Mailbox, TaskSet, resolve
from client.errors import (
    ClientError,
    EngineCoreDead,
    Transport,
    UnexpectedDispatcherOutput,
)
from client.events import (
    EngineConnected,
    HealthFailed,
    Observer,
    OutputDropped,
    RequestRegistered,
    RequestReleased,
    UtilityRegistered,
    UtilityReleased,
    UtilityReplyDropped,
    UtilitySettled,
)
from client.output_stream import OutputChannel
from client.protocol.codec import Codec
from client.protocol.ids import (
    ELASTIC_NOTICE_ID,
    CallId,
    Identity,
    RequestId,
    rank_from_identity,
)
from client.protocol.messages import (
    ConnectedEngine,
    EngineDead,
    OutputKind,
    RequestBatch,
    StartWave,
    Unclassified,
    UtilityReply,
    WaveComplete,
)
from client.protocol.profiles import Profile
from client.protocol.shown import quoted
from client.protocol.transport import Socket, TransportError
from client.requests import Registration
from client.sends import SendGivenUp, Sends

if TYPE_CHECKING:
    from client.components import Components, Waiter

Request = Registration[OutputChannel]
"""One request in flight."""


class ClientInner:
    """State shared by the tasks of one client.

    Attributes:
        engines: connected engines, in engine order.
        ranks: rank of each identity, also of engines that were removed; negative for an identity
            that is no rank (≤ 0.24).
        health_error: the first fatal error; never replaced.
        sockets: those that are open, oldest first.
        calls: task sets of utility calls and changes of size under way.
        elastic_notices: where what engines tell of a change of size goes; ``None`` without one.
    """

    def __init__(
        self,
        *,
        profile: Profile,
        codec: Codec,
        engines: Sequence[ConnectedEngine],
        input_socket: Socket,
        sockets: list[Socket],
        observer: Observer,
        components: Components,
    ) -> None:
        self.profile = profile
        self.codec = codec
        self.components = components
        self.engines = tuple(engines)
        identities = [engine.identity for engine in engines]
        self.ranks = {
            identity: _label(identity, position) for position, identity in enumerate(identities)
        }
        self._input = input_socket
        self.sockets = sockets
        self.emit: Observer = observer
        self.requests = components.requests(identities)
        self.utilities = components.utilities()
        self.routing = components.routing(identities, waiting_weight=profile.waiting_weight)
        self.abort_grouping = components.abort_grouping(identities)
        self.aggregation = components.aggregation()
        self.health_error: ClientError | None = None
        self.calls: list[TaskSet] = []
        self._sends = Sends()
        self.elastic_notices: Mailbox[tuple[str, int]] | None = None
        self._asked: dict[CallId, int] = {}
        self._handovers: list[asyncio.Future[None]] = []
        self._unread: dict[int, None] = {}  # replied to, but not recorded by the call yet

    # --- requests ---

    def register(self, request_id: RequestId, explicit_rank: int | None, wave: int) -> Request:
        """Admit a request: duplicate check, choice of engine, registration.

        Raises:
            DuplicateRequestId, InvalidDataParallelRank: nothing was changed.
            ClientError: the sticky error.
        """
        self.requests.check_free(request_id)
        engine = self.routing.choose(explicit_rank, self.requests.count)
        channel = self.components.channel(request_id, self.components.stream_state)
        request = self.requests.register(request_id, engine, channel)
        self.emit(RequestRegistered(request_id, self.ranks[engine], explicit_rank, wave))
        return request

    def release(self, request: Request, cause: str, *, departing: bool = False) -> bool:
        """Take a request out of the registry; ``False`` if it is out already."""
        released = self.requests.release(request, departing=departing)
        if released:
            self.emit(RequestReleased(request.request_id, self.ranks[request.engine], cause))
        return released

    def handed_over(self) -> None:
        """The send of an ADD has ended, somehow."""
        for waiting in self._handovers:
            resolve(waiting)
        self._handovers.clear()

    async def adds_handed_over(self, engines: Sequence[Identity]) -> None:
        """Return once no ADD is on its way to one of these engines."""
        while any(not request.sent for request in self.requests.at(engines)):
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._handovers.append(waiting)
            await waiting

    async def send_to_engine(self, engine: Identity, frames: Sequence[bytes]) -> None:
        """Send one message to one engine. Raises like ``send``."""
        await self.send(self._input, [engine, *frames])

    async def send(self, socket: Socket, frames: Sequence[bytes]) -> None:
        """Send one message. It is given up if the client fails while the socket holds it.

        Raises:
            Transport: the socket refused it; nothing left.
            ClientError: the sticky error, if the client has failed, before or meanwhile.
        """
        if self.health_error is not None:
            raise self.health_error.again()
        try:
            await self._sends.carry(socket.send(frames))
        except TransportError as error:
            if self.health_error is not None:  # pragma: no cover - it failed in this very step
                raise self.health_error.again() from error
            raise Transport(str(error)) from error
        except SendGivenUp:
            pass  # for the sticky error, below
        if self.health_error is not None:
            raise self.health_error.again()

    # --- engines that come and go ---

    def connected(self) -> tuple[Identity, ...]:
        """Identities of the connected engines, in engine order."""
        return tuple(engine.identity for engine in self.engines)

    async def next_registration(self) -> list[bytes]:
        """Receive on the input socket, where engines say that they are there.

        Raises:
            TransportError: the socket broke.
            ClientError: the sticky error, if the client fails meanwhile.
        """
        try:
            return await self._sends.carry(self._input.recv())
        except SendGivenUp:
            assert self.health_error is not None
            raise self.health_error.again() from None

    def connect(self, engines: Sequence[ConnectedEngine]) -> None:
        """Engines came, behind those that are there; routing does not use them yet."""
        for engine in engines:
            self.ranks[engine.identity] = _label(engine.identity, len(self.engines))
            self.engines = (*self.engines, engine)
            self.emit(EngineConnected(self.ranks[engine.identity], engine.identity))
        self.requests.admit(self.connected())

    def disconnect(self, engines: Sequence[Identity]) -> None:
        """Engines are gone; whatever still waits for them waits no more."""
        self.engines = tuple(each for each in self.engines if each.identity not in engines)
        for request in self.requests.at(engines):
            self.release(request, "engine-removed")
            request.sink.close()
        gone = [self.ranks[engine] for engine in engines]
        for call_id in [each for each, rank in self._asked.items() if rank in gone]:
            waiter = self.utilities.resolve(call_id)
            rank = self._asked.pop(call_id)
            if waiter is not None and not waiter.done():  # pragma: no branch - it is open
                waiter.set_result(Transport(f"engine {rank} was removed"))

    # --- utilities ---

    def register_utility(self, waiter: Waiter, rank: int, method: str) -> CallId:
        """Take a call id and a waiter for one engine. Raises the sticky error."""
        call_id = self.utilities.allocate(waiter)
        self._asked[call_id] = rank
        self.emit(UtilityRegistered(call_id, rank, method))
        return call_id

    def release_utility(self, call_id: CallId) -> None:
        """Give a call id up: its waiter goes, and so does a reply that nobody looked at yet."""
        self._asked.pop(call_id, None)
        if self.utilities.release(call_id):
            self.emit(UtilityReleased(call_id))
        elif call_id in self._unread:
            del self._unread[call_id]
            self.emit(UtilityReplyDropped(call_id))

    def utility_settled(
        self, call_id: CallId, rank: int, method: str, error: ClientError | None
    ) -> None:
        """An engine's part of a call has its outcome."""
        self._unread.pop(call_id, None)
        name = None if error is None else type(error).__name__
        self.emit(UtilitySettled(call_id, rank, method, name))

    # --- outputs ---

    def dispatch(self, kind: OutputKind) -> None:
        """Act on one message of the main output path (protocol page, 5.2)."""
        match kind:
            case EngineDead():
                self.fail(EngineCoreDead())
            case WaveComplete() | StartWave() | Unclassified():
                self.fail(UnexpectedDispatcherOutput(quoted(kind)))
            case RequestBatch() if self.health_error is None:
                self._dispatch_batch(kind)
            case UtilityReply() if self.health_error is None:
                self._dispatch_reply(kind)
            case RequestBatch() | UtilityReply():
                pass  # closed: all work has ended with the sticky error
            case _:
                assert_never(kind)

    def _dispatch_batch(self, batch: RequestBatch) -> None:
        for output in batch.outputs:
            request = self.requests.get(output.request_id)
            if request is None:
                self.emit(OutputDropped(output.request_id))
                continue
            if output.finish_reason is not None:
                self.release(request, "finished")
            request.sink.push(output)
        for request_id in batch.finished_requests or ():
            request = self.requests.get(request_id)
            if request is not None:  # its final output never came: a failure for the reader
                self.release(request, "stream-closed")
                request.sink.close()
        if batch.scheduler_stats is not None:
            self.routing.apply_stats(batch.engine_index, batch.scheduler_stats)

    def _dispatch_reply(self, reply: UtilityReply) -> None:
        call_id, notices = reply.output.call_id, self.elastic_notices
        if call_id == ELASTIC_NOTICE_ID and notices is not None:
            self._take_notice(reply.output.value, notices)
            return
        self._asked.pop(call_id, None)
        waiter = self.utilities.resolve(call_id)
        if waiter is None or waiter.done():
            self.emit(UtilityReplyDropped(call_id))
        else:
            self._unread[call_id] = None
            waiter.set_result(reply.output)

    def _take_notice(self, value: Any, notices: Mailbox[tuple[str, int]]) -> None:
        match value:
            case [str(notice), int(rank)]:
                notices.put((notice, rank))
            case _:
                self.fail(UnexpectedDispatcherOutput(f"elastic notice {quoted(value)}"))

    # --- the end ---

    def fail(self, error: ClientError) -> None:
        """Fail closed: keep the first fatal error, end all work with it (protocol page, 5.3)."""
        first = self.health_error is None
        self.emit(HealthFailed(type(error).__name__, str(error), first))
        if not first:
            return
        self.health_error = error
        for request in self.requests.close(error):
            rank = self.ranks[request.engine]
            self.emit(RequestReleased(request.request_id, rank, "client-closed"))
            request.sink.fail(error.again())
        for waiter in self.utilities.close(error):
            if not waiter.done():
                waiter.set_result(error.again())
        self._sends.give_up()
        self.handed_over()
        if self.elastic_notices is not None:
            self.elastic_notices.close()

    def close_sockets(self) -> None:
        """Close every socket of this client."""
        while self.sockets:
            self.sockets.pop().close()


def _label(identity: Identity, position: int) -> int:
    rank = rank_from_identity(identity)
    return -1 - position if rank is None else rank
