"""A pause between two looks at something that cannot notify us.

Used against real processes only; the simulated world never sees it.
"""

from __future__ import annotations

import asyncio

from client.aio import resolve


async def pause(seconds: float) -> None:
    """Let ``seconds`` of real time pass."""
    loop = asyncio.get_running_loop()
    wake: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, resolve, wake)
    try:
        await wake
    finally:
        timer.cancel()
