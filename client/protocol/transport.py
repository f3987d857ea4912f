"""The transport seam: named sockets that carry lists of frames.

Two implementations exist, ``client.transports.sockets`` (real ZMQ) and ``harness.sim.links``
(in memory). ``tests/parity/test_transport_contract.py`` runs the same facts against both, so
semantics are stated there, not here.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

import msgspec


class SocketKind(enum.Enum):
    """ZMQ socket types that the protocol uses."""

    ROUTER = "ROUTER"
    DEALER = "DEALER"
    PUSH = "PUSH"
    PULL = "PULL"
    XPUB = "XPUB"
    XSUB = "XSUB"


class TransportError(Exception):
    """A socket operation failed; the message says which and why."""


class UnknownPeerError(TransportError):
    """A mandatory ROUTER was asked to send to an identity that it does not know (now)."""


class SocketClosedError(TransportError):
    """The socket was closed, before or during the operation."""


class AddressInUseError(TransportError):
    """``bind`` on an endpoint that is already bound."""


class SocketOptions(msgspec.Struct, frozen=True):
    """Options of one socket.

    Attributes:
        identity: routing id announced by a DEALER; ``None`` lets the transport choose.
        mandatory: ROUTER only: sending to an unknown identity raises instead of dropping.
        handover: ROUTER only: a new peer takes over the identity of an older one. Otherwise the
            new one is ignored for good, even if the older one is gone but its end was not
            noticed yet; a rank that returns at once needs this.
        xpub_verbose: XPUB only: every subscription message is seen, equal ones too.
        send_hwm: messages queued per pipe before ``send`` waits (PUSH, DEALER, ROUTER) or
            drops (XPUB); 0 = no limit.
        recv_hwm: messages queued at the receiver per pipe; 0 = no limit.
        linger_ms: how long unsent messages outlive ``close``.
    """

    identity: bytes | None = None
    mandatory: bool = True
    handover: bool = False
    xpub_verbose: bool = True
    send_hwm: int = 0
    recv_hwm: int = 0
    linger_ms: int = 0


DEFAULT_OPTIONS = SocketOptions()


class Socket(Protocol):
    """One open socket. All methods belong to the loop that opened it."""

    @property
    def kind(self) -> SocketKind:
        """Its ZMQ type."""

    @property
    def endpoint(self) -> str:
        """The address it is bound or connected to, resolved (no wildcard)."""

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send one message. ROUTER: ``frames[0]`` is the identity.

        Raises:
            UnknownPeerError, SocketClosedError, TransportError.
        """

    async def recv(self) -> list[bytes]:
        """Receive one message; cancelling loses none. ROUTER: identity first."""

    def close(self) -> None:
        """Close; pending ``recv`` and ``send`` raise ``SocketClosedError``. Idempotent."""


class Transport(Protocol):
    """Opens sockets, and owns those that were opened until ``close``."""

    def endpoint(self, name: str) -> str:
        """Make a fresh address of this transport; ``name`` shows in labels and reports."""

    async def bind(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket and bind it. Raises ``AddressInUseError``, ``TransportError``."""

    async def connect(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket and connect it; the peer may appear later."""

    def close(self) -> None:
        """Close all sockets that are still open and release everything. Idempotent."""
