"""``flood``: a burst of wave notices, to race the coordinator."""

from __future__ import annotations

from typing import ClassVar

from client.protocol.ids import STALE_PROBE_INDEX
from mock_engines.behaviours.base import Behaviour, EngineIO, InLockstep
from mock_engines.behaviours.model import Action, Flood
from mock_engines.matching import Message

TURN_EVERY = 10
"""Waves between two turns that others get: on real frontends, long enough to keep the
coordinator busy, short enough that callers send their requests meanwhile."""


class SendFlood(Behaviour):
    """Send rising ``wave_complete`` notices with a ``start_wave`` now and then.

    Against a real peer the burst is too long to show each notice: only the ``start_wave``
    ones, whose re-broadcasts are the evidence, become events.
    """

    verbs: ClassVar[tuple[str, ...]] = ("flood",)
    in_lockstep: ClassVar[InLockstep] = "never"

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """Others must run beside it, or there is no race."""
        return True

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Send them, and give way now and then."""
        spec = action.flood or Flood()
        count = spec.count
        if io.real_peer and spec.count_real is not None:
            count = spec.count_real
        for number in range(count):
            wave = spec.start + number
            await io.out.notice("complete", wave, silent=io.real_peer)
            io.engine.completed(wave)
            if spec.stale_probes:
                await io.out.notice(
                    "start", wave, engine_index=STALE_PROBE_INDEX, silent=io.real_peer
                )
            if (number + 1) % spec.start_wave_every == 0:
                await io.out.notice("start", wave + 1)
            if (number + 1) % TURN_EVERY == 0:
                await io.next_turn()
