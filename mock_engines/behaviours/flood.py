"""``flood``: a burst of wave notices, to race the coordinator."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action, Flood
from mock_engines.matching import Message


class SendFlood(Behaviour):
    """Send rising ``wave_complete`` notices with a ``start_wave`` now and then.

    Against a real peer the burst is too long to show each notice: only the ``start_wave``
    ones, whose re-broadcasts are the evidence, become events.
    """

    verbs: ClassVar[tuple[str, ...]] = ("flood",)

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """Others must run beside it, or there is no race."""
        return True

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Send them, and give way after each ``start_wave``."""
        spec = action.flood or Flood()
        count = spec.count
        if io.real_peer and spec.count_real is not None:
            count = spec.count_real
        for number in range(count):
            wave = spec.start + number
            await io.out.notice("complete", wave, silent=io.real_peer)
            io.engine.completed(wave)
            if (number + 1) % spec.start_wave_every == 0:
                await io.out.notice("start", wave + 1)
                await io.next_turn()
