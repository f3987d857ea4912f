"""``die``: with the sentinel, with closed sockets, or without a word."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action
from mock_engines.matching import Message


class Die(Behaviour):
    """End the engine; what follows in the list is not carried out."""

    verbs: ClassVar[tuple[str, ...]] = ("die",)

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Die."""
        await io.die(action.die or "close")
