"""When the way to a frontend breaks, whoever waits for something of it need not wait on.

Not for faults of a frontend, which are judged, but for those of what stands between it and us.
A frontend that can break so has an attribute ``broken``; the driver asks for no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from client.aio import cancel_and_wait, resolve
from harness.targets.base import TargetError

T = TypeVar("T")


class Broken:
    """Whether the way broke, and why.

    Attributes:
        reported: a guarded step ended with the reason, so that it need not be raised again.
    """

    def __init__(self) -> None:
        self._error: str | None = None
        self._told: list[Callable[[], None]] = []
        self.reported = False

    @property
    def error(self) -> TargetError | None:
        """Why, as a fresh error each time; ``None`` while all is well."""
        return None if self._error is None else TargetError(self._error)

    def set(self, error: TargetError) -> None:
        """It broke; the first reason stays."""
        if self._error is not None:
            return
        self._error = str(error)
        for tell in tuple(self._told):
            tell()

    def check(self) -> None:
        """Raise why it broke, if it did."""
        if (error := self.error) is not None:
            raise error

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work``, and give it up when the way breaks.

        Raises:
            TargetError: why it broke.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(work, name="guarded step")
        over: asyncio.Future[None] = loop.create_future()

        def wake(_task: object = None) -> None:
            resolve(over)

        task.add_done_callback(wake)
        self._told.append(wake)
        if self._error is not None:
            wake()
        try:
            await over
        finally:
            self._told.remove(wake)
            if not task.done():
                await cancel_and_wait([task])
        if task.cancelled():
            self.reported = self._error is not None
            self.check()
        return task.result()


async def guarded(frontend: object, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Await ``work()``; a frontend that can break ends it when it does.

    It is made here and not by the caller: whoever ends this before it begins would otherwise
    leave a coroutine behind that nobody awaits.
    """
    broken: Broken | None = getattr(frontend, "broken", None)
    return await work() if broken is None else await broken.guard(work())
