"""How many calls are open: the number that ``/load`` shows, and what a shutdown waits for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from client.aio import resolve


class Load:
    """Open calls of all surfaces.

    Attributes:
        generations: HTTP requests that generate; the only ones that ``/load`` counts.
    """

    def __init__(self) -> None:
        self.generations = 0
        self._open = 0
        self._waiter: asyncio.Future[None] | None = None

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Count a call of any surface while it is open."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open and self._waiter is not None:
                resolve(self._waiter)

    @contextlib.contextmanager
    def generation(self) -> Iterator[None]:
        """Count an HTTP request that generates."""
        self.generations += 1
        try:
            yield
        finally:
            self.generations -= 1

    async def none_open(self) -> None:
        """Return once no call is open."""
        while self._open:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
