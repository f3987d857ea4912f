"""The simulated transport: ZMQ's semantics in memory, every order a choice of the loop.

``tests/parity/test_transport_contract.py`` holds it to what libzmq does.
"""

from __future__ import annotations

import asyncio
from typing import Any

from client.protocol.transport import (
    DEFAULT_OPTIONS,
    AddressInUseError,
    Socket,
    SocketKind,
    SocketOptions,
    TransportError,
)
from harness.sim.loop import SimLoop
from harness.sim.pipes import SCHEME
from harness.sim.sockets import (
    BoundSocket,
    ConnectingSocket,
    DealerSocket,
    PullSocket,
    PushSocket,
    RouterSocket,
    SimSocket,
    XPubSocket,
    XSubSocket,
)

_BOUND: dict[SocketKind, type[BoundSocket]] = {
    SocketKind.ROUTER: RouterSocket,
    SocketKind.PULL: PullSocket,
    SocketKind.XPUB: XPubSocket,
}
_CONNECTING: dict[SocketKind, type[ConnectingSocket]] = {
    SocketKind.DEALER: DealerSocket,
    SocketKind.PUSH: PushSocket,
    SocketKind.XSUB: XSubSocket,
}
_PARTNER = {
    SocketKind.ROUTER: SocketKind.DEALER,
    SocketKind.PULL: SocketKind.PUSH,
    SocketKind.XPUB: SocketKind.XSUB,
}


class Network:
    """Who is bound where, and who waits for somebody to bind.

    Attributes:
        over: the scenario has come to its end. Whose socket is closed from now on tells its peers
            nothing: they are closed too, and a tenth of a short run's steps were such notices.
    """

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self._bound: dict[str, BoundSocket] = {}
        self._waiting: dict[str, list[ConnectingSocket]] = {}
        self._sockets: dict[SimSocket, None] = {}
        self._issued: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._latency_us: dict[str, int] = {}
        self._ever: list[SimSocket] = []
        self.over = False
        loop.add_describer(self._describe)

    def issue(self, name: str) -> str:
        """Make a fresh endpoint."""
        number = self._issued[name] = self._issued.get(name, 0) + 1
        return f"{SCHEME}{name}" if number == 1 else f"{SCHEME}{name}.{number}"

    def short(self, endpoint: str) -> str:
        """An endpoint as it shows in labels."""
        return endpoint.removeprefix(SCHEME)

    def label(self, owner: str, endpoint: str, options: SocketOptions) -> str:
        """Name a connecting socket: its owner, else its rank, else its number."""
        if owner:
            return owner
        if options.identity is not None and len(options.identity) == 2:
            return f"engine {int.from_bytes(options.identity, 'little')}"
        number = self._numbers[endpoint] = self._numbers.get(endpoint, 0) + 1
        return f"{self.short(endpoint)}#{number}"

    def latency_us(self, endpoint: str) -> int:
        """How long a message to or from this endpoint travels."""
        return self._latency_us.get(endpoint, 0)

    def set_latency_us(self, endpoint: str, latency_us: int) -> None:
        """Set it, for what is sent from now on."""
        self._latency_us[endpoint] = latency_us
        for socket in self._sockets:
            if isinstance(socket, ConnectingSocket) and socket.endpoint == endpoint:
                socket.up.latency_us = latency_us
                if socket.down is not None:
                    socket.down.latency_us = latency_us

    def add(self, socket: SimSocket) -> None:
        """Keep an open socket; a bound one is offered to those who wait for it."""
        self._sockets[socket] = None
        self._ever.append(socket)
        if isinstance(socket, BoundSocket):
            self._bound[socket.endpoint] = socket
            for waiting in self._waiting.pop(socket.endpoint, []):
                if waiting.lingers:
                    waiting.establish(socket)

    def is_bound(self, endpoint: str) -> bool:
        """Whether somebody is bound there."""
        return endpoint in self._bound

    def offer(self, socket: ConnectingSocket) -> None:
        """Attach a connecting socket to whoever is bound, now or later."""
        bound = self._bound.get(socket.endpoint)
        if bound is not None:
            socket.establish(bound)
        else:
            self._waiting.setdefault(socket.endpoint, []).append(socket)

    def withdraw(self, socket: ConnectingSocket) -> None:
        """Take back an offer."""
        if socket in (waiting := self._waiting.get(socket.endpoint, [])):
            waiting.remove(socket)

    def forget(self, socket: SimSocket) -> None:
        """Drop a closed socket; its endpoint is free at once."""
        self._sockets.pop(socket, None)
        if isinstance(socket, BoundSocket) and self._bound.get(socket.endpoint) is socket:
            del self._bound[socket.endpoint]

    def dissolve(self) -> None:
        """Take all connections apart once the run is over: each refers to both of its ends.

        Two thirds of what a run left to the garbage collector were sockets and pipes.
        """
        for socket in self._ever:
            socket.let_go()
        self._ever.clear()
        self._waiting.clear()

    def _describe(self, future: asyncio.Future[Any]) -> str | None:
        for socket in self._sockets:
            if (text := socket.waits(future)) is not None:
                return text
        return None


class SimTransport:
    """A ``Transport`` whose sockets live in one ``SimLoop``.

    It carries what the protocol uses: ROUTER, PULL and XPUB bind; DEALER, PUSH and XSUB connect.

    Args:
        loop: the loop of the run; nothing needs to run yet.
        owner: name of the party in labels, e.g. ``client``; see ``owned_by``.
        network: shared by the transports of one run; made if not given.
    """

    def __init__(self, loop: SimLoop, *, owner: str = "", network: Network | None = None) -> None:
        self._network = network or Network(loop)
        self._owner = owner
        self._open: list[SimSocket] = []
        self._is_closed = False

    def owned_by(self, owner: str) -> SimTransport:
        """Make a transport in the same network whose sockets bear this name in labels."""
        return SimTransport(self._network.loop, owner=owner, network=self._network)

    def endpoint(self, name: str) -> str:
        """Make a fresh address; ``name`` shows in labels."""
        return self._network.issue(name)

    def set_latency_us(self, endpoint: str, latency_us: int) -> None:
        """Let messages to and from ``endpoint`` travel so long, in microseconds."""
        self._network.set_latency_us(endpoint, latency_us)

    async def bind(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket and bind it.

        Raises:
            AddressInUseError: somebody is bound there.
            TransportError: this kind does not bind in the protocol, or the transport is closed.
        """
        make = _BOUND.get(kind)
        if make is None or self._is_closed:
            raise self._refusal(kind, "bind")
        if self._network.is_bound(endpoint):
            msg = f"cannot bind {kind.value} to {endpoint}: address already in use"
            raise AddressInUseError(msg)
        label = self._network.short(endpoint)
        return self._keep(make(self._network, label, endpoint, options))

    async def connect(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket and connect it; the peer may appear later.

        Raises:
            TransportError: this kind does not connect in the protocol, or the transport is
                closed.
        """
        make = _CONNECTING.get(kind)
        if make is None or self._is_closed:
            raise self._refusal(kind, "connect")
        label = self._network.label(self._owner, endpoint, options)
        return self._keep(make(self._network, label, endpoint, options))

    def _refusal(self, kind: SocketKind, verb: str) -> TransportError:
        if self._is_closed:
            return TransportError(f"cannot {verb} {kind.value}: the transport is closed")
        msg = f"no {kind.value} socket {verb}s in the protocol; the simulation has none"
        return TransportError(msg)

    def _keep(self, socket: SimSocket) -> Socket:
        self._network.add(socket)
        self._open.append(socket)
        return socket

    @property
    def open_sockets(self) -> int:
        """Sockets of this transport that are still open."""
        return sum(not socket.closed for socket in self._open)

    def steps_end(self) -> None:
        """Take note that the scenario has come to its end: what follows is judged by nobody."""
        self._network.over = True

    def dissolve(self) -> None:
        """Close, and let go of every connection of the network: nothing runs in it any more."""
        self.close()
        self._network.dissolve()

    def close(self) -> None:
        """Close all sockets of this transport. Idempotent."""
        self._is_closed = True
        for socket in self._open:
            socket.close()
        self._open.clear()
