"""``wave_complete`` and ``start_wave``: notices to the coordinator, true or not."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action, Notice
from mock_engines.matching import Message


class SendNotice(Behaviour):
    """Send one notice; without a number it names the engine's own wave."""

    verbs: ClassVar[tuple[str, ...]] = ("wave_complete", "start_wave")

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Send it. After ``wave_complete`` the engine itself goes on to the next wave."""
        complete = action.verb == "wave_complete"
        given = action.wave_complete if complete else action.start_wave
        named, index = (
            (given.wave, given.engine_index) if isinstance(given, Notice) else (given, None)
        )
        wave = io.wave if named is None else named
        await io.out.notice("complete" if complete else "start", wave, engine_index=index)
        if complete:
            io.engine.completed(wave)
