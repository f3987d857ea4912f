"""One HTTP/1.1 request on a connection of its own, down to what is sent and what is read.

A caller who leaves closes the connection; one who does not read leaves the bytes in the kernel,
whose buffers are small then; one may stop in the middle of a request. A client library with
a pool does none of these by intention, so the connection is a plain stream, and h11 does what
the protocol asks for.
"""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from harness.targets.base import TargetError

UNIX_SOCKET = "unix:"
CONNECTION_REFUSED = "ConnectionRefused"
CONNECTION_LOST = "ConnectionLost"
_READ_SIZE = 65_536
_SLOW_BUFFER = 4_096
"""Receive buffer of a caller who does not read; the kernel doubles it."""
_SLOW_SEGMENT = 536
"""Segment size of such a caller: the kernel makes the sender's buffer a multiple of it."""
Send = Literal["whole", "half", "head", "nothing"]


class ConnectionFailed(Exception):  # noqa: N818  (an outcome of a call, not a fault of ours)
    """There is no whole answer. ``name`` is ``ConnectionRefused`` or ``ConnectionLost``."""

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(detail)
        self.name = name


@dataclass(frozen=True, slots=True)
class Request:
    """What to send.

    Attributes:
        target: path with query, encoded.
        behind: bytes that follow a whole request at once, on the same connection.
    """

    verb: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    send: Send = "whole"
    behind: bytes = b""


def encoded(h11: Any, connection: Any, request: Request) -> bytes:
    """Return the bytes of a request, as far as it is to be sent.

    ``connection`` is an ``h11.Connection``, which afterwards awaits the answer.
    """
    body = request.body
    headers = [("Host", "frontend"), ("Accept", "*/*"), *request.headers]
    if body is not None:
        headers.append(("Content-Length", str(len(body))))
    # A value may hold what HTTP calls obs-text (RFC 9110, 5.5): bytes beyond ASCII.
    fields = [(name, value.encode()) for name, value in headers]
    data: bytes = connection.send(
        h11.Request(method=request.verb, target=request.target, headers=fields)
    )
    if request.send == "nothing":
        return b""
    if request.send == "half" and body is not None:
        data += connection.send(h11.Data(data=body[: len(body) // 2]))
    elif request.send == "whole":
        if body:
            data += connection.send(h11.Data(data=body))
        data += connection.send(h11.EndOfMessage()) + request.behind
    return data


def load_h11() -> Any:
    """Import h11, which is in the extra ``frontend``.

    Raises:
        TargetError: it is not installed.
    """
    try:
        return importlib.import_module("h11")
    except ImportError as error:
        msg = "the target vllm-rs needs h11: pip install wavecheck[frontend]"
        raise TargetError(msg) from error


class Exchange:
    """A request and its answer. Use as a context; leaving it closes the connection at once.

    ``before_reading`` is awaited once the request is off; until it returns, nothing is read.
    """

    def __init__(
        self,
        address: str,
        request: Request,
        before_reading: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """``address``: ``http://host:port`` or ``unix:path``."""
        self._h11 = load_h11()
        self._address = address
        self._request = request
        self._before_reading = before_reading
        self._connection = self._h11.Connection(self._h11.CLIENT)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        """Connect and send.

        Raises:
            ConnectionFailed: nobody listens, or the connection broke at once.
        """
        family, where = place(self._address)
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)
            if self._before_reading is not None:
                _make_narrow(connection)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(connection, where)
            self._reader, self._writer = await asyncio.open_connection(sock=connection)
        except OSError as error:
            connection.close()
            raise ConnectionFailed(CONNECTION_REFUSED, repr(error)) from error
        except BaseException:
            connection.close()
            raise
        try:
            if self._before_reading is not None:
                self._transport.pause_reading()
            await self._send()
        except OSError as error:
            self._close()
            raise ConnectionFailed(CONNECTION_LOST, repr(error)) from error
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self._close()

    @property
    def _transport(self) -> Any:
        assert self._writer is not None
        return self._writer.transport

    def _close(self) -> None:
        # Not `close`, which would first wait for the peer to take what we still have to send.
        if self._writer is not None:
            self._transport.abort()

    async def _send(self) -> None:
        data = encoded(self._h11, self._connection, self._request)
        assert self._writer is not None
        self._writer.write(data)
        await self._writer.drain()

    async def status(self) -> int:
        """Wait until the answer may be read, and return its status.

        Raises:
            ConnectionFailed: the connection ended before.
        """
        if self._before_reading is not None:
            await self._before_reading()
            with suppress(RuntimeError):  # it broke meanwhile; the read below says how
                self._transport.resume_reading()
        while True:
            event = await self._event()
            if isinstance(event, self._h11.Response):
                return int(event.status_code)
            # Informational responses are skipped.

    async def data(self) -> bytes | None:
        """Return the next bytes of the body, ``None`` at its end.

        Raises:
            ConnectionFailed: the connection ended before the body did.
        """
        while True:
            event = await self._event()
            if isinstance(event, self._h11.Data):
                return bytes(event.data)
            if isinstance(event, self._h11.EndOfMessage | self._h11.ConnectionClosed):
                return None

    async def text(self) -> str:
        """Return the rest of the body."""
        parts = []
        while (data := await self.data()) is not None:
            parts.append(data)
        return b"".join(parts).decode("utf-8", "replace")

    async def again(self) -> bool:
        """Send the rest of an answered request, and then all of it once more.

        Returns ``False``, with nothing sent, if the answer announced the end of the connection.
        Then, or when the second answer is read, a connection that is gone shows.

        Raises:
            ConnectionFailed: the connection broke at once.
        """
        request, connection = self._request, self._connection
        body = request.body or b""
        rest = {"half": body[len(body) // 2 :], "head": body}.get(request.send, b"")
        data = b""
        if connection.our_state is self._h11.SEND_BODY:
            data += connection.send(self._h11.Data(data=rest))
            data += connection.send(self._h11.EndOfMessage())
        if connection.our_state is self._h11.MUST_CLOSE:
            return False
        connection.start_next_cycle()
        data += encoded(self._h11, connection, replace(request, send="whole"))
        assert self._writer is not None
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise ConnectionFailed(CONNECTION_LOST, repr(error)) from error
        return True

    async def _event(self) -> Any:
        assert self._reader is not None
        while True:
            try:
                event = self._connection.next_event()
                if event is not self._h11.NEED_DATA:
                    if isinstance(event, self._h11.ConnectionClosed):
                        raise ConnectionFailed(CONNECTION_LOST, "closed without an answer")
                    if event is self._h11.PAUSED:
                        # What follows is another protocol (101, or CONNECT): no answer to read.
                        raise ConnectionFailed(CONNECTION_LOST, "it changed to another protocol")
                    return event
                self._connection.receive_data(await self._reader.read(_READ_SIZE))
            except (OSError, self._h11.RemoteProtocolError) as error:
                raise ConnectionFailed(CONNECTION_LOST, repr(error)) from error


def _make_narrow(connection: socket.socket) -> None:
    """Let little fit between the frontend and us, so that it notices that we do not read."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BUFFER)
    if connection.family == socket.AF_INET:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SLOW_SEGMENT)


def place(address: str) -> tuple[socket.AddressFamily, Any]:
    """Return family and socket address of where HTTP is served."""
    if address.startswith(UNIX_SOCKET):
        return socket.AF_UNIX, address.removeprefix(UNIX_SOCKET)
    parts = urlsplit(address)
    family = socket.AF_INET6 if ":" in (parts.hostname or "") else socket.AF_INET
    return family, (parts.hostname, parts.port)
