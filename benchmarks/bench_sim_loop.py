"""Speed of the simulated loop on workload W of ``performance.md``, as ratios.

W: two engine tasks, one coordinator and one client over queues, three waves; a fault (a request
of wave w that is handled after "done w") is what schedules differ in. The yardstick is a bare
hand-written loop: a list, FIFO, no clock, no timers, no checks. Rounds are interleaved, medians
are shown; higher is faster.

    python benchmarks/bench_sim_loop.py [rounds]
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from asyncio import events
from collections import deque
from contextvars import copy_context

from client.protocol.transport import SocketKind, SocketOptions
from harness.sim.links import SimTransport
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy
from harness.tape import Recorder

WAVES = 3
RUNS = 60


class Bare(asyncio.AbstractEventLoop):
    """The plain loop that everything is compared with."""

    def __init__(self):
        self.ready = deque()

    def get_debug(self):
        return False

    def call_soon(self, callback, *args, context=None):
        context = copy_context() if context is None else context
        self.ready.append(lambda: context.run(callback, *args))

    def create_future(self):
        return asyncio.Future(loop=self)

    def create_task(self, coroutine, *, name=None):
        return asyncio.Task(coroutine, loop=self, name=name or "task")

    def call_exception_handler(self, context):
        raise RuntimeError(context)

    def run(self, main):
        events._set_running_loop(self)  # noqa: SLF001
        try:
            task = self.create_task(main)
            ready, done = self.ready, task.done
            while not done():
                ready.popleft()()
            return task.result()
        finally:
            events._set_running_loop(None)  # noqa: SLF001


class Mailbox:
    def __init__(self, loop):
        self.loop, self.items, self.reader = loop, deque(), None

    def put(self, item):
        """Hand over in a step of its own, as a link does."""
        self.loop.call_soon(self.arrive, item)

    def arrive(self, item):
        self.items.append(item)
        if self.reader is not None and not self.reader.done():
            self.reader.set_result(None)

    async def get(self):
        while not self.items:
            self.reader = self.loop.create_future()
            await self.reader
        return self.items.popleft()


async def engine(rank, inbox, coordinator, client):
    while (item := await inbox.get()) is not None:
        kind, wave = item
        if kind == "start":
            continue
        client.put((rank, wave))
        coordinator.put(("done", rank, wave))


async def coordinator_task(inbox, engines):
    done = {}
    while (item := await inbox.get()) is not None:
        kind, _rank, wave = item
        if kind == "first":
            for box in engines:
                box.put(("start", wave))
        else:
            done[wave] = done.get(wave, 0) + 1


async def workload():
    loop = asyncio.get_running_loop()
    boxes = [Mailbox(loop) for _ in range(2)]
    coordinator, client = Mailbox(loop), Mailbox(loop)
    tasks = [loop.create_task(engine(r, boxes[r], coordinator, client)) for r in range(2)]
    tasks.append(loop.create_task(coordinator_task(coordinator, boxes)))
    for wave in range(WAVES):
        coordinator.put(("first", 0, wave))
        for box in boxes:
            box.put(("add", wave))
        for _ in boxes:
            await client.get()
    for box in (*boxes, coordinator):
        box.put(None)
    for task in tasks:
        await task


async def over_links(transport):
    """The same conversation over simulated sockets."""
    loop = asyncio.get_running_loop()
    kinds = SocketKind
    address, output = transport.endpoint("input"), transport.endpoint("output")
    router = await transport.bind(kinds.ROUTER, address)
    pull = await transport.bind(kinds.PULL, output)

    async def engine_over_links(identity):
        options = SocketOptions(identity=identity)
        dealer = await transport.connect(kinds.DEALER, address, options)
        push = await transport.connect(kinds.PUSH, output)
        await dealer.send([b"registration"])
        while (message := await dealer.recv()) != [b"stop"]:
            await push.send(message)

    tasks = [loop.create_task(engine_over_links(bytes([r, 0]))) for r in range(2)]
    peers = [(await router.recv())[0] for _ in tasks]
    for wave in range(WAVES):
        for peer in peers:
            await router.send([peer, b"add", b"%d" % wave])
        for _ in peers:
            await pull.recv()
    for peer in peers:
        await router.send([peer, b"stop"])
    for task in tasks:
        await task


def with_asyncio():
    asyncio.run(workload())


def with_links(strategy):
    loop = SimLoop(Recorder(make_strategy(strategy, 0, 0)))
    loop.run(over_links(SimTransport(loop)))


RUNNERS = {
    "bare FIFO loop": lambda: Bare().run(workload()),
    "SimLoop, fifo": lambda: SimLoop(make_strategy("fifo", 0, 0)).run(workload()),
    "SimLoop, fifo, recorded": lambda: SimLoop(Recorder(make_strategy("fifo", 0, 0))).run(
        workload()
    ),
    "SimLoop, random, recorded": lambda: SimLoop(Recorder(make_strategy("random", 0, 0))).run(
        workload()
    ),
    "SimLoop, random, labels": lambda: SimLoop(
        Recorder(make_strategy("random", 0, 0)), record_labels=True
    ).run(workload()),
    "asyncio.run": with_asyncio,
    "SimLoop, random, over links": lambda: with_links("random"),
}


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    gc.collect()
    gc.freeze()
    seconds = {name: [] for name in RUNNERS}
    for _ in range(rounds):
        for name, runner in RUNNERS.items():
            begin = time.perf_counter()
            for _ in range(RUNS):
                runner()
            seconds[name].append((time.perf_counter() - begin) / RUNS)
    base = statistics.median(seconds["bare FIFO loop"])
    loop = SimLoop(make_strategy("fifo", 0, 0))
    loop.run(workload())
    print(f"Python {sys.version.split()[0]}, workload W: {loop.steps} steps; {rounds} rounds")
    print(f"{'runner':30} {'µs/run':>8} {'ratio':>6}")
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:30} {median * 1e6:8.1f} {base / median:6.2f}")


if __name__ == "__main__":
    main()
