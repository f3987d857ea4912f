"""What arrives at an engine that dies meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from client.protocol.codec import Codec
from client.protocol.messages import READY_GATE
from client.protocol.profiles import NEWEST, profile_for
from client.protocol.transport import SocketClosedError
from mock_engines.events import GateOpened
from mock_engines.receiving import Receiver


class OneMessage:
    """A socket on which one message arrives, and that is closed then."""

    def __init__(self) -> None:
        self._frames = [[READY_GATE]]

    async def recv(self) -> list[bytes]:
        """Return the message, then refuse."""
        if not self._frames:
            raise SocketClosedError
        return self._frames.pop()


@pytest.mark.parametrize("dies", [False, True])
def test_engine_that_dies_before_a_message_is_handled_does_not_handle_it(dies: bool) -> None:
    alive, heard = [True], []

    async def running() -> None:
        alive[0] = not dies

    nobody: Any = None
    receiver = Receiver(
        rank=0,
        codec=Codec(profile_for(NEWEST)),
        engine=nobody,
        out=nobody,
        waves=nobody,
        emit=heard.append,
        begin=nobody,
        running=running,
        alive=lambda: alive[0],
    )
    socket: Any = OneMessage()
    asyncio.run(receiver.read_coordinator(socket))
    assert heard == ([] if dies else [GateOpened(0)])
