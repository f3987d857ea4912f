"""``drop``: the message is ignored."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import MESSAGES, Behaviour, EngineIO
from mock_engines.behaviours.model import Action
from mock_engines.matching import Kind, Message


class Drop(Behaviour):
    """First in a list, it keeps the message from changing anything (see ``Plan.ignores``).

    What follows it is still carried out.
    """

    verbs: ClassVar[tuple[str, ...]] = ("drop",)
    fits: ClassVar[frozenset[Kind]] = MESSAGES

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:
        """Do nothing."""
