"""Invariant lockstep.agrees-at-rest."""

from __future__ import annotations

from client.events import FirstRequestHandled, WaveNoticeHandled
from harness.invariants._lockstep import UNPAUSED, LockstepInvariant
from harness.invariants._run import event_types
from harness.invariants._waves import WaveBook, coordinator_step
from harness.invariants.base import Kind, RunContext
from harness.trace.events import Fenced, Healed, Record, Snapshot, StepBegan
from mock_engines.events import EngineJoined

View = tuple[int, bool]
"""Wave, and whether it is believed to run."""


class AgreesAtRest(LockstepInvariant):
    """At rest all parts of a deployment have one view of the wave.

    Statement: Whenever a fence finds all ranks at rest, they have the same wave, the coordinator
        has this wave, too, and, unless ranks are paused, takes it for not running; and so does
        the frontend that keeps the coordinator.
    Reason: The next request is stamped with the frontend's wave, and wakes the others or not by
        its view. If that is not the engines', the request steps alone.
    Source: vllm#51983, #54762; vLLM ``v1/engine/coordinator.py``; protocol page, sections 11
        and 13.
    Limits: Engines that step together only. Of a coordinator that is not ours nothing is known
        here, so that engines are compared with each other; of an external one, which is ours, the
        coordinator but no frontend, which hears of it later. Not judged where something may
        be under way for longer (a link that is held), a coordinator is restarted or speaks by
        script, a rank joined again, or the frontend failed.
    """

    id = "lockstep.agrees-at-rest"
    kind = Kind.EVENTUALLY
    handles = event_types(
        (WaveNoticeHandled, FirstRequestHandled, Snapshot, StepBegan, EngineJoined, Healed, Fenced)
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.waves = context.shelf.book(WaveBook, context)
        topology = context.scenario.topology
        external = topology.coordinator == "external"
        self._in_process = topology.coordinator == "in-process" and self.white
        self._known = self._in_process or (external and "see.publishes" in context.capabilities)
        self._coordinator: View = (0, False)
        self._handled: Record | None = None
        self._snapshot: Record | None = None
        self._odd = topology.frontends > 1
        self._held = False

    def see(self, record: Record) -> None:
        """Keep views; compare them at fences."""
        event = record.event
        match event:
            case WaveNoticeHandled() | FirstRequestHandled():
                self._coordinator = (event.wave_after, event.running_after)
                self._handled = record
            case Snapshot():
                self._snapshot = record
            case StepBegan():
                self._odd = self._odd or coordinator_step(self.context, record) is not None
                self._held = self._held or event.verb == "link"
            case Healed():
                self._held = False
            case Fenced():
                self._compare(record)
            case _:
                pass

    def _compare(self, record: Record) -> None:
        group, odd = self.group, self._odd or self._held or self.waves.opaque
        if odd or group.returned or not group.at_rest or not self.state.sound:
            return
        self.exercised += 1
        waves = {rank: state.wave for rank, state in sorted(group.states.items())}
        moved = [group.moved[rank] for rank in waves]
        if len({*waves.values()}) > 1:
            self.violate(
                "engines are at rest in different waves",
                expected="one wave at all engines",
                seen="; ".join(f"engine {rank}: wave {wave}" for rank, wave in waves.items()),
                witness=(*moved, record),
            )
            return
        wave = next(iter(waves.values()))
        paused = any(state.pause != UNPAUSED for state in group.states.values())
        if self._known:
            by = () if self._handled is None else (self._handled,)
            self._view("the coordinator", self._coordinator, wave, paused, (*moved, *by, record))
        shot = self._snapshot
        if self._in_process and shot is not None and isinstance(shot.event, Snapshot):
            self._snapshot = None
            if shot.event.wave is not None and shot.event.running is not None:
                view = (shot.event.wave, shot.event.running)
                self._view("the frontend", view, wave, paused, (*moved, shot, record))

    def _view(
        self, who: str, view: View, wave: int, paused: bool, witness: tuple[Record, ...]
    ) -> None:
        seen_wave, running = view
        if seen_wave == wave and (paused or not running):
            return
        self.violate(
            f"at rest, {who} is not of one view with the engines",
            expected=f"wave {wave}" if paused else f"wave {wave}, not running",
            seen=f"{who}: wave {seen_wave}" + ("" if paused else _running(running)),
            witness=witness,
        )


def _running(running: bool) -> str:
    return ", running" if running else ", not running"
