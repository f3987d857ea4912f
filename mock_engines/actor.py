"""What the actions of one engine can do to it and to its surroundings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from client.protocol.messages import StartDpWave, UtilityCall
from mock_engines import aio, events
from mock_engines.activity import Activity
from mock_engines.engine import MockEngine
from mock_engines.handle import EngineSetup
from mock_engines.lockstep.elastic import METHODS
from mock_engines.membership import WaveMembership
from mock_engines.outlets import Outlets
from mock_engines.stepping import Stepping
from mock_engines.utilities import Outcome


class Actor:
    """Implements ``EngineIO`` for behaviours.

    A stalled engine goes on after no wait: each returns only when it is not stalled.

    Attributes:
        engine: the state; another one once the engine has died and returned.
        out: its sends.
        stepping: its loop, if it steps with others; another one with each new process.
    """

    def __init__(
        self,
        setup: EngineSetup,
        *,
        engine: MockEngine,
        out: Outlets,
        activity: Activity,
        waves: WaveMembership,
        die: Callable[[str], Awaitable[None]],
        halt: Callable[[str], None] | None,
    ) -> None:
        self.engine = engine
        self.out = out
        self.stepping: Stepping | None = None
        self._setup = setup
        self._activity = activity
        self._waves = waves
        self._die = die
        self._halt = halt

    @property
    def real_peer(self) -> bool:
        """Whether the frontend is a black box on real sockets."""
        return self._setup.real_peer

    @property
    def wave(self) -> int:
        """The engine's own wave."""
        if self.stepping is not None:
            return self.stepping.rank.wave
        shared = self._waves.wave()
        return self.engine.wave if shared is None else shared

    async def hang(self, gate: str | None) -> None:
        """Wait for a gate; ``None`` = for ever."""
        await self._activity.hang(gate)
        await self._activity.running()

    async def stall(self, gate: str) -> None:
        """Stop the whole engine until a gate opens; nothing if it is open."""
        await self._activity.running()
        if self._setup.gates.is_open(gate):
            return
        self._activity.hold()
        self._setup.observer(events.EngineStalled(self._setup.rank, gate))
        self._waves.stall()
        if self._halt is not None:
            self._halt(gate)
        await self._activity.go_on_at(gate, self._resumed)

    def _resumed(self) -> None:
        self._setup.observer(events.EngineResumed(self._setup.rank))
        self._waves.resume()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until the engine's state satisfies a condition."""
        await self._activity.until(holds)
        await self._activity.running()

    async def delay(self, seconds: float) -> None:
        """Wait for a time on the loop's clock."""
        await aio.pause_for(seconds)
        await self._activity.running()

    async def next_turn(self) -> None:
        """Let whatever is ready run first."""
        await aio.next_turn()
        await self._activity.running()

    async def die(self, how: str) -> None:
        """Die as told."""
        await self._die(how)

    def open_gate(self, name: str) -> None:
        """Open a gate of the run."""
        self._setup.gates.open(name)

    def apply(self, call: UtilityCall) -> Outcome:
        """Let a utility take effect, and report it. Raises ``UtilityFailedError``."""
        outcome = self.engine.apply(call)
        if call.method in METHODS and self._setup.elastic is not None:
            self._setup.elastic.told(self._setup.rank, self.engine.utility.elastic)
        if outcome.changed:
            view = self.engine.utility.view()
            text = ", ".join(f"{key}={view[key]!r}" for key in sorted(outcome.changed))
            rank = self._setup.rank
            self._setup.observer(events.UtilityApplied(rank, call.call_id, call.method, text))
        return outcome

    def apply_start_wave(self, start: StartDpWave) -> None:
        """Let a START_DP_WAVE take effect."""
        self.engine.apply_start_wave(start)
        self._waves.start_dp_wave(wave=start.wave, exclude=start.exclude_engine_index)
