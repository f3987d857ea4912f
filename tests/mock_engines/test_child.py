"""The child's side of a stall, without a process."""

from __future__ import annotations

import asyncio

from mock_engines.aio import next_turn
from mock_engines.behaviours.model import Action
from mock_engines.child import Child


class SlowSockets:
    """A transport whose messages arrive when ``arrive`` is set; it is also all its sockets."""

    arrive: asyncio.Event
    endpoint = "here"

    async def bind(self, kind, endpoint):
        return self

    connect = bind

    async def send(self, frames):
        pass

    async def recv(self):
        await self.arrive.wait()

    def close(self):
        pass


class Lines:
    """What a child tells its parent."""

    def __init__(self):
        self.told = []

    def send(self, line):
        self.told.append(line["do"])

    send_event = send


CONFIG = {
    "rank": 0, "release": "0.33.0", "join": {}, "rules": [], "met": [],
    "addresses": {"input": "i", "output": "o"}, "data_parallel_size": 1, "real_peer": False,
    "gates": [], "waves": False, "rejoin": None, "transport": f"{__name__}:SlowSockets",
}  # fmt: skip


async def turns(count=5):
    for _ in range(count):
        await next_turn()


def stall(opens_meanwhile):
    """Stall a child; returns what it told before and after its sockets were flushed."""

    async def main():
        SlowSockets.arrive = asyncio.Event()
        lines = Lines()
        child = Child(lines, CONFIG)
        await child.endpoint.act([Action(stall="thaw")])
        await turns()
        before = tuple(lines.told)
        if opens_meanwhile:
            child._gates.open_here("thaw")
            await turns()
        SlowSockets.arrive.set()
        await turns()
        child._gates.open_here("thaw")
        await child.endpoint.idle()
        await child.endpoint.stop()
        return before, lines.told

    return asyncio.run(main())


def test_child_asks_to_be_stopped_only_once_its_sockets_are_flushed():
    before, told = stall(opens_meanwhile=False)
    assert "event" in before
    assert "halt" not in before
    assert "halt" in told


def test_child_that_goes_on_before_does_not_ask_to_be_stopped():
    _, told = stall(opens_meanwhile=True)
    assert "halt" not in told
