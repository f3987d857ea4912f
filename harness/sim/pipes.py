"""One direction of one connection: a queue that delivers one message per step.

A pipe with something to deliver stands on the loop's ready list exactly once, for the message
at its head. So order is kept within a pipe, and every order between pipes (and between pipes
and tasks) is one of the loop's choices.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import simpy

    from harness.sim.loop import SimLoop

SCHEME = "sim://"
"""How the endpoints of the simulation begin; labels go without it."""
Message = list[bytes]
Item = Message | Callable[[], None]
"""A message, or a control step of the connection itself (attach, detach)."""


def _nowhere(_pipe: Pipe, _message: Message) -> None:
    """Where messages of a run that is over go."""


class Receiver(Protocol):
    """Where a pipe ends. ``part``: see ``harness.sim.component``."""

    part: str


class Pipe:
    """A first-in-first-out queue between two sockets.

    Args:
        loop: whose ready list decides when the head is delivered.
        ends: labels or endpoints of sender and receiver.
        deliver: takes this pipe and one message at the far end.
        hwm: messages that wait in it before a sender has to; 0 = no limit.
        latency_us: how long each message travels before it can be delivered.

    Attributes:
        receiver: who gets what is delivered; ``None``: nobody yet.
        unread: messages delivered and not yet received, kept by the receiving socket.
        unread_max: bound of ``unread`` above which delivery stops; 0 = no limit.
        is_open: whether the far end takes messages now.
    """

    __slots__ = (
        "_deliver",
        "_due_us",
        "_ends",
        "_epoch",
        "_is_ready",
        "_loop",
        "_queue",
        "_travelling",
        "hwm",
        "is_open",
        "latency_us",
        "receiver",
        "unread",
        "unread_max",
        "writers",
    )

    def __init__(
        self,
        loop: SimLoop,
        ends: tuple[str, str],
        deliver: Callable[[Pipe, Message], None],
        *,
        hwm: int,
        latency_us: int = 0,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._queue: deque[Item] = deque()
        self._travelling = 0
        self._due_us = 0
        self._epoch = 0
        self._is_ready = False
        self._ends = ends
        self.hwm = hwm
        self.latency_us = latency_us
        self.receiver: Receiver | None = None
        self.is_open = False
        self.unread = 0
        self.unread_max = 0
        self.writers: list[asyncio.Future[None]] = []

    @property
    def label(self) -> str:
        """Name of its deliveries in labels of choices; made when somebody asks for it."""
        sender, receiver = self._ends
        return f"deliver {sender.removeprefix(SCHEME)}>{receiver.removeprefix(SCHEME)}"

    def __len__(self) -> int:
        return len(self._queue) + self._travelling

    @property
    def is_full(self) -> bool:
        """Whether a sender has to wait (or, on XPUB, its message is dropped)."""
        return 0 < self.hwm <= len(self)

    @property
    def head(self) -> Item | None:
        """What it delivers next."""
        return self._queue[0] if self._queue else None

    def part(self) -> str | None:
        """The part of the system that the next delivery touches; ``None``: both ends."""
        if self.receiver is None or callable(self.head):
            return None
        return self.receiver.part

    def put(self, item: Item) -> None:
        """Add an item at the tail."""
        if not self.latency_us and not self._travelling:
            queue = self._queue
            queue.append(item)
            # Behind others it changes nothing about what is at the head.
            if len(queue) == 1:
                self.kick()
            return
        # A message never overtakes one that left earlier, even if the latency was lowered.
        self._due_us = max(self._due_us, self._loop.now_us + self.latency_us)
        self._travelling += 1
        epoch = self._epoch

        def arrive(_event: simpy.Event) -> None:
            if epoch != self._epoch:
                return
            self._travelling -= 1
            self._queue.append(item)
            self.kick()

        self._loop.after_us(self._due_us - self._loop.now_us, arrive)

    def put_first(self, item: Callable[[], None]) -> None:
        """Add a control step ahead of everything that waits."""
        self._queue.appendleft(item)
        self.kick()

    def clear(self) -> None:
        """Drop what was not delivered, control steps and what still travels included."""
        if not self._queue and not self._travelling:
            return
        self._queue.clear()
        self._travelling = 0
        self._epoch += 1
        if self._is_ready:
            self._is_ready = False
            self._loop.remove_ready(self)

    def let_go(self) -> None:
        """Forget both ends: the run is over, and they refer to this pipe."""
        self._queue.clear()
        self._deliver = _nowhere
        self.receiver = None

    def kick(self) -> None:
        """Put the pipe on the ready list if its head can be delivered now, else off it."""
        queue = self._queue
        if queue and (
            (self.is_open and not 0 < self.unread_max <= self.unread)
            or queue[0].__class__ is not list
        ):
            if not self._is_ready:
                self._is_ready = True
                self._loop.add_ready(self)
        elif self._is_ready:
            self._is_ready = False
            self._loop.remove_ready(self)

    def __call__(self) -> None:
        """Deliver the head (the loop calls this)."""
        queue = self._queue
        item = queue.popleft()
        self._is_ready = False
        if isinstance(item, list):
            self._deliver(self, item)
            if self.writers:
                self.wake_writers(1)
        else:
            item()
        if queue:
            self.kick()

    async def writable(self) -> None:
        """Wait for room. The caller looks again: another sender may have been faster."""
        writer: asyncio.Future[None] = self._loop.create_future()
        self.writers.append(writer)
        try:
            await writer
        except asyncio.CancelledError:
            if writer.done() and not writer.cancelled():
                self.wake_writers(1)
            raise

    def wake_writers(self, count: int | None = None) -> None:
        """Let waiting senders look again: all, or the first ``count``."""
        left = len(self.writers) if count is None else count
        while self.writers and left:
            writer = self.writers.pop(0)
            if not writer.done():
                writer.set_result(None)
                left -= 1
