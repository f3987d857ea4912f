"""The transport over real ZMQ sockets, on ``zmq.asyncio``.

Two things differ from bare ``zmq.asyncio``:

- Each receiving socket is read eagerly into a queue of ours. So cancelling ``recv`` loses no
  message (a future that is resolved and cancelled in one step would), and libzmq takes note at
  once that a peer is gone; a ROUTER that nobody reads keeps the identities of dead peers.
- A ROUTER whose peer is full reports ``EAGAIN`` and no event when there is room again, so the
  send is tried again at ``ROUTER_RETRY_S``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket as os_socket
import tempfile
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import zmq
import zmq.asyncio

from client.aio import resolve
from client.protocol.transport import (
    DEFAULT_OPTIONS,
    AddressInUseError,
    Socket,
    SocketClosedError,
    SocketKind,
    SocketOptions,
    TransportError,
    UnknownPeerError,
)
from client.transports.folders import PREFIX, held_folder

RECONNECT_MS = 10
"""libzmq's first wait before it connects again; its default of 100 ms slows every startup."""
ROUTER_RETRY_S = 0.001
"""How long a ROUTER waits before it tries a full peer again."""
LINGER_MS_MAX = 100
"""Bound of ``linger_ms`` here. A live peer on this host takes far less; without the bound a
peer that is gone would let ``close`` of the transport block for the whole linger time."""
REBIND_RETRY_S = 0.001
REBIND_TRIES_MAX = 2_000
"""libzmq gives an address free some time after ``close``; binding it anew waits so long."""
BIND_TRIES_MAX = 50
"""The same for an address that another transport may just have given free."""
_IPC_PATH_MAX = 100
"""Bytes of a socket file's path; the systems' own limits start at 103."""

_TYPES = {
    SocketKind.ROUTER: zmq.ROUTER,
    SocketKind.DEALER: zmq.DEALER,
    SocketKind.PUSH: zmq.PUSH,
    SocketKind.PULL: zmq.PULL,
    SocketKind.XPUB: zmq.XPUB,
    SocketKind.XSUB: zmq.XSUB,
}


def _mapped(error: zmq.ZMQError, what: str) -> TransportError:
    """Translate an error of libzmq into one of the transport's own."""
    text = f"{what}: {error.strerror}"
    if error.errno == zmq.EHOSTUNREACH:
        return UnknownPeerError(text)
    if error.errno == zmq.EADDRINUSE:
        return AddressInUseError(text)
    if error.errno in (zmq.ENOTSOCK, zmq.ETERM):
        return SocketClosedError(text)
    return TransportError(text)


class ZmqSocket:
    """One open socket; made by ``ZmqTransport``."""

    def __init__(
        self, raw: zmq.asyncio.Socket, kind: SocketKind, endpoint: str, options: SocketOptions
    ) -> None:
        self._raw = raw
        self._kind = kind
        self._endpoint = endpoint
        self._linger_ms = options.linger_ms
        self._unread_max = options.recv_hwm
        self._unread: deque[list[bytes]] = deque()
        self._reading: asyncio.Future[list[bytes]] | None = None
        self._readers: deque[asyncio.Future[None]] = deque()
        self._sending: dict[asyncio.Future[Any], None] = {}
        self._failure: TransportError | None = None
        self._closed = False
        self._read_on()

    def __repr__(self) -> str:
        return f"<ZmqSocket {self._kind.value} {self._endpoint}>"

    @property
    def kind(self) -> SocketKind:
        """Its ZMQ type."""
        return self._kind

    @property
    def endpoint(self) -> str:
        """The address it is bound or connected to, with the port that the system chose."""
        return self._endpoint

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    @property
    def has_unread(self) -> bool:
        """Whether a message is here that nobody has received yet."""
        if self._closed:
            return False
        return bool(self._unread) or bool(int(self._raw.getsockopt(zmq.EVENTS)) & zmq.POLLIN)

    def watch(self, events: int) -> zmq.asyncio.Socket:
        """Return a socket on which libzmq tells of connections (``zmq.Event``) from now on.

        It ends with this socket, or with the transport.
        """
        self._check_open()
        return self._raw.get_monitor_socket(events)

    def _check_open(self) -> None:
        if self._closed:
            msg = f"{self._kind.value} socket on {self._endpoint} is closed"
            raise SocketClosedError(msg)

    # --- receiving -------------------------------------------------------------------------

    def _read_on(self) -> None:
        """Ask libzmq for the next message, unless enough of them wait to be received."""
        if self._closed or self._reading is not None or self._kind is SocketKind.PUSH:
            return
        if 0 < self._unread_max <= len(self._unread):
            return
        self._reading = asyncio.ensure_future(self._raw.recv_multipart())
        self._reading.add_done_callback(self._on_read)

    def _on_read(self, read: asyncio.Future[list[bytes]]) -> None:
        self._reading = None
        if self._closed or read.cancelled():
            return
        if (error := read.exception()) is not None:
            if not isinstance(error, zmq.ZMQError):
                raise error  # pragma: no cover - a fault of pyzmq; it says it in no other way
            self._failure = _mapped(error, f"receive on {self._endpoint}")
        else:
            self._unread.append(read.result())
            self._read_on()
        self._wake_reader()

    def _wake_reader(self) -> None:
        while self._readers:
            reader = self._readers.popleft()
            if not reader.done():
                reader.set_result(None)
                return

    async def recv(self) -> list[bytes]:
        """Receive one message; cancelling loses none. ROUTER: identity first.

        Raises:
            SocketClosedError: the socket is closed, or was while waiting.
            TransportError: libzmq failed.
        """
        if self._kind is SocketKind.PUSH:
            msg = "a PUSH socket cannot receive"
            raise TransportError(msg)
        while True:
            self._check_open()
            if self._unread:
                message = self._unread.popleft()
                self._read_on()
                return message
            if self._failure is not None:
                raise self._failure
            reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._readers.append(reader)
            try:
                await reader
            except asyncio.CancelledError:
                # Woken and cancelled at once: the message is another reader's.
                if reader.done() and not reader.cancelled():
                    self._wake_reader()
                raise

    # --- sending ---------------------------------------------------------------------------

    async def send(self, frames: Sequence[bytes]) -> None:
        """Send one message. ROUTER: ``frames[0]`` is the identity.

        Raises:
            UnknownPeerError: a mandatory ROUTER knows no such identity now.
            SocketClosedError: the socket is closed, or was while waiting.
            TransportError: anything else, the message says what.
        """
        self._check_open()
        if not frames:
            msg = "a message has at least one frame"
            raise TransportError(msg)
        parts = list(frames)
        try:
            if self._kind is SocketKind.ROUTER:
                await self._send_as_router(parts)
            else:
                await self._finish(self._raw.send_multipart(parts))
        except zmq.ZMQError as error:
            raise _mapped(error, f"send on {self._kind.value} {self._endpoint}") from error

    async def _send_as_router(self, parts: list[bytes]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._raw.send_multipart(parts, flags=zmq.DONTWAIT)
            except zmq.Again:
                later: asyncio.Future[None] = loop.create_future()
                timer = loop.call_later(ROUTER_RETRY_S, resolve, later)
                try:
                    await self._finish(later)
                finally:
                    timer.cancel()
                self._check_open()
            else:
                return

    async def _finish(self, sending: Any) -> None:
        """Await a send; ``close`` can end it."""
        future: asyncio.Future[Any] = asyncio.ensure_future(sending)
        if future.done():
            future.result()
            return
        self._sending[future] = None
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.exception()  # closed and cancelled at once: the error was seen
            raise
        finally:
            self._sending.pop(future, None)

    def close(self) -> None:
        """Close; pending ``recv`` and ``send`` raise ``SocketClosedError``. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._unread.clear()
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)
        self._readers.clear()
        for future in self._sending:
            if not future.done():
                msg = f"{self._kind.value} socket on {self._endpoint} was closed while sending"
                future.set_exception(SocketClosedError(msg))
        linger_ms = self._linger_ms
        bounded = LINGER_MS_MAX if linger_ms < 0 else min(linger_ms, LINGER_MS_MAX)
        self._raw.close(linger=bounded)


class ZmqTransport:
    """A ``Transport`` over real sockets, with a ZMQ context and a folder of its own.

    Any address can be given to ``bind`` and ``connect``, not only those that ``endpoint`` made.

    Args:
        scheme: what ``endpoint`` makes: ``ipc`` (a file in a private folder) or ``tcp`` (a port
            on 127.0.0.1, kept free from others until the transport is closed).
    """

    def __init__(self, scheme: Literal["ipc", "tcp"] = "ipc") -> None:
        self._scheme = scheme
        self._context = zmq.asyncio.Context()
        self._folder: Path | None = None
        self._hold = -1
        self._issued = 0
        self._reserved: list[os_socket.socket] = []
        self._open: list[ZmqSocket] = []
        self._bound: dict[str, ZmqSocket] = {}
        self._closed = False

    def endpoint(self, name: str) -> str:
        """Make a fresh address; ``name`` becomes part of it where it can.

        Raises:
            TransportError: the transport is closed, or the system has no address left.
        """
        self._check_open("make an endpoint")
        self._issued += 1
        if self._scheme == "tcp":
            return f"tcp://127.0.0.1:{self._reserve_port()}"
        if self._folder is None:
            self._folder, self._hold = held_folder(_short_parent())
        path = str(self._folder / f"{self._issued}-{name.replace('/', '.')}")
        if len(path.encode()) > _IPC_PATH_MAX:
            path = str(self._folder / str(self._issued))
        return f"ipc://{path}"

    def _reserve_port(self) -> int:
        # Bound but not listening: the system gives the port to nobody else, and libzmq, which
        # also sets SO_REUSEADDR, can listen on it.
        keeper = os_socket.socket(os_socket.AF_INET, os_socket.SOCK_STREAM)
        keeper.setsockopt(os_socket.SOL_SOCKET, os_socket.SO_REUSEADDR, 1)
        try:
            keeper.bind(("127.0.0.1", 0))
        except OSError as error:
            keeper.close()
            msg = f"no free port on 127.0.0.1: {error.strerror}"
            raise TransportError(msg) from error
        self._reserved.append(keeper)
        return int(keeper.getsockname()[1])

    async def bind(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket and bind it; ``tcp`` ports may be 0 or ``*``.

        Raises:
            AddressInUseError: somebody is bound there.
            TransportError: libzmq cannot bind there; the message says why.
        """
        self._check_open(f"bind {kind.value} to {endpoint}")
        raw = self._socket(kind, options)
        try:
            await self._bind_raw(raw, endpoint)
            resolved = raw.getsockopt_string(zmq.LAST_ENDPOINT)
        except BaseException as error:
            raw.close(linger=0)
            if isinstance(error, zmq.ZMQError):
                raise _mapped(error, f"cannot bind {kind.value} to {endpoint}") from error
            raise
        socket = ZmqSocket(raw, kind, resolved, options)
        self._open.append(socket)
        self._bound[resolved] = socket
        return socket

    async def _bind_raw(self, raw: zmq.asyncio.Socket, endpoint: str) -> None:
        """Bind, and wait for an address that was given free a moment ago."""
        loop = asyncio.get_running_loop()
        holder = self._bound.get(endpoint)
        tries_left = 0
        if holder is None:
            tries_left = BIND_TRIES_MAX
        elif holder.closed:
            tries_left = REBIND_TRIES_MAX
        while True:
            try:
                if _ipc_listens(endpoint):
                    raise zmq.ZMQError(zmq.EADDRINUSE)
                raw.bind(endpoint)
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE or tries_left == 0:
                    raise
                tries_left -= 1
                later: asyncio.Future[None] = loop.create_future()
                loop.call_later(REBIND_RETRY_S, resolve, later)
                await later
                self._check_open(f"bind to {endpoint}")
            else:
                return

    async def connect(
        self, kind: SocketKind, endpoint: str, options: SocketOptions = DEFAULT_OPTIONS
    ) -> Socket:
        """Open a socket and connect it; the peer may appear later.

        Raises:
            TransportError: libzmq does not take the address; the message says why.
        """
        self._check_open(f"connect {kind.value} to {endpoint}")
        raw = self._socket(kind, options)
        try:
            raw.connect(endpoint)
        except zmq.ZMQError as error:
            raw.close(linger=0)
            raise _mapped(error, f"cannot connect {kind.value} to {endpoint}") from error
        socket = ZmqSocket(raw, kind, endpoint, options)
        self._open.append(socket)
        return socket

    def _socket(self, kind: SocketKind, options: SocketOptions) -> zmq.asyncio.Socket:
        raw = self._context.socket(_TYPES[kind])
        raw.setsockopt(zmq.SNDHWM, options.send_hwm)
        raw.setsockopt(zmq.RCVHWM, options.recv_hwm)
        raw.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        if options.identity is not None:
            raw.setsockopt(zmq.IDENTITY, options.identity)
        if kind is SocketKind.ROUTER:
            raw.setsockopt(zmq.ROUTER_MANDATORY, int(options.mandatory))
            raw.setsockopt(zmq.ROUTER_HANDOVER, int(options.handover))
        if kind is SocketKind.XPUB:
            raw.setsockopt(zmq.XPUB_VERBOSE, int(options.xpub_verbose))
        return raw

    def _check_open(self, what: str) -> None:
        if self._closed:
            msg = f"cannot {what}: the transport is closed"
            raise TransportError(msg)

    @property
    def open_sockets(self) -> int:
        """Sockets of this transport that are still open."""
        return sum(not socket.closed for socket in self._open)

    def close(self) -> None:
        """Close all sockets, end the ZMQ context, remove the folder. Idempotent.

        Waits up to ``LINGER_MS_MAX`` for messages of sockets that linger.
        """
        if self._closed:
            return
        self._closed = True
        for socket in self._open:
            socket.close()
        self._open.clear()
        self._bound.clear()
        self._context.destroy(linger=0)
        for keeper in self._reserved:
            keeper.close()
        self._reserved.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder)
            os.close(self._hold)
            self._folder = None


def _short_parent() -> Path | None:
    """Where the folder goes if the system's own temporary folder has too long a path."""
    longest = Path(tempfile.gettempdir(), f"{PREFIX}12345678", "123456")
    short = Path("/tmp")
    if len(str(longest).encode()) > _IPC_PATH_MAX and short.is_dir():
        return short
    return None


def _ipc_listens(endpoint: str) -> bool:
    """Whether somebody listens on an ipc address; libzmq itself would take it from them."""
    path = endpoint.removeprefix("ipc://")
    if path == endpoint or not hasattr(os_socket, "AF_UNIX") or not Path(path).is_socket():
        return False
    with os_socket.socket(os_socket.AF_UNIX, os_socket.SOCK_STREAM) as caller:
        caller.settimeout(REBIND_RETRY_S)
        try:
            caller.connect(path)
        except OSError as error:
            # A full backlog (EAGAIN, or the timeout) has a listener too.
            return isinstance(error, BlockingIOError | TimeoutError)
        return True
