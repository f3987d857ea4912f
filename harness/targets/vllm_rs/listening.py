"""Whether somebody listens where the engines of an attached frontend are to join.

HTTP cannot tell: a frontend that waits for its engines refuses it. Its sockets for engines are
bound from the beginning, and who connects there and goes again leaves no trace.
"""

from __future__ import annotations

import asyncio
import os
import socket

from client.aio import DeadlineExceeded, with_deadline
from harness.targets.base import TargetError
from harness.targets.vllm_rs.attach import Attachment
from harness.targets.vllm_rs.bounded import pause

WAIT_S = 5.0
"""How long a frontend that was started a moment ago may take until it listens."""
_LOOK_S = 0.05
_CONNECT_S = 2.0
_IPC, _TCP = "ipc://", "tcp://"


def check_listening(at: Attachment) -> None:
    """Connect once to each address at which engines join.

    Raises:
        TargetError: nobody is there; the message names the address and the key.
    """
    for key in ("handshake", "input", "output"):
        address: str | None = getattr(at, key)
        if address is not None:
            asyncio.run(_listening(key, address))


async def _listening(key: str, address: str) -> None:
    why = "no answer"

    async def until_it_does() -> None:
        nonlocal why
        while True:
            try:
                await with_deadline(_connect(address), _CONNECT_S, name="attach: connect")
            except OSError as error:
                why = str(error) if isinstance(error, socket.gaierror) else _reason(error)
                await pause(_LOOK_S)
            else:
                return

    try:
        await with_deadline(until_it_does(), WAIT_S, name="attach: listening")
    except DeadlineExceeded:
        msg = (
            f"nobody listens at {address}, where engines are to join ({key}= of --attach): {why}. "
            "Start the frontend first, with this address"
        )
        raise TargetError(msg) from None


async def _connect(address: str) -> None:
    if address.startswith(_IPC):
        _, writer = await asyncio.open_unix_connection(address.removeprefix(_IPC))
    else:
        host, _, port = address.removeprefix(_TCP).rpartition(":")
        family = socket.AF_INET6 if host.startswith("[") else socket.AF_UNSPEC
        _, writer = await asyncio.open_connection(host.strip("[]"), int(port), family=family)
    writer.close()


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
