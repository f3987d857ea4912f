"""What an action can do: the seam between behaviours and the engine that has them.

A behaviour is one small class in a module of this package; it says which verbs of ``Action`` it
carries out, and for which kinds of message they make sense. Modules are found by scanning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from client.protocol.messages import StartDpWave, UtilityCall
from mock_engines.behaviours.model import Action
from mock_engines.engine import MockEngine
from mock_engines.matching import Kind, Message
from mock_engines.outlets import Outlets, ScriptError
from mock_engines.utilities import Outcome

if TYPE_CHECKING:
    from mock_engines.stepping import Stepping

__all__ = ["ANY_KIND", "MESSAGES", "Behaviour", "EngineIO", "ScriptError"]

MESSAGES: frozenset[Kind] = frozenset({"add", "abort", "utility", "start_wave"})
ANY_KIND: frozenset[Kind] = MESSAGES | {"act"}
InLockstep = Literal["same", "queues", "never"]


class EngineIO(Protocol):
    """The engine as a behaviour sees it."""

    @property
    def engine(self) -> MockEngine:
        """Its state."""

    @property
    def out(self) -> Outlets:
        """Its sends."""

    @property
    def stepping(self) -> Stepping | None:
        """Its loop, if it steps with others (``waves: lockstep``)."""

    @property
    def real_peer(self) -> bool:
        """Whether the frontend is a black box on real sockets."""

    @property
    def wave(self) -> int:
        """The engine's own wave."""

    async def hang(self, gate: str | None) -> None:
        """Wait until a gate opens; ``None`` = for ever."""

    async def stall(self, gate: str) -> None:
        """Stop the whole engine until a gate opens."""

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the engine's state satisfies a condition."""

    async def delay(self, seconds: float) -> None:
        """Wait for a time."""

    async def next_turn(self) -> None:
        """Let whatever is ready run first."""

    async def die(self, how: str) -> None:
        """Die as told: ``sentinel``, ``close`` or ``vanish``. The caller's plan ends with it."""

    def open_gate(self, name: str) -> None:
        """Open a gate of the run."""

    def apply(self, call: UtilityCall) -> Outcome:
        """Let a utility take effect, and report it. Raises ``UtilityFailedError``."""

    def apply_start_wave(self, start: StartDpWave) -> None:
        """Let a START_DP_WAVE take effect."""


class Behaviour:
    """Carries out the actions of some verbs."""

    verbs: ClassVar[tuple[str, ...]] = ()
    fits: ClassVar[frozenset[Kind]] = ANY_KIND
    in_lockstep: ClassVar[InLockstep] = "same"
    """At an engine that steps with others: the ``same``; ``queues``: puts what arrived into the
    queue of its loop, and so never blocks; ``never``: it would send what the loop knows nothing of.
    """

    def blocks(self, action: Action, message: Message) -> bool:  # noqa: ARG002
        """Whether it may take long; such an action, and what follows, gets a task of its own.

        The others are carried out in the order in which messages arrive.
        """
        return False

    async def carry_out(self, action: Action, message: Message, io: EngineIO) -> None:
        """Do it.

        Raises:
            ScriptError: this engine or this message cannot.
        """
        raise NotImplementedError
