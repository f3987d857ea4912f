"""``raw``: scripted frames on any socket of the engine."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action
from mock_engines.frames import parse_frames
from mock_engines.matching import Message


class SendRaw(Behaviour):
    """Send bytes that no codec would make."""

    verbs: ClassVar[tuple[str, ...]] = ("raw",)

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Send them."""
        if action.raw is not None:
            await io.out.raw(parse_frames(action.raw.frames), action.raw.path)
