"""Sockets of the simulation: one class for each ZMQ type that the protocol uses.

A connection belongs to its connecting socket and outlives what it is connected to, as in
libzmq: messages wait in its ``up`` pipe until somebody binds the endpoint. The bound side knows
a peer only after the *attach* step at the head of that pipe was delivered; the *detach* step
behind the last message tells it that the peer is gone. Both are choices of the loop like any
delivery, so a send can run into a peer that is not there yet or no longer there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from client.protocol.transport import (
    SocketClosedError,
    SocketKind,
    SocketOptions,
    TransportError,
    UnknownPeerError,
)
from harness.sim.component import current_part
from harness.sim.pipes import Message, Pipe

if TYPE_CHECKING:
    from harness.sim.links import Network
    from harness.sim.loop import SimLoop

SUBSCRIBE, UNSUBSCRIBE = b"\x01", b"\x00"
"""First byte of a subscription message on XSUB and XPUB."""


class SimSocket:
    """What all simulated sockets share: an inbox and who waits for it."""

    kind: SocketKind

    def __init__(self, network: Network, label: str, endpoint: str, options: SocketOptions) -> None:
        self._network = network
        self._loop: SimLoop = network.loop
        self.endpoint = endpoint
        """The address it is bound or connected to."""
        self.label = label
        self.options = options
        self.closed = False
        self.part = current_part()
        self._inbox: deque[tuple[Pipe, Message]] = deque()
        self._readers: deque[asyncio.Future[None]] = deque()

    def _check_open(self) -> None:
        if self.closed:
            msg = f"{self.kind.value} socket {self.label} is closed"
            raise SocketClosedError(msg)

    def _accept(self, pipe: Pipe, message: Message) -> None:
        """Put a delivered message into the inbox."""
        pipe.unread += 1
        self._inbox.append((pipe, message))
        self._wake_reader()

    def _wake_reader(self) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                return

    async def recv(self) -> list[bytes]:
        """Receive one message; cancelling loses none.

        Raises:
            SocketClosedError: the socket is closed, or was while waiting.
        """
        while True:
            if self.closed:
                self._check_open()
            if self._inbox:
                pipe, message = self._inbox.popleft()
                pipe.unread -= 1
                if 0 < pipe.unread_max <= pipe.unread + 1:
                    pipe.kick()  # it was full
                return message
            reader: asyncio.Future[None] = self._loop.create_future()
            self._readers.append(reader)
            try:
                await reader
            except asyncio.CancelledError:
                # Woken and cancelled at once: the message is another reader's.
                if self._inbox and reader.done() and not reader.cancelled():
                    self._wake_reader()
                raise

    async def _put(self, pipe: Pipe, message: Message) -> None:
        while pipe.is_full:
            await pipe.writable()
            self._check_open()
        pipe.put(message)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send one message."""
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Close; whoever waits gets ``SocketClosedError``. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._inbox.clear()
        if self._readers:
            for reader in self._readers:
                if not reader.done():
                    reader.set_result(None)
            self._readers.clear()
        self._close()
        self._network.forget(self)

    def let_go(self) -> None:
        """Forget the peers: the run is over, and they refer to this socket."""

    def waits(self, future: asyncio.Future[object]) -> str | None:
        """Say what ``future`` stands for if somebody waits on this socket with it."""
        if any(reader is future for reader in self._readers):
            return f"recv of {self.kind.value} {self.label}"
        return None


def message_of(frames: Sequence[bytes]) -> Message:
    """Take over the frames of one message.

    Raises:
        TransportError: there is none.
    """
    if not frames:
        msg = "a message has at least one frame"
        raise TransportError(msg)
    return [frame if frame.__class__ is bytes else bytes(frame) for frame in frames]


# --- the connecting side ------------------------------------------------------------------


class ConnectingSocket(SimSocket):
    """DEALER, PUSH or XSUB: one connection, which comes back when its endpoint does.

    Attributes:
        up: what this socket sends.
        down: what it is sent; a new one for each time that it attaches.
        peer: the bound socket, from the start of the attachment to the notice of its end.
        identity: routing id; given by the ROUTER if the options have none.
        refused: the ROUTER has a living peer of the same identity and ignores this one.
    """

    def __init__(self, network: Network, label: str, endpoint: str, options: SocketOptions) -> None:
        super().__init__(network, label, endpoint, options)
        self.up = Pipe(
            self._loop,
            (label, endpoint),
            self._deliver_up,
            hwm=options.send_hwm,
            latency_us=network.latency_us(endpoint),
        )
        self.down: Pipe | None = None
        self.peer: BoundSocket | None = None
        self.identity = options.identity
        self.refused = False
        self._linger_until_us: int | None = None
        network.offer(self)

    @property
    def lingers(self) -> bool:
        """Whether undelivered messages still outlive the closed socket."""
        return self._linger_until_us is None or self._loop.now_us <= self._linger_until_us

    def establish(self, bound: BoundSocket) -> None:
        """Begin to attach to a bound socket."""
        self.peer = bound
        self.up.receiver = bound
        self.refused = False
        bound.connected.append(self)
        down = Pipe(
            self._loop,
            (self.endpoint, self.label),
            self._deliver_down,
            hwm=bound.options.send_hwm,
            latency_us=self._network.latency_us(self.endpoint),
        )
        down.unread_max = self.options.recv_hwm
        down.is_open = True
        down.receiver = self
        self.down = down
        self.up.put_first(partial(self._attach, bound))

    def _attach(self, bound: BoundSocket) -> None:
        if self.peer is bound and not bound.closed:
            bound.attach(self)

    def opened(self, bound: BoundSocket) -> None:
        """Let messages flow: the bound side knows this peer now."""
        self.up.unread = 0
        self.up.unread_max = bound.options.recv_hwm
        self.up.is_open = True
        self.up.kick()

    def _deliver_up(self, _pipe: Pipe, message: Message) -> None:
        # A closed peer's kernel still takes bytes for a while: they vanish.
        if self.peer is not None and not self.peer.closed and not self.refused:
            self.peer.deliver(self, message)

    def _deliver_down(self, down: Pipe, message: Message) -> None:
        if not self.closed:
            self._accept(down, message)

    def lost(self, bound: BoundSocket) -> None:
        """Notice that the bound socket is gone; wait for the next one."""
        if self.peer is not bound:
            return
        self.peer = None
        self.up.is_open = False
        self._reset()
        self._network.offer(self)

    def _reset(self) -> None:
        """Adjust what waits to be sent to a new peer."""

    async def send(self, frames: Sequence[bytes]) -> None:
        """Queue one message for the peer; waits while the pipe is full.

        Raises:
            SocketClosedError: the socket is closed, or was while waiting.
        """
        self._check_open()
        await self._put(self.up, message_of(frames))

    def _close(self) -> None:
        if self.up.writers:
            self.up.wake_writers()
        linger_ms = self.options.linger_ms
        if linger_ms > 0:
            self._linger_until_us = self._loop.now_us + 1000 * linger_ms
        if linger_ms == 0:
            self.up.clear()
        if self._network.over:
            return
        if self.peer is None and not len(self.up):
            self._network.withdraw(self)
            return
        self.up.put(self._detach)

    def let_go(self) -> None:
        """See ``SimSocket``."""
        self.up.let_go()
        if self.down is not None:
            self.down.let_go()
        self.peer = None

    def _detach(self) -> None:
        """Behind the last message: the peer learns that this socket is gone."""
        if self.peer is None:
            return
        bound, self.peer = self.peer, None
        bound.connected.remove(self)
        if not bound.closed:
            bound.detach(self)

    def waits(self, future: asyncio.Future[object]) -> str | None:
        """See ``SimSocket``; also knows who waits for room to send."""
        if any(writer is future for writer in self.up.writers):
            return f"room to send on {self.kind.value} {self.label}"
        return super().waits(future)


class DealerSocket(ConnectingSocket):
    """Announces an identity; messages go both ways."""

    kind = SocketKind.DEALER


class PushSocket(ConnectingSocket):
    """Sends only."""

    kind = SocketKind.PUSH

    async def recv(self) -> list[bytes]:
        """Refuse.

        Raises:
            TransportError: always.
        """
        msg = "a PUSH socket cannot receive"
        raise TransportError(msg)


class XSubSocket(ConnectingSocket):
    """Sends subscriptions and messages up, receives what is published.

    Subscriptions are counted: only the last unsubscription of a topic goes up.
    """

    kind = SocketKind.XSUB

    def __init__(self, network: Network, label: str, endpoint: str, options: SocketOptions) -> None:
        self._topics: dict[bytes, int] = {}
        super().__init__(network, label, endpoint, options)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send a subscription message (``01`` or ``00``, then the topic) or any other message.

        Raises:
            SocketClosedError: the socket is closed.
        """
        self._check_open()
        message = message_of(frames)
        first, topic = message[0][:1], message[0][1:]
        if len(message) == 1 and first == SUBSCRIBE:
            self._topics[topic] = self._topics.get(topic, 0) + 1
        elif len(message) == 1 and first == UNSUBSCRIBE:
            left = self._topics.get(topic, 0) - 1
            if left > 0:
                self._topics[topic] = left
            if left != 0:
                return
            del self._topics[topic]
        if not self.up.is_full:
            self.up.put(message)

    def _reset(self) -> None:
        # libzmq starts a fresh pipe ("hiccup") and subscribes anew.
        self.up.clear()
        for topic in self._topics:
            self.up.put([SUBSCRIBE + topic])


# --- the binding side ---------------------------------------------------------------------


class BoundSocket(SimSocket):
    """ROUTER, PULL or XPUB.

    Attributes:
        connected: connecting sockets that are attached or about to be, oldest first.
    """

    def __init__(self, network: Network, label: str, endpoint: str, options: SocketOptions) -> None:
        super().__init__(network, label, endpoint, options)
        self.connected: list[ConnectingSocket] = []

    def attach(self, peer: ConnectingSocket) -> None:
        """Take note of a new peer."""
        peer.opened(self)

    def detach(self, peer: ConnectingSocket) -> None:
        """Take note that a peer is gone."""

    def deliver(self, peer: ConnectingSocket, message: Message) -> None:
        """Take one message of a peer."""
        self._accept(peer.up, message)

    def let_go(self) -> None:
        """See ``SimSocket``."""
        self.connected.clear()

    def _close(self) -> None:
        for peer in self.connected:
            if peer.down is None:
                continue
            if self.options.linger_ms == 0:
                peer.down.clear()
            if not self._network.over:
                peer.down.put(partial(peer.lost, self))
            if peer.down.writers:
                peer.down.wake_writers()

    def waits(self, future: asyncio.Future[object]) -> str | None:
        """See ``SimSocket``; also knows who waits for room to send."""
        for peer in self.connected:
            if peer.down and any(writer is future for writer in peer.down.writers):
                return f"room to send from {self.kind.value} {self.label} to {peer.label}"
        return super().waits(future)


class RouterSocket(BoundSocket):
    """Talks to each peer by its identity, which belongs to one peer at a time."""

    kind = SocketKind.ROUTER

    def __init__(self, network: Network, label: str, endpoint: str, options: SocketOptions) -> None:
        super().__init__(network, label, endpoint, options)
        self._peers: dict[bytes, ConnectingSocket] = {}
        self._unnamed = 0

    def _fresh_identity(self) -> bytes:
        self._unnamed += 1
        return b"\x00" + self._unnamed.to_bytes(4, "big")

    def attach(self, peer: ConnectingSocket) -> None:
        """Learn a peer's identity.

        If another peer has it, or had it and its end was not noticed yet, the new one is
        ignored for good; with ``handover`` it takes the identity over and the other is ignored.
        """
        identity = self._fresh_identity() if (given := peer.options.identity) is None else given
        holder = self._peers.get(identity)
        if holder is None or self.options.handover:
            if holder is not None:
                self._push_out(holder)
            self._peers[identity] = peer
            peer.identity = identity
        else:
            peer.refused = True
        peer.opened(self)

    def let_go(self) -> None:
        """See ``SimSocket``."""
        super().let_go()
        self._peers.clear()

    def _push_out(self, holder: ConnectingSocket) -> None:
        """Ignore the holder of an identity; what it sent before shows a made-up identity."""
        holder.refused = True
        made_up = self._fresh_identity()
        for pipe, message in self._inbox:
            if pipe is holder.up:
                message[0] = made_up

    def detach(self, peer: ConnectingSocket) -> None:
        """Forget the identity of a peer that is gone."""
        if not peer.refused and peer.identity is not None:
            del self._peers[peer.identity]

    def deliver(self, peer: ConnectingSocket, message: Message) -> None:
        """Take one message, the sender's identity put in front."""
        assert peer.identity is not None
        self._accept(peer.up, [peer.identity, *message])

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send to the peer that ``frames[0]`` names; waits while its pipe is full.

        Raises:
            UnknownPeerError: no such peer is attached (mandatory sockets only).
            SocketClosedError: the socket is closed, or was while waiting.
        """
        self._check_open()
        identity, *message = message_of(frames)
        while True:
            peer = self._peers.get(identity)
            if peer is None or peer.down is None:
                if self.options.mandatory:
                    msg = f"ROUTER {self.label} knows no peer with identity {identity.hex(' ')}"
                    raise UnknownPeerError(msg)
                return
            if not peer.down.is_full:
                peer.down.put(message)
                return
            if not self.options.mandatory:
                return
            await peer.down.writable()
            self._check_open()


class PullSocket(BoundSocket):
    """Receives only."""

    kind = SocketKind.PULL

    async def send(self, frames: Sequence[bytes]) -> None:  # noqa: ARG002
        """Refuse.

        Raises:
            TransportError: always.
        """
        msg = "a PULL socket cannot send"
        raise TransportError(msg)


class XPubSocket(BoundSocket):
    """Publishes to subscribers; subscriptions and other messages of theirs can be received."""

    kind = SocketKind.XPUB

    def __init__(self, network: Network, label: str, endpoint: str, options: SocketOptions) -> None:
        super().__init__(network, label, endpoint, options)
        # Dicts, not sets: the order must not depend on addresses.
        self._topics: dict[bytes, dict[ConnectingSocket, None]] = {}

    def deliver(self, peer: ConnectingSocket, message: Message) -> None:
        """Take a subscription message, or any other message."""
        first, topic = message[0][:1], message[0][1:]
        if len(message) > 1 or first not in (SUBSCRIBE, UNSUBSCRIBE):
            self._accept(peer.up, message)
            return
        holders = self._topics.get(topic, {})
        if first == SUBSCRIBE:
            is_news = not holders
            self._topics.setdefault(topic, holders)[peer] = None
            if is_news or self.options.xpub_verbose:
                self._accept(peer.up, message)
        else:
            self._drop(peer, topic)

    def let_go(self) -> None:
        """See ``SimSocket``."""
        super().let_go()
        self._topics.clear()

    def _drop(self, peer: ConnectingSocket, topic: bytes) -> None:
        holders = self._topics.get(topic, {})
        holders.pop(peer, None)
        if not holders:
            self._topics.pop(topic, None)
            self._accept(peer.up, [UNSUBSCRIBE + topic])

    def detach(self, peer: ConnectingSocket) -> None:
        """Forget a peer; topics that nobody else has show as unsubscriptions."""
        for topic in [topic for topic, holders in self._topics.items() if peer in holders]:
            self._drop(peer, topic)

    async def send(self, frames: Sequence[bytes]) -> None:
        """Publish to all attached subscribers of a prefix of ``frames[0]``; never waits.

        Raises:
            SocketClosedError: the socket is closed.
        """
        self._check_open()
        message = message_of(frames)
        matching = [
            holders for topic, holders in self._topics.items() if message[0].startswith(topic)
        ]
        for peer in self.connected:
            if peer.down is None or peer.down.is_full:
                continue
            if any(peer in holders for holders in matching):
                peer.down.put(list(message))
