"""Sends that are under way, so that a client which fails can give them up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


class SendGivenUp(Exception):  # noqa: N818  (ends a wait; the sticky error says why)
    """The client failed while the transport held the message."""


@dataclass(slots=True, eq=False)
class _Send:
    task: asyncio.Task[Any]
    cancellations: int
    given_up: bool = False


class Sends:
    """All sends of one client.

    A send runs in the task of whoever sends: a task for each would cost every request a turn.
    So giving up cancels that task and takes the cancellation back, as ``asyncio.timeout`` does;
    a cancellation that came from elsewhere goes through.
    """

    def __init__(self) -> None:
        self._open: list[_Send] = []

    async def carry(self, send: Awaitable[T]) -> T:
        """Await a send, or what else must end when the client fails.

        Raises:
            SendGivenUp: ``give_up`` was called meanwhile; the message may have left.
        """
        task = asyncio.current_task()
        assert task is not None, "a send runs in a task"
        this = _Send(task, task.cancelling())
        self._open.append(this)
        try:
            return await send
        except asyncio.CancelledError:
            if this.given_up and task.uncancel() <= this.cancellations:
                raise SendGivenUp from None
            raise
        finally:
            self._open.remove(this)

    def give_up(self) -> None:
        """End every send that is under way, oldest first."""
        for each in self._open:
            if not each.given_up:
                each.given_up = True
                each.task.cancel()
