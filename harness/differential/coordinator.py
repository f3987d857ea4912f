"""The external coordinator and vLLM's ``DPCoordinatorProc``, side by side over scripted sockets.

One message arrives at a time, at a chosen moment before the next publish is due; or none does. Both
sides must wait for the same time, publish and broadcast the same, and die of the same. What vLLM
logs is not compared. Runs in child processes only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import greenlet
import msgspec

from client.coordinator import FirstRequest
from client.external_coordinator import (
    IDLE_INTERVAL_S,
    AnswerReady,
    Broadcast,
    CoordinatorDied,
    Effect,
    ExternalCoordinatorState,
    Note,
    Publish,
)
from client.protocol.ids import Wave
from client.protocol.messages import EngineCoreOutputs
from client.protocol.profiles import Profile, profile_for
from harness.differential.coordinator_events import Event, make_events
from harness.differential.play import SHRINK_TRIALS_MAX
from harness.shrink.ddmin import minimised
from harness.strategies.shuffle import Stream
from harness.targets.vllm_py.loader import Loaded
from harness.targets.vllm_py.members import COORDINATOR, ENGINE

START_MS = 1_000_000
_FRONT, _OUT, _BACK = "front", "out", "back"
_STATS_FIELDS = ("num_waiting_reqs", "num_running_reqs", "kv_cache_usage")


class _Oracle:
    """vLLM's coordinator in a greenlet that stops wherever it polls."""

    def __init__(self, loaded: Loaded, engines: int, *, waves: bool) -> None:
        self._loaded = loaded
        self._clock = SimpleNamespace(ms=START_MS)
        self._sent: list[tuple[Any, ...]] = []
        self._messages: list[bytes] = [b"\1"] * engines
        self._sockets = {name: _Socket(name, self) for name in (_FRONT, _OUT, _BACK)}
        module: Any = loaded.module(COORDINATOR)
        module.make_zmq_socket = self._opener()
        # In the middle of a millisecond, so that cutting the rest off is exact.
        module.time = SimpleNamespace(time=lambda: (self._clock.ms + 0.5) / 1000)
        module.zmq = SimpleNamespace(
            Context=lambda: None, Poller=lambda: self, XPUB=1, PULL=2, POLLIN=1
        )
        proc = loaded.get(COORDINATOR, "DPCoordinatorProc")
        self._proc = proc(engine_count=engines, enable_wave_coordination=waves)
        self._greenlet = greenlet.greenlet(self._run)
        self.timeout: int | None = self._greenlet.switch()

    def _opener(self) -> Any:
        opened = iter(self._sockets.values())

        @contextmanager
        def make_socket(**_options: Any) -> Iterator[Any]:
            yield next(opened)

        return make_socket

    def _run(self) -> None:
        try:
            self._proc.process_input_socket(_FRONT, _OUT, _BACK)
        except Exception as error:  # noqa: BLE001 - an end of the process
            self._sent.append(("died", type(error).__name__))

    def register(self, _socket: Any, _events: int) -> None:
        """See ``zmq.Poller``."""

    def poll(self, timeout: float) -> Any:
        """See ``zmq.Poller``; stops here until something happens."""
        parent = greenlet.getcurrent().parent
        assert parent is not None
        return parent.switch(int(timeout))

    def sent(self, what: tuple[Any, ...]) -> None:
        """Something was sent."""
        self._sent.append(what)

    def take(self) -> bytes:
        """What a socket receives."""
        return self._messages.pop(0)

    def taken(self) -> list[tuple[Any, ...]]:
        """What was sent since the last call."""
        sent, self._sent = self._sent, []
        return sent

    def go_on(self, wait_ms: int, arrived: tuple[str, bytes] | None) -> None:
        """Let time pass and a message arrive, or none."""
        self._clock.ms += wait_ms
        events: list[Any] = []
        if arrived is not None:
            self._messages.append(arrived[1])
            events.append((self._sockets[arrived[0]], 1))
        self.timeout = self._greenlet.switch(events)

    def close(self) -> None:
        """Give it up."""
        if not self._greenlet.dead:
            self._greenlet.throw()


class _Socket:
    def __init__(self, name: str, oracle: _Oracle) -> None:
        self._name = name
        self._oracle = oracle

    def recv(self) -> bytes:
        return self._oracle.take()

    def send(self, data: bytes) -> None:
        if self._name == _BACK:
            self._oracle.sent(("answer", data))
            return
        counts, wave, running = msgspec.msgpack.decode(data)
        rows = None if counts is None else tuple(tuple(row) for row in counts)
        self._oracle.sent(("publish", rows, wave, running))

    def send_multipart(self, frames: Sequence[bytes]) -> None:
        wave, exclude = msgspec.msgpack.decode(frames[1])
        self._oracle.sent(("broadcast", wave, exclude))


class _Both:
    """One sequence on both sides."""

    def __init__(
        self, loaded: Loaded, profile: Profile, engines: int, waves: bool, seen: Counter[str]
    ) -> None:
        self._engine: Any = loaded.module(ENGINE)
        self._stats: Any = loaded.module("vllm.v1.metrics.stats").SchedulerStats
        self._encoder: Any = loaded.module("vllm.v1.serial_utils").MsgpackEncoder()
        self._oracle = _Oracle(loaded, engines, waves=waves)
        self._seen = seen
        self._ms = START_MS
        # vLLM's first publish is due at once, ours after the idle interval (docs/lockstep.md).
        self._state = ExternalCoordinatorState(
            profile, engines, wave_coordination=waves, now=START_MS / 1000 - IDLE_INTERVAL_S
        )
        ready = [e for _ in range(engines) for e in self._state.on_back_subscription([b"\1"])]
        self._told = [_canonical(effect) for effect in ready]
        self._before: list[str] = []
        self.effects = 0

    def run(self, events: Sequence[Event]) -> dict[str, Any] | None:
        """Play the events; where the sides part, if they do."""
        try:
            difference = self._compare()
            for event in events:
                if difference is not None or self._oracle.timeout is None:
                    break
                self._before.append(repr(event))
                self._play(event)
                difference = self._compare()
        finally:
            self._oracle.close()
        return difference

    def _compare(self) -> dict[str, Any] | None:
        model, oracle = self._told, self._oracle.taken()
        self.effects += 1 + len(oracle)
        for effect in oracle:
            kind = "publish of waves" if effect[:2] == ("publish", None) else effect[0]
            self._seen[kind] += 1
        if ("died",) not in model:
            due = self._state.next_publish(self._ms / 1000)
            model = [*model, ("wait", round(due * 1000) - self._ms)]
            oracle = [*oracle, ("wait", self._oracle.timeout)]
        elif oracle and oracle[-1][0] == "died":
            oracle[-1] = ("died",)
        if model == oracle:
            return None
        return {"model": repr(model), "oracle": repr(oracle), "before": self._before[-12:]}

    def _play(self, event: Event) -> None:
        timeout = self._oracle.timeout
        assert timeout is not None
        wait = timeout if event.what == "quiet" else timeout * event.after // 1000
        self._ms += wait
        now = self._ms / 1000
        wave = self._state.current_wave
        try:
            effects, arrived = self._arrival(event, wave, now)
        except CoordinatorDied:
            # Both get an output that no coordinator takes.
            self._told = [("died",)]
            arrived = (_OUT, self._encoded(0, utility_output=self._engine.UtilityOutput(call_id=1)))
        else:
            self._told = [_canonical(e) for e in effects if not isinstance(e, Note)]
        self._oracle.go_on(wait, arrived)

    def _arrival(
        self, event: Event, wave: int, now: float
    ) -> tuple[list[Effect], tuple[str, bytes] | None]:
        args, state = event.args, self._state
        match event.what:
            case "quiet":
                return state.on_timeout(now), None
            case "subscription":
                return state.on_back_subscription([args[0]]), (_BACK, args[0])
            case "scale":
                frame = msgspec.msgpack.encode(("SCALE_ELASTIC_EP", args[0]))
                return state.on_scale(args[0]), (_FRONT, frame)
            case "first":
                target, named = args[0], max(0, wave + args[1])
                frame = msgspec.msgpack.encode((target, named))
                return state.on_first_request(FirstRequest(target, Wave(named))), (_FRONT, frame)
            case "reply":
                outputs = EngineCoreOutputs(engine_index=args[0], utility_output=_REPLY)
                return state.on_outputs(outputs), None
            case "stats":
                engine, delta, step, *load = args
                values = {"step_counter": step, "current_wave": max(0, wave + delta)}
                values |= dict(zip(_STATS_FIELDS, load, strict=True))
                outputs = EngineCoreOutputs(engine_index=engine, scheduler_stats=values)
                frame = self._encoded(engine, scheduler_stats=self._stats(**values))
                return state.on_outputs(outputs), (_OUT, frame)
        field = "wave_complete" if event.what == "complete" else "start_wave"
        named = max(0, wave + args[1])
        notice: dict[str, Any] = {field: Wave(named)}
        outputs = EngineCoreOutputs(engine_index=args[0], **notice)
        return state.on_outputs(outputs), (_OUT, self._encoded(args[0], **{field: named}))

    def _encoded(self, engine: int, **fields: Any) -> bytes:
        outputs = self._engine.EngineCoreOutputs(**fields)
        outputs.engine_index = engine
        return bytes(self._encoder.encode(outputs)[0])


_REPLY: Any = object()


def _canonical(effect: Effect) -> tuple[Any, ...]:
    match effect:
        case Publish(message):
            counts = message.counts
            rows = None if counts is None else tuple(tuple(row) for row in counts)
            return ("publish", rows, message.current_wave, message.engines_running)
        case Broadcast(message):
            return ("broadcast", message.wave, message.exclude_engine_index)
        case AnswerReady():
            return ("answer", b"READY")
    raise TypeError(effect)


def compare(loaded: Loaded, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Play the sequences; stop at the first difference, and shrink it."""
    proof = loaded.prove(loaded.get(COORDINATOR, "DPCoordinatorProc"))
    profile = profile_for(settings["release"])
    seen: Counter[str] = Counter()
    effects, played, found = 0, 0, None
    for number in range(settings["first"], settings["first"] + settings["sequences"]):
        below = Stream(settings["seed"], number).below
        engines, waves = 1 + below(4), below(4) > 0
        skips = profile.publish_counts_fields > 2
        events = make_events(settings["seed"] + 1, number, engines, skips_unknown=skips)
        both = _Both(loaded, profile, engines, waves, seen)
        difference = both.run(events)
        effects, played = effects + both.effects, played + 1
        if difference is not None:
            found = _shrunk(loaded, profile, engines, waves, events)
            break
    return {
        "proofs": [asdict(proof)],
        "sequences": played,
        "effects": effects,
        "seen": dict(sorted(seen.items())),
        "found": found,
    }


def _shrunk(
    loaded: Loaded, profile: Profile, engines: int, waves: bool, events: Sequence[Event]
) -> dict[str, Any]:
    trials = 0

    def run(some: Sequence[Event]) -> dict[str, Any] | None:
        return _Both(loaded, profile, engines, waves, Counter()).run(some)

    def differs(some: Sequence[Event]) -> bool:
        nonlocal trials
        trials += 1
        return trials <= SHRINK_TRIALS_MAX and run(some) is not None

    fewer = minimised(events, differs)
    difference = run(fewer)
    moves = [f"{engines} engines, wave coordination {'on' if waves else 'off'}"]
    return {"moves": [*moves, *map(repr, fewer)], "difference": difference}
