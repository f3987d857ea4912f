"""The task that receives outputs and hands them out, in one order."""

from __future__ import annotations

from client.errors import Transport, from_codec
from client.inner import ClientInner
from client.protocol.codec_errors import DecodeError
from client.protocol.transport import Socket, TransportError


async def run_output_loop(inner: ClientInner, socket: Socket) -> None:
    """Receive, decode, classify, dispatch; until cancelled or the socket breaks.

    After a fatal message it reads on, only to note later fatal ones: a client that is closed
    must not let messages pile up, and must not act on them.
    """
    while True:
        try:
            frames = await socket.recv()
        except TransportError as error:
            inner.fail(Transport(str(error)))
            return
        try:
            kind = inner.codec.classify(frames)
        except DecodeError as error:
            inner.fail(from_codec(error))
        else:
            inner.dispatch(kind)
