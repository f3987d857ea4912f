"""Wave state as the frontend keeps it, decided: in-process coordinator, view of an external one.

Theory of operation. A *wave* counts how often all ranks went from running to paused. Engines
report ``wave_complete(w)`` and ``start_wave(w)``; up to 0.32 the frontend also reports the first
request that it submits while it believes the ranks paused. Three inputs may race. The rules that
keep the wave from going back are: a completed wave only moves forward, a start of an older wave
does nothing, and a first request never sets the wave at all: if it is stale, its target is not
in the current wave either, so nobody is left out of the broadcast (PR #46833).

In-process moves (``current``, ``running``)::

    wave_complete(w)      w >= current                        current = w + 1, paused
    start_wave(w) by e    w > current, or w == current and    current = w, running,
                          paused                              broadcast [w, e]
    first_request(t, w)   always                              running, broadcast
                                                              [current, t if w >= current else nil]

Sources: Rust ``engine-core-client/src/coordinator/{handle,inproc,external}.rs``, PR #46833;
protocol page, section 11.
"""

from __future__ import annotations

import msgspec

from client.protocol.ids import Wave
from client.protocol.messages import CoordinatorPublish, FirstRequestNotice, StartDpWave


class WaveState(msgspec.Struct, frozen=True):
    """The pair that ``call`` reads."""

    current_wave: Wave
    engines_running: bool


class FirstRequest(msgspec.Struct, frozen=True):
    """A first request on its way to the coordinator's runner."""

    target: int
    wave: Wave


class CoordinatorState:
    """Wave state of the in-process coordinator.

    Args:
        frontend_starts_waves: the release wakes engines for first requests (≤ 0.32). Since
            0.33 engines do so themselves, and ``notify_first_request`` has nothing to say.

    Attributes:
        starts_waves: whether there are first requests to act on.
    """

    def __init__(self, *, frontend_starts_waves: bool) -> None:
        self.starts_waves = frontend_starts_waves
        self.current_wave = Wave(0)
        self.engines_running = False

    def snapshot(self) -> WaveState:
        """The state now."""
        return WaveState(self.current_wave, self.engines_running)

    def on_wave_complete(self, wave: Wave) -> None:
        """All ranks finished ``wave``. May jump ahead; the sender is not checked."""
        if wave >= self.current_wave:
            self.current_wave = Wave(wave + 1)
            self.engines_running = False

    def on_start_wave(self, wave: Wave, engine_index: int) -> StartDpWave | None:
        """An engine began ``wave``; return the broadcast that wakes the others.

        ``engine_index`` is passed on as it came, whatever it names.
        """
        newer = wave > self.current_wave
        if not newer and (wave != self.current_wave or self.engines_running):
            return None
        self.current_wave = wave
        self.engines_running = True
        return StartDpWave(wave, engine_index)

    def notify_first_request(self, target: int) -> FirstRequest | None:
        """A request goes to ``target``; return what the runner must be told, if anything.

        The running flag flips here, before the runner acts, so ten first requests at once make
        one broadcast.
        """
        if self.engines_running or not self.starts_waves:
            return None
        self.engines_running = True
        return FirstRequest(target, self.current_wave)

    def on_first_request(self, request: FirstRequest) -> StartDpWave:
        """Act on a first request; waves may have come and gone since it was queued.

        Source: PR #46833: start the *current* wave, leave the target out only if its request
        is not stale, and mark the engines as running.
        """
        self.engines_running = True
        return StartDpWave(self.current_wave, self.exclude(request))

    def exclude(self, request: FirstRequest) -> int | None:
        """Whom the broadcast of a first request leaves out."""
        return request.target if request.wave >= self.current_wave else None


class ExternalView:
    """What the client knows of an external coordinator: its last publish.

    A publish *replaces* the pair, so the wave can go back here, e.g. after a restart of the
    coordinator; that is documented behaviour of every release.
    """

    def __init__(self, *, frontend_starts_waves: bool) -> None:
        self._frontend_starts_waves = frontend_starts_waves
        self.current_wave = Wave(0)
        self.engines_running = False

    def snapshot(self) -> WaveState:
        """The state now."""
        return WaveState(self.current_wave, self.engines_running)

    def apply(self, publish: CoordinatorPublish) -> None:
        """Take over a publish; its counts are for other frontends."""
        self.current_wave = publish.current_wave
        self.engines_running = publish.engines_running

    def notify_first_request(self, target: int) -> FirstRequestNotice | None:
        """Return the frame to send up (≤ 0.32), ``None`` if there is nothing to say."""
        if self.engines_running or not self._frontend_starts_waves:
            return None
        self.engines_running = True
        return FirstRequestNotice(target, self.current_wave)
