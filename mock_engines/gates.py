"""Named gates: what scripts wait at instead of sleeping.

A gate is closed until it is opened, and then stays open. Whatever name is asked for exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

OnOpen = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Waiter:
    """One party at a closed gate.

    ``released`` is called in the moment in which the gate opens, before anybody runs, so that
    its owner counts as busy again without a gap.
    """

    future: asyncio.Future[None]
    released: Callable[[], None] | None = None


@dataclass(slots=True, eq=False)
class Gates:
    """All gates of one run, shared by its engines, links and steps."""

    _open: dict[str, None] = field(default_factory=dict)
    _all_open: bool = False
    _waiters: dict[str, list[Waiter]] = field(default_factory=dict)
    _remote: dict[str, int] = field(default_factory=dict)
    _on_open: list[OnOpen] = field(default_factory=list)

    def is_open(self, name: str) -> bool:
        """Whether one may pass."""
        return self._all_open or name in self._open

    def on_open(self, callback: OnOpen) -> None:
        """Call ``callback`` with the name whenever a gate goes from closed to open.

        It runs before those who wait are released. ``open_all`` reports each gate at which
        somebody waits, then ``"*"`` for all the rest.
        """
        self._on_open.append(callback)

    def opened(self) -> tuple[str, ...]:
        """Names that were opened one by one, in order; ``"*"`` at the end after ``open_all``."""
        return (*self._open, "*") if self._all_open else tuple(self._open)

    def waiting(self, name: str) -> int:
        """How many wait at this gate now, those in child processes included."""
        return len(self._waiters.get(name, ())) + self._remote.get(name, 0)

    def waited_for(self) -> tuple[str, ...]:
        """Names of the gates at which somebody waits, sorted."""
        names = {*self._waiters, *self._remote}
        return tuple(name for name in sorted(names) if self.waiting(name))

    def count_remote(self, name: str, change: int) -> None:
        """Add to the number of waiters that live in child processes."""
        self._remote[name] = self._remote.get(name, 0) + change

    async def wait(self, name: str, released: Callable[[], None] | None = None) -> None:
        """Return once the gate is open; at once if it is. May be cancelled."""
        if self.is_open(name):
            return
        waiter = Waiter(asyncio.get_running_loop().create_future(), released)
        self._waiters.setdefault(name, []).append(waiter)
        try:
            await waiter.future
        finally:
            # ``open`` has taken the whole list away; after a cancel we leave it ourselves.
            queue = self._waiters.get(name)
            if queue is not None and waiter in queue:
                queue.remove(waiter)
                if not queue:
                    del self._waiters[name]

    def open(self, name: str) -> None:
        """Open a gate and let all pass who wait, in the order of their arrival. Idempotent."""
        if self.is_open(name):
            return
        self._open[name] = None
        self._announce(name)
        self._release(name)

    def open_all(self) -> None:
        """Open every gate, those included that nobody has named yet. Idempotent."""
        if self._all_open:
            return
        for name in self.waited_for():
            self.open(name)
        self._all_open = True
        self._announce("*")

    def _announce(self, name: str) -> None:
        for callback in tuple(self._on_open):
            callback(name)

    def _release(self, name: str) -> None:
        for waiter in self._waiters.pop(name, []):
            if waiter.future.done():
                continue
            if waiter.released is not None:
                waiter.released()
            waiter.future.set_result(None)
