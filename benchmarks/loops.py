"""Our loop and stock asyncio on workload W, beside the yardsticks."""

from __future__ import annotations

import asyncio
import itertools

from benchmarks import workload
from benchmarks.bare import Fifo, Plain
from harness.sim.loop import SimLoop
from harness.strategies import make_strategy
from harness.tape import Recorder

PLAIN = "hand-written loop"
LIMIT = "  limit: a FIFO queue and nothing else"
OURS = "SimLoop, recorded"
WALK = "  random walk"
STOCK = "asyncio, loop reused"
_seeds = itertools.count()


def plain():
    Plain(next(_seeds)).run(workload.main())


def limit():
    Fifo().run(workload.main())


def ours(name, *, labels=False):
    chooser = Recorder(make_strategy(name, next(_seeds), 0))
    SimLoop(chooser, record_labels=labels).run(workload.main())


_stock = asyncio.new_event_loop()


def stock_reused():
    _stock.run_until_complete(workload.main())


def stock_new():
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(workload.main())
    finally:
        loop.close()


def stock_run():
    asyncio.run(workload.main())


RUNNERS = {
    PLAIN: plain,
    LIMIT: limit,
    OURS: lambda: ours("fifo"),
    WALK: lambda: ours("random"),
    "  random walk, with labels": lambda: ours("random", labels=True),
    STOCK: stock_reused,
    "  a new loop for each run": stock_new,
    "  asyncio.run": stock_run,
}
"""What a line of the table plays once."""


def steps() -> int:
    """Count the callbacks of workload W in asyncio's own order."""
    loop = SimLoop(make_strategy("fifo", 0, 0))
    loop.run(workload.main())
    return loop.steps
