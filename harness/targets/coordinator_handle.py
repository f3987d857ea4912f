"""What the harness does with an external coordinator, whoever wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class CoordinatorHandle(Protocol):
    """One coordinator process. ``start`` and ``stop`` may alternate; each start begins anew."""

    front_address: str
    back_input_address: str
    back_output_address: str

    @property
    def running(self) -> bool:
        """Whether it is started and has not died."""

    async def start(self) -> None:
        """Bind the sockets and serve."""

    async def stop(self) -> None:
        """End as a killed process does. Idempotent."""

    async def front_subscribed(self, count: int = 1) -> None:
        """Wait until ``count`` frontends have subscribed since the start."""

    async def publish(
        self, counts: Sequence[Sequence[float]] | None, wave: int, running: bool
    ) -> None:
        """Send a scripted publish to all frontends. Its own state stays as it is."""

    async def publish_raw(self, frames: Sequence[bytes]) -> None:
        """Send scripted frames to all frontends."""
