"""Notices when a peer at a real socket comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq
import zmq.asyncio
from zmq.utils.monitor import parse_monitor_message

from client.aio import turn
from client.protocol.transport import Socket
from client.transports.sockets import ZmqSocket

_CAME = zmq.EVENT_HANDSHAKE_SUCCEEDED
_WENT = zmq.EVENT_DISCONNECTED
TURNS_MAX = 10_000
"""So many turns of the loop are given to what has arrived; each takes a message or more."""


QUIET_TURNS = 4
"""A message is received in one, handled in the next and sent on in another."""


class Watch:
    """Counts the connections of one socket.

    Args:
        socket: of a ``ZmqTransport``; watched from now on.
        changed: called whenever a peer has come or gone.
    """

    def __init__(self, socket: Socket, changed: Callable[[], None]) -> None:
        if not isinstance(socket, ZmqSocket):
            msg = f"only real sockets can be watched, not {socket!r}"
            raise TypeError(msg)
        self.socket = socket
        self._changed = changed
        self._monitor: zmq.asyncio.Socket = socket.watch(_CAME | _WENT)
        self.connected = 0
        self.departed = 0
        self._task = asyncio.get_running_loop().create_task(self._listen(), name="watch")

    async def _listen(self) -> None:
        while True:
            event = parse_monitor_message(await self._monitor.recv_multipart())
            if event["event"] == _CAME:
                self.connected += 1
            else:
                # A connection may be older than the watch, which then heard of its end only.
                self.connected = max(0, self.connected - 1)
                self.departed += 1
            self._changed()

    @property
    def gone(self) -> bool:
        """Whether there was a peer and none is left."""
        return self.departed > 0 and not self.connected

    def stop(self) -> None:
        """Watch no more. Idempotent; the socket stays as it is."""
        self._task.cancel()
        self._monitor.close(linger=0)


async def drained(sockets: Callable[[], list[Socket]]) -> None:
    """Return when all that has arrived at these sockets was received, and could be handled.

    ``sockets``: those that matter, asked anew each time.
    """
    quiet = 0
    for _ in range(TURNS_MAX):
        unread = any(isinstance(one, ZmqSocket) and one.has_unread for one in sockets())
        quiet = 0 if unread else quiet + 1
        if quiet == QUIET_TURNS:
            return
        await turn()
