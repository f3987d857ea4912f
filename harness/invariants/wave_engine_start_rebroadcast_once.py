"""Invariant wave.engine-start-rebroadcast-once."""

from __future__ import annotations

from client.events import FirstRequestHandled, WaveNoticeHandled
from harness.invariants._run import RunInvariant, event_types
from harness.invariants._waves import WaveBook, restarts_coordinator, scripted
from harness.invariants.base import RunContext
from harness.trace.events import Record, StepBegan
from mock_engines.events import EngineDied, EngineJoined, EngineRemoved, StartWaveSeen


class EngineStartRebroadcastOnce(RunInvariant):
    """A start_wave of an engine that takes effect is broadcast once, without that engine.

    Statement: Every start_wave that is above the coordinator's wave, or equal to it while
        paused, makes the coordinator run this wave and is broadcast exactly once to all engines
        with the sender left out; every other start_wave changes nothing and is not broadcast.
    Reason: Without the broadcast the sender's peers sleep while it waits for them; a second one
        wakes engines into a wave that is over.
    Source: vllm ``v1/engine/coordinator.py`` and Rust ``coordinator/inproc.rs``; protocol page,
        section 11.1 with its table of observed transitions.
    Limits: Which notices take effect is known only from the coordinator's own events; on a
        black box only repeated broadcasts and a wrong sender are found, and the sender is not
        compared where the scenario stamps another engine index.
    """

    id = "wave.engine-start-rebroadcast-once"
    handles = event_types(
        (
            *(StartWaveSeen, WaveNoticeHandled, FirstRequestHandled),
            *(EngineJoined, EngineDied, EngineRemoved, StepBegan),
        )
    )

    def __init__(self, context: RunContext) -> None:
        super().__init__(context)
        self.waves = context.shelf.book(WaveBook, context)
        self._expected: dict[tuple[int, int | None], list[Record]] = {}
        self._seen: dict[tuple[int, int | None], dict[int, list[Record]]] = {}
        self._listening: dict[int, Record] = {}
        self._last: dict[int, int] = {}
        self._unsure = False
        """Broadcasts may be missing or repeated for a reason that is judged elsewhere."""

    def see(self, record: Record) -> None:
        """Collect what was handled and what was seen."""
        event = record.event
        if event.__class__ is StepBegan:  # first: most of them are
            self._unsure = self._unsure or restarts_coordinator(self.context, record)
            return
        match event:
            case WaveNoticeHandled(notice="start"):
                self._start(record, event)
            case FirstRequestHandled() if event.broadcast_wave is not None:
                key = (event.broadcast_wave, event.exclude)
                self._expected.setdefault(key, []).append(record)
            case StartWaveSeen():
                # A rewound coordinator starts waves anew: a consequence on a black box.
                rewound = event.wave < self._last.get(event.engine, 0)
                self._unsure = self._unsure or (rewound and not self.white)
                self._last[event.engine] = event.wave
                by_engine = self._seen.setdefault((event.wave, event.exclude), {})
                by_engine.setdefault(event.engine, []).append(record)
            case EngineJoined():
                self._listening.setdefault(event.engine, record)
            case EngineRemoved():
                self._listening.pop(event.engine, None)
            case EngineDied():
                self._unsure = True
            case _:
                pass

    def _start(self, record: Record, event: WaveNoticeHandled) -> None:
        self.exercised += 1
        takes_effect = event.wave > event.wave_before or (
            event.wave == event.wave_before and not event.running_before
        )
        before = (event.wave_before, event.running_before, False)
        expected = (event.wave, True, True) if takes_effect else before
        seen = (event.wave_after, event.running_after, event.broadcast)
        if event.broadcast:
            self._expected.setdefault((event.wave, event.engine), []).append(record)
        if seen != expected:
            self.violate(
                f"start_wave {event.wave} of engine {event.engine} was handled wrongly",
                expected="wave {}, running {}, broadcast {}".format(*expected),
                seen="wave {}, running {}, broadcast {}".format(*seen),
                witness=(record,),
            )

    def at_rest(self) -> None:
        """Compare broadcasts handled with broadcasts seen, or bound those of a black box."""
        if self._unsure or self.waves.opaque or self.waves.rejoined or not self.state.sound:
            return
        if self.white:
            self._compare()
        else:
            self._bound()

    def _compare(self) -> None:
        if self.fenced is None:
            return
        for key in dict.fromkeys([*self._expected, *self._seen]):
            due = self._expected.get(key, [])
            for engine, joined in sorted(self._listening.items()):
                if any(handled.seq < joined.seq for handled in due):
                    continue
                got = self._seen.get(key, {}).get(engine, [])
                if len(got) != len(due):
                    self.violate(
                        f"engine {engine} saw {len(got)} broadcasts of wave {key[0]} excluding"
                        f" {key[1]}, the coordinator made {len(due)}",
                        expected=f"{len(due)} x START_DP_WAVE wave={key[0]} exclude={key[1]}",
                        seen=f"{len(got)} x START_DP_WAVE wave={key[0]} exclude={key[1]}",
                        witness=(*due, *got),
                    )

    def _bound(self) -> None:
        old = self.context.release.release < (0, 33)  # frontends start waves too
        stamped = list(scripted(self.context.scenario.model_dump(), "engine_index"))
        for (wave, exclude), by_engine in self._seen.items():
            starts = self.waves.starts.get(wave, [])
            if not starts:
                continue
            self.exercised += 1
            senders = {getattr(start.event, "engine", None) for start in starts}
            for engine, got in by_engine.items():
                if exclude is not None and len(got) > 1 + (old and exclude in senders):
                    self.violate(
                        f"engine {engine} was told {len(got)} times to start wave {wave}",
                        expected=f"1 x START_DP_WAVE wave={wave} exclude={exclude}",
                        seen=f"{len(got)} x START_DP_WAVE wave={wave} exclude={exclude}",
                        witness=(*starts, *got),
                    )
            if not old and not stamped:
                self._sender(wave, exclude, senders, [*starts, *next(iter(by_engine.values()))])

    def _sender(
        self, wave: int, exclude: int | None, senders: set[int | None], witness: list[Record]
    ) -> None:
        if exclude not in senders:
            names = sorted(sender for sender in senders if sender is not None)
            self.violate(
                f"wave {wave} was broadcast without engine {exclude}, which did not start it",
                expected=f"exclude in {names}",
                seen=f"exclude == {exclude}",
                witness=witness,
            )
