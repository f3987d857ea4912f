"""Waiting: for a gate, for ever, for a time."""

from __future__ import annotations

from typing import ClassVar

from mock_engines.behaviours.base import Behaviour, EngineIO
from mock_engines.behaviours.model import Action
from mock_engines.matching import Message


class Hang(Behaviour):
    """``hang: GATE`` waits until the gate opens, ``hang: true`` for ever."""

    verbs: ClassVar[tuple[str, ...]] = ("hang",)

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """It does."""
        return True

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Wait."""
        await io.hang(action.hang if isinstance(action.hang, str) else None)


class Delay(Behaviour):
    """``delay_ms: N`` waits on the loop's clock; virtual time in simulation."""

    verbs: ClassVar[tuple[str, ...]] = ("delay_ms",)

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """It does."""
        return True

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:  # noqa: ARG002
        """Wait."""
        await io.delay((action.delay_ms or 0) / 1000)
