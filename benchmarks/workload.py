"""Workload W: two engines, a coordinator and a client over mailboxes, three waves.

A plain asyncio program without imports of ours, so that every runner can play it. 76 callbacks, in
about 60 of which two to four could be next. What schedules differ in is the fault of the stale first
request: a request of wave w that the coordinator handles after "w is complete".
"""

from __future__ import annotations

import asyncio
from collections import deque

WAVES = 3
RANKS = 2


class Mailbox:
    """A queue whose items arrive in a step of their own, as over a link."""

    def __init__(self, loop):
        self.loop, self.items, self.reader = loop, deque(), None

    def put(self, item):
        """Send an item."""
        self.loop.call_soon(self.arrive, item)

    def arrive(self, item):
        """Deliver it."""
        self.items.append(item)
        if self.reader is not None and not self.reader.done():
            self.reader.set_result(None)

    async def get(self):
        """Take the first item."""
        while not self.items:
            self.reader = self.loop.create_future()
            await self.reader
        return self.items.popleft()


def resolve(future):
    """End a wait."""
    if not future.done():
        future.set_result(None)


async def engine(rank, inbox, coordinator, client):
    """Answer requests, one step each; tell the coordinator when a wave is over here."""
    loop = asyncio.get_running_loop()
    while (item := await inbox.get()) is not None:
        kind, wave = item
        if kind == "add":
            step = loop.create_future()
            loop.call_soon(resolve, step)
            await step
            client.put(("output", rank, wave))
            coordinator.put(("done", rank, wave))


async def coordinate(inbox, engines, client):
    """Wake engines for first requests; tell the client which waves are complete."""
    current, done = 0, {}
    while (item := await inbox.get()) is not None:
        kind, _rank, wave = item
        if kind == "first":
            # A coordinator that took the wave of a stale request over would rewind here.
            for box in engines:
                box.put(("start", max(wave, current)))
        else:
            done[wave] = done.get(wave, 0) + 1
            if done[wave] == RANKS:
                current = max(current, wave + 1)
                client.put(("complete", None, wave))


async def main():
    """The client: one request to each engine in each wave."""
    loop = asyncio.get_running_loop()
    boxes = [Mailbox(loop) for _ in range(RANKS)]
    coordinator, client = Mailbox(loop), Mailbox(loop)
    tasks = [loop.create_task(engine(r, boxes[r], coordinator, client)) for r in range(RANKS)]
    tasks.append(loop.create_task(coordinate(coordinator, boxes, client)))
    for wave in range(WAVES):
        coordinator.put(("first", 0, wave))
        for box in boxes:
            box.put(("add", wave))
        outputs = 0
        while outputs < RANKS:
            kind, _rank, _wave = await client.get()
            outputs += kind == "output"
    for box in (*boxes, coordinator):
        box.put(None)
    for task in tasks:
        await task
