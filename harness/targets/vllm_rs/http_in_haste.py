"""HTTP callers for whom each fraction of a millisecond counts: those who race the frontend.

Everything that can be made before is made before: the bytes of a request, the connection of
an abort. What is left at the moment itself is one system call.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Sequence
from typing import Any

from client.aio import all_done, cancel_and_wait, resolve
from harness.targets.base import instant
from harness.targets.vllm_rs.http_wire import (
    CONNECTION_LOST,
    CONNECTION_REFUSED,
    ConnectionFailed,
    Request,
    encoded,
    load_h11,
    place,
)

_READ_SIZE = 65_536
_OK = 200


async def send_and_hang_up(
    address: str, requests: Sequence[Request], at_once: int, spread_s: float
) -> None:
    """Send each request on a connection of its own, and close that a moment later.

    ``at_once`` callers at a time, each one after the other. Nothing is read.

    Raises:
        ConnectionFailed: nobody listens.
    """
    h11 = load_h11()
    sent = [encoded(h11, h11.Connection(h11.CLIENT), request) for request in requests]
    loop = asyncio.get_running_loop()
    workers = [
        loop.create_task(_hang_up(address, sent, range(first, len(sent), at_once), spread_s))
        for first in range(min(at_once, len(sent)))
    ]
    try:
        await all_done(workers)
    finally:
        await cancel_and_wait([worker for worker in workers if not worker.done()])
    for worker in workers:
        worker.result()


async def _hang_up(address: str, sent: list[bytes], numbers: range, spread_s: float) -> None:
    loop = asyncio.get_running_loop()
    family, where = place(address)
    for number in numbers:
        with socket.socket(family, socket.SOCK_STREAM) as connection:
            connection.setblocking(False)
            try:
                await loop.sock_connect(connection, where)
                await loop.sock_sendall(connection, sent[number])
            except OSError as error:
                raise ConnectionFailed(CONNECTION_REFUSED, repr(error)) from error
            moment: asyncio.Future[None] = loop.create_future()
            loop.call_later(instant(number, spread_s), resolve, moment)
            await moment


class HttpAbortLine:
    """A connection that carries aborts, one after the other; see ``AbortLine``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._h11 = load_h11()
        self._connection = self._h11.Connection(self._h11.CLIENT)
        self._reader, self._writer = reader, writer

    def send(self, request_ids: list[str]) -> None:
        """Ask for an abort by external ids. Nothing may be unanswered."""
        headers = (("Content-Type", "application/json"),)
        body = json.dumps({"request_ids": request_ids}).encode()
        request = Request("POST", "/abort_requests", headers, body)
        self._writer.write(encoded(self._h11, self._connection, request))

    async def answered(self) -> None:
        """Wait for the answer.

        Raises:
            ConnectionFailed: there is none, or it is no success.
        """
        while True:
            event = await self._event()
            if isinstance(event, self._h11.Response) and event.status_code != _OK:
                raise ConnectionFailed(
                    CONNECTION_LOST, f"an abort was answered {event.status_code}"
                )
            if isinstance(event, self._h11.EndOfMessage):
                self._connection.start_next_cycle()
                return
            if isinstance(event, self._h11.ConnectionClosed):
                raise ConnectionFailed(CONNECTION_LOST, "closed without an answer")

    async def _event(self) -> Any:
        try:
            while (event := self._connection.next_event()) is self._h11.NEED_DATA:
                self._connection.receive_data(await self._reader.read(_READ_SIZE))
        except (OSError, self._h11.RemoteProtocolError) as error:
            raise ConnectionFailed(CONNECTION_LOST, repr(error)) from error
        return event

    def close(self) -> None:
        """Close the connection."""
        self._writer.transport.abort()


async def open_abort_line(address: str) -> HttpAbortLine:
    """Connect.

    Raises:
        ConnectionFailed: nobody listens.
    """
    family, where = place(address)
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, where)
        return HttpAbortLine(*await asyncio.open_connection(sock=connection))
    except OSError as error:
        connection.close()
        raise ConnectionFailed(CONNECTION_REFUSED, repr(error)) from error
    except BaseException:
        connection.close()
        raise
