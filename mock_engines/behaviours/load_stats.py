"""``stats``: scheduler stats as told."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action, Stats
from mock_engines.matching import Message
from mock_engines.stats import scheduler_stats


class SendStats(Behaviour):
    """Send request counts, stamped with any engine index, on either path."""

    verbs: ClassVar[tuple[str, ...]] = ("stats",)

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Send them."""
        spec = action.stats or Stats()
        stats = scheduler_stats(
            running=spec.running, waiting=spec.waiting, wave=io.wave, step_counter=spec.step
        )
        await io.out.stats(
            stats, engine_index=spec.engine_index, coordinator=spec.path == "coordinator"
        )
