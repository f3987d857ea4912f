"""The external coordinator process, decided: load counts, wave state, who must hear what.

Theory of operation. One loop waits for input or for the time of the next publish. Engines report
load stats and wave notices on the back sockets; frontends report first requests on the front
socket (≤ 0.32). Load goes out in regular publishes; a change of the wave state goes out at once,
without counts. A *step snapshot* keeps the counts of the previous step while the next one trickles in,
so that one publish never mixes two steps.

Source: Python ``v1/engine/coordinator.py``; protocol page, section 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from client.coordinator import FirstRequest, WaveState
from client.protocol.ids import RANKS_MAX, Wave
from client.protocol.messages import (
    SUBSCRIBE_ALL,
    UNSUBSCRIBE_ALL,
    CoordinatorPublish,
    EngineCoreOutputs,
    StartDpWave,
)
from client.protocol.profiles import Profile
from client.protocol.shown import shown_frames

PUBLISH_INTERVAL_S = 0.1
"""Pause between publishes while stats change."""
IDLE_INTERVAL_S = 5.0
"""Pause between publishes while nothing changes."""
STEP_FLOOR_S = 0.05
"""Shortest pause while the stats of a step may still be coming in."""


class CoordinatorDied(Exception):  # noqa: N818  (an end, as of a process)
    """The process would have ended here: an engine sent what a coordinator must not get."""


class Publish(msgspec.Struct, frozen=True):
    """Send the state to all frontends."""

    message: CoordinatorPublish


class Broadcast(msgspec.Struct, frozen=True):
    """Send START_DP_WAVE to all engines."""

    message: StartDpWave


class AnswerReady(msgspec.Struct, frozen=True):
    """Send ``READY`` to the engines (a late subscriber waits for it)."""


class Note(msgspec.Struct, frozen=True):
    """Something odd to log; nothing is done about it."""

    text: str


Effect = Publish | Broadcast | AnswerReady | Note


class ExternalCoordinatorState:
    """State of the process; ``now`` is in seconds on the loop's clock."""

    def __init__(
        self,
        profile: Profile,
        engine_count: int,
        *,
        wave_coordination: bool,
        now: float,
        subscribers: int | None = None,
    ) -> None:
        """Begin paused at wave 0.

        Args:
            profile: shape of counts, and what a first request does.
            engine_count: all ranks of the deployment, from 0.
            wave_coordination: off for dense models, whose engines never wave.
            now: seconds; the first publish is due from here.
            subscribers: how many engines exist, if not all of the deployment do.
        """
        self._profile = profile
        self._wave_coordination = wave_coordination
        self._counts = [self._no_load() for _ in range(engine_count)]
        self._step_counts: tuple[tuple[float, ...], ...] | None = None
        self._step = (-1, -1)
        self._changed = False
        self._published_at = now
        self._awaited = engine_count if subscribers is None else subscribers
        self._subscriptions = 0
        self.started = False
        self.current_wave = Wave(0)
        self.engines_running = False

    def _no_load(self) -> tuple[float, ...]:
        return (0,) * self._profile.publish_counts_fields

    def snapshot(self) -> WaveState:
        """Wave state now."""
        return WaveState(self.current_wave, self.engines_running)

    def counts(self) -> tuple[tuple[float, ...], ...]:
        """Live load of each engine: waiting, running, and KV usage (≥ 0.27)."""
        return tuple(self._counts)

    # --- time ---

    def next_publish(self, now: float) -> float:
        """When to publish if nothing arrives before; recomputed after every arrival."""
        wait = PUBLISH_INTERVAL_S if self._changed else IDLE_INTERVAL_S
        due = self._published_at + wait
        return max(due, now + (STEP_FLOOR_S if self._floor_applies() else 0.0))

    def _floor_applies(self) -> bool:
        # Counts of three numbers and the step snapshot for MoE only came together (0.27).
        moe_only = self._profile.publish_counts_fields > 2
        return self._step_counts is None and (self._wave_coordination or not moe_only)

    def on_timeout(self, now: float) -> list[Effect]:
        """The time of a publish came."""
        if self._step_counts is not None:
            counts, self._step_counts = self._step_counts, None
        else:
            counts, self._changed = self.counts(), False
        self._published_at = now
        return [Publish(CoordinatorPublish(counts, self.current_wave, self.engines_running))]

    # --- back: engines ---

    def on_back_subscription(self, frames: Sequence[bytes]) -> list[Effect]:
        """An engine (un)subscribed. All of them subscribe before the process serves."""
        if list(frames) == [UNSUBSCRIBE_ALL]:
            return []
        if list(frames) != [SUBSCRIBE_ALL]:
            text = f"unexpected message on the engines' subscription socket: {shown_frames(frames)}"
            if not self.started:
                raise CoordinatorDied(text)
            return [Note(text)]
        self._subscriptions += 1
        if not self.started and self._subscriptions < self._awaited:
            return []
        self.started = True
        return [AnswerReady()]

    def on_outputs(self, outputs: EngineCoreOutputs) -> list[Effect]:
        """Stats first, then the wave notice.

        Raises:
            CoordinatorDied: request outputs or a utility reply came here.
        """
        if outputs.outputs or outputs.utility_output is not None:
            msg = f"engine {outputs.engine_index} sent outputs to the coordinator"
            raise CoordinatorDied(msg)
        effects: list[Effect] = []
        if outputs.scheduler_stats is not None:
            effects += self._on_stats(outputs.engine_index, outputs.scheduler_stats)
        if self._wave_coordination:
            effects += self._on_notice(outputs)
        return effects

    def _on_stats(self, engine: int, stats: Mapping[str, Any]) -> list[Effect]:
        if not 0 <= engine < len(self._counts):
            return [Note(f"stats of engine {engine}, which is none of {len(self._counts)}")]
        effects: list[Effect] = []
        step = (stats["current_wave"], stats["step_counter"])
        if self._wave_coordination or self._profile.publish_counts_fields == 2:
            if step > self._step:
                if self._changed:
                    self._step_counts = self.counts()
                self._step = step
            elif step < self._step:
                effects.append(Note(f"out-of-order step {step} of engine {engine}"))
        load = (stats["num_waiting_reqs"], stats["num_running_reqs"], stats["kv_cache_usage"])
        self._counts[engine] = load[: self._profile.publish_counts_fields]
        self._changed = True
        return effects

    def _on_notice(self, outputs: EngineCoreOutputs) -> list[Effect]:
        if (wave := outputs.wave_complete) is not None:
            if wave < self.current_wave:
                return []
            self.current_wave, self.engines_running = Wave(wave + 1), False
            return [self._publish_waves()]
        if (wave := outputs.start_wave) is not None:
            newer = wave > self.current_wave
            if not newer and (wave != self.current_wave or self.engines_running):
                return []
            self.current_wave, self.engines_running = wave, True
            return [Broadcast(StartDpWave(wave, outputs.engine_index)), self._publish_waves()]
        return []

    # --- front: frontends ---

    def on_first_request(self, request: FirstRequest) -> list[Effect]:
        """A frontend submitted a request while it believed the engines paused.

        ≤ 0.28 marks the engines running on that word; 0.29–0.32 only wakes them, since a paused
        engine drops the wake-up; 0.33 knows no such message.
        """
        if not self._profile.frontend_starts_waves:
            return [Note("a frontend sent a first request, which 0.33 does not know")]
        if self.engines_running or not self._wave_coordination:
            return []
        exclude = request.target if request.wave >= self.current_wave else None
        effects: list[Effect] = [Broadcast(StartDpWave(self.current_wave, exclude))]
        if self._profile.external_coordinator_marks_running:
            self.engines_running = True
            effects.append(self._publish_waves())
        return effects

    def on_scale(self, engine_count: int) -> list[Effect]:
        """The deployment grew or shrank (elastic expert parallelism).

        A number that no deployment can have changes nothing: counts are kept for each engine.
        """
        if type(engine_count) is not int or not 0 <= engine_count <= RANKS_MAX:
            return [Note(f"a scale message for {engine_count} engines, at most {RANKS_MAX}")]
        have = len(self._counts)
        self._counts = self._counts[:engine_count]
        self._counts += [self._no_load() for _ in range(engine_count - have)]
        return []

    def _publish_waves(self) -> Publish:
        return Publish(CoordinatorPublish(None, self.current_wave, self.engines_running))
