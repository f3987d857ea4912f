"""``open``: the engine opens a gate of the run."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action
from mock_engines.matching import Message


class OpenGate(Behaviour):
    """Open a named gate, for whoever waits there."""

    verbs: ClassVar[tuple[str, ...]] = ("open",)

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Open it."""
        assert action.open is not None, "an action's value is checked when it is read"
        io.open_gate(action.open)
