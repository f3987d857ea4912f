"""Yardsticks: what anybody would write by hand to run asyncio code in an order of choice.

``Fifo`` is the limit: a queue and nothing else. ``Plain`` is the plainest loop that can explore: each
step drawn from a seeded generator and noted, and virtual time. Neither checks anything.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from asyncio import events
from collections import deque
from contextvars import copy_context


class Fifo(asyncio.AbstractEventLoop):
    """First in, first out."""

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


class Plain(Fifo):
    """Seeded choices, recorded; a heap of timers. Handles cannot be cancelled."""

    def __init__(self, seed):
        self.ready = []
        self.timers = []
        self.now = 0.0
        self.choices = []
        self.random = random.Random(seed)

    def time(self):
        return self.now

    def call_at(self, when, callback, *args, context=None):
        context = copy_context() if context is None else context
        entry = (when, len(self.timers), lambda: context.run(callback, *args))
        heapq.heappush(self.timers, entry)

    def call_later(self, delay, callback, *args, context=None):
        self.call_at(self.now + delay, callback, *args, context=context)

    def run(self, main):
        events._set_running_loop(self)  # noqa: SLF001
        try:
            task = self.create_task(main)
            ready, done, draw, choices = self.ready, task.done, self.random.randrange, self.choices
            while not done():
                if not ready:
                    self.now, _, entry = heapq.heappop(self.timers)
                    ready.append(entry)
                index = draw(len(ready)) if len(ready) > 1 else 0
                choices.append((index, len(ready)))
                ready.pop(index)()
            return task.result()
        finally:
            events._set_running_loop(None)  # noqa: SLF001
