"""Those who wait for a line of the adapter: one slot for each command and each operation."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from client.aio import resolve
from harness.broken import Broken

T = TypeVar("T")


class Answer(Generic[T]):
    """A slot for one answer. Cancelling a wait changes nothing: it can be waited for again."""

    def __init__(self, broken: Broken) -> None:
        self._broken = broken
        self._values: list[T] = []
        self._wakers: list[asyncio.Future[None]] = []

    @property
    def settled(self) -> bool:
        """Whether the answer is there."""
        return bool(self._values)

    def settle(self, value: T) -> None:
        """The answer is there; only the first one counts."""
        if not self._values:
            self._values.append(value)
            self.wake()

    def wake(self) -> None:
        """Let those who wait look again."""
        for waker in self._wakers:
            resolve(waker)

    async def wait(self) -> T:
        """Return the answer.

        Raises:
            TargetError: the way to the adapter broke before it came.
        """
        while not self._values:
            self._broken.check()
            waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._wakers.append(waker)
            try:
                await waker
            finally:
                self._wakers.remove(waker)
        return self._values[0]
