"""Tells why a rank does not come to a meeting, from the trace. Not an invariant.

A rank that is missing is gone, waits in another meeting, or sits idle. For one that waits in
another, and for one that is idle, the question is which message would have brought it, and where
that went: the way is followed from the rank back to whoever should have sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from client.events import FirstRequestHandled, WaveNoticeHandled
from harness.invariants._fanouts import FanOut, FanOutBook
from harness.invariants._lockstep import RESUME_METHODS, UNPAUSED, GroupBook
from harness.invariants._wakes import WakeBook
from harness.trace.events import Record
from mock_engines.events import (
    EngineDied,
    ExchangeHeld,
    RanksStuck,
    StartWaveIgnored,
    StartWaveSeen,
    UtilityReplySent,
    UtilitySeen,
)

OF_CALLS = {
    "resume": RESUME_METHODS,
    "barrier": ("barrier",),
    "collective_rpc": ("collective_rpc",),
}
"""Meetings that a call brings ranks to → its methods; into the others they come by stepping."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one rank does not come.

    Attributes:
        short: for the title.
        would: what would have brought it.
        lines: the way of that message, as far as it went.
        witness: events that show it.
    """

    short: str
    would: str
    lines: tuple[str, ...] = ()
    witness: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Split:
    """How the duty to wake others is split between engines and frontend.

    Attributes:
        engine: idle engines of this release tell their coordinator of an ADD of their own wave.
        frontend: the frontend tells its coordinator of a first request.
        seen: what the frontend tells is seen.
    """

    engine: bool
    frontend: bool
    seen: bool


def named(ranks: Iterable[int]) -> str:
    """``engine 1``, or ``engines 1, 2``; the first eight."""
    each = list(ranks)
    text = ", ".join(str(rank) for rank in each[:8]) + (" …" if len(each) > 8 else "")
    return f"engine{'' if len(each) == 1 else 's'} {text}"


def wait_s(ranks: Sequence[int]) -> str:
    """``waits`` or ``wait``, as the number of ranks wants it."""
    return "waits" if len(ranks) == 1 else "wait"


class Detective:
    """Reads the books of one run.

    Args:
        group: states of the ranks, and who hangs.
        wakes: wake-ups and calls by rank.
        fans: which calls belong together.
        split: who wakes the peers of a rank that gets a request of its own wave.
    """

    def __init__(
        self, group: GroupBook, wakes: WakeBook, fans: FanOutBook, *, split: Split
    ) -> None:
        self._group = group
        self._wakes = wakes
        self._fans = fans
        self._split = split

    def why(self, rank: int, stuck: RanksStuck) -> Reason:
        """Say why ``rank`` does not come to where others wait for it."""
        gone = self._gone(rank)
        if gone is not None:
            return gone
        kind = stuck.entered[0][1]
        elsewhere = self._elsewhere(rank, stuck)
        if elsewhere is not None:
            return self._crossed(rank, stuck, elsewhere)
        if methods := OF_CALLS.get(kind):
            return self._call(rank, stuck.entered[0][0], methods)
        return self._pause(rank, stuck) or self._wake(rank, stuck)

    # --- it cannot come ---------------------------------------------------------------------

    def _gone(self, rank: int) -> Reason | None:
        group = self._group
        if (died := group.dead.get(rank)) is not None:
            assert isinstance(died.event, EngineDied)
            state = group.states.get(rank)
            if state is not None and state.ending:
                told = self._group.moved[rank]
                text = f"engine {rank} was shut down and is gone (#{died.seq})"
                would = f"engine {rank} goes on until its peers need it no more"
                line = (
                    f"engine {rank} was told to shut down (#{told.seq}), and left its peers to step"
                )
                return Reason(text, would, (line,), (told, died))
            how = died.event.how
            text = f"engine {rank} died ({how}, #{died.seq})"
            return Reason(text, f"engine {rank} lives", (), (died,))
        if (stalled := group.stalled.get(rank)) is not None:
            text = f"engine {rank} stands still since #{stalled.seq}"
            return Reason(text, f"engine {rank} goes on", (), (stalled,))
        if rank not in group.states:
            return Reason(f"engine {rank} has not joined", f"engine {rank} joins")
        return None

    # --- it waits elsewhere -----------------------------------------------------------------

    def _elsewhere(self, rank: int, stuck: RanksStuck) -> tuple[str, str] | None:
        """Group and operation in which it waits."""
        for each, group, kind in stuck.elsewhere:
            if each == rank:
                return group, kind
        kinds = dict(stuck.entered)
        return (stuck.group, kinds[rank]) if rank in kinds else None

    def _crossed(self, rank: int, stuck: RanksStuck, elsewhere: tuple[str, str]) -> Reason:
        """It waits in turn for those who wait for it; a call may have brought one side there."""
        group, kind = elsewhere
        here = [each for each, _ in stuck.entered if each != rank]
        short = f"engine {rank} {wait_s([rank])} in {group} {kind} itself"
        would = "all ranks enter the same operations in the same order"
        sides = [
            (their, caller, late)
            for their, caller, late in (
                (kind, rank, here[0] if here else rank),
                (stuck.entered[0][1], stuck.entered[0][0], rank),
            )
            if their in OF_CALLS and caller != late
        ]
        for their, caller, late in sides:
            found = self._call(late, caller, OF_CALLS[their])
            return Reason(f"{short}; {found.short}", found.would, found.lines, found.witness)
        other = here[0] if here else rank
        lines, witness = self._apart(rank, kind, other, dict(stuck.entered).get(other, ""))
        return Reason(short, would, lines, witness)

    def _apart(
        self, rank: int, kind: str, other: int, their: str
    ) -> tuple[tuple[str, ...], tuple[Record, ...]]:
        """Both step, and one of them has left something out since they met last."""
        lines = [
            f"engine {rank} came to {kind} and engine {other} to {their}: since they met last, one "
            "has left out what the other waits in"
        ]
        witness = []
        for each in (rank, other):
            began, by = self._began(each)
            if began is not None:
                lines.append(f"engine {each} began to run at #{began.seq}{by}")
                witness.append(began)
        if (met := self._group.exchange) is not None and isinstance(met.event, ExchangeHeld):
            lines.append(f"all met last in exchange {met.event.number} (#{met.seq})")
            witness.append(met)
        return tuple(lines), tuple(witness)

    def _began(self, rank: int) -> tuple[Record | None, str]:
        """When a rank began to run, and what had come just before."""
        wakes = self._wakes.of(rank)
        if (began := wakes.began) is None:
            return None, ""
        before = [
            each
            for kept in (wakes.seen, wakes.adds, wakes.calls)
            for each in kept
            if each.seq < began.seq
        ]
        if not before:
            return began, ""
        # What has arrived is taken later, perhaps behind a rule: the last but one may be meant.
        last = sorted(before, key=lambda each: each.seq)[-2:]
        return began, ", after " + " and ".join(f"{_message(each)} (#{each.seq})" for each in last)

    # --- a call that only some got ----------------------------------------------------------

    def _call(self, rank: int, caller: int, methods: Sequence[str]) -> Reason:
        """What became of the call at ``rank`` that brought ``caller`` where it waits."""
        mine = self._unanswered(caller, methods)
        if mine is None:
            text = f"nothing brought engine {rank} there"
            return Reason(text, f"a call that engine {rank} enters it for")
        assert isinstance(mine.event, UtilitySeen)
        method = mine.event.method
        fan = self._fans.by_call.get(mine.event.call_id)
        would = f"engine {rank} takes {method}, too, and enters"
        lines = [f"{method}{_of(fan)} reached engine {caller} (#{mine.seq}), which entered"]
        short, line, witness = self._part(rank, method, fan)
        return Reason(short, would, (*lines, *line), (mine, *witness))

    def _unanswered(self, rank: int, methods: Sequence[str]) -> Record | None:
        for record in reversed(self._wakes.of(rank).calls):
            event = record.event
            assert isinstance(event, UtilitySeen)
            if event.method in methods and event.call_id not in self._wakes.replies:
                return record
        return None

    def _part(
        self, rank: int, method: str, fan: FanOut | None
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        """One engine's part of a fan-out: short, lines, witness."""
        call_id = None if fan is None else fan.call_at(rank)
        seen = None if fan is None or call_id is None else fan.seen.get(call_id)
        if call_id is None or seen is None:
            return self._not_arrived(rank, method, fan, call_id)
        reply = self._wakes.replies.get(call_id)
        if reply is None:
            return self._not_answered(rank, method, seen)
        assert isinstance(reply.event, UtilityReplySent)
        moved = self._wakes.then.get(call_id)
        witness = (seen, reply) if moved is None else (moved, seen, reply)
        if reply.event.failure is not None:
            short = f"engine {rank} refused {method} (#{reply.seq})"
            return short, (f"engine {rank} answered #{seen.seq}: {reply.event.failure}",), witness
        short = f"engine {rank} answered {method} without entering (#{reply.seq})"
        line = f"engine {rank} answered #{seen.seq} at once (#{reply.seq})"
        if moved is not None and getattr(moved.event, "running", False):
            line += f": it was running since #{moved.seq}, so it took the call for a repetition"
        return short, (line,), witness

    def _not_arrived(
        self, rank: int, method: str, fan: FanOut | None, call_id: int | None
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        registered = None if fan is None or call_id is None else fan.registered.get(call_id)
        sent = "" if registered is None else f", though the client sent it (#{registered.seq})"
        never = "never reached" if self._group.settled else "has not reached"
        short = f"{method} {never} engine {rank}"
        return short, (f"{short}{sent}",), ()

    def _not_answered(
        self, rank: int, method: str, seen: Record
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        state = self._group.states.get(rank)
        if not self._group.settled or (state is not None and (state.running or self._hangs(rank))):
            short = f"engine {rank} has not taken {method} (#{seen.seq})"
            return short, (f"{short}: it takes nothing while it waits",), (seen,)
        short = f"{method} reached engine {rank} (#{seen.seq}), and a rule kept it"
        return short, (f"{short} from its loop",), (seen,)

    def _hangs(self, rank: int) -> bool:
        """Whether it waits in some meeting."""
        told = [r.event for r in self._group.stuck if isinstance(r.event, RanksStuck)]
        return any(
            rank in dict(event.entered) or rank in [each for each, *_ in event.elsewhere]
            for event in told
        )

    # --- a pause that only some got ---------------------------------------------------------

    def _pause(self, rank: int, stuck: RanksStuck) -> Reason | None:
        """The others step because they were told to pause, and this one was not."""
        states = self._group.states
        told = [each for each, _ in stuck.entered if each in states and states[each].pending_pause]
        if not told or states[rank].pending_pause:
            return None
        for record in reversed(self._wakes.of(told[0]).calls):
            event = record.event
            assert isinstance(event, UtilitySeen)
            if not event.method.startswith(("pause", "sleep")):
                continue
            fan = self._fans.by_call.get(event.call_id)
            short, lines, witness = self._part(rank, event.method, fan)
            first = f"{event.method}{_of(fan)} reached engine {told[0]} (#{record.seq}), which runs"
            would = f"engine {rank} takes {event.method}, too, or START_DP_WAVE"
            return Reason(short, would, (first, *lines), (record, *witness))
        return None

    # --- a wake-up that was lost ------------------------------------------------------------

    def _wake(self, rank: int, stuck: RanksStuck) -> Reason:
        """START_DP_WAVE, from the rank that sleeps back to the one that should have asked."""
        states, wakes = self._group.states, self._wakes
        caller = next((r for r, _ in stuck.entered if r in states), rank)
        wave = states[caller].wave
        adds = wakes.of(caller).adds
        began = wakes.of(caller).began if states[caller].running else (adds[-1] if adds else None)
        since = -1 if began is None else began.seq
        would = f"START_DP_WAVE of wave {wave}, not without engine {rank}, taken by it"
        stopped = wakes.of(rank).stopped
        goes_on = states[caller].running and states[rank].wave in {wave, wave + 1}
        if goes_on and stopped is not None and stopped.seq > since:
            short = f"engine {rank} ended its wave (#{stopped.seq}) while its peers went on"
            would = "all ranks end the wave in the same exchange"
            return Reason(short, would, (short,), _there(began, stopped))
        lines, witness = self._arrived(rank, caller, wave, since)
        if lines:
            return Reason(lines[0], would, lines, _there(began, *witness))
        short, lines, witness = self._sent(rank, caller, wave, since)
        return Reason(short, would, lines, _there(began, *witness))

    def _arrived(
        self, rank: int, caller: int, wave: int, since: int
    ) -> tuple[tuple[str, ...], tuple[Record, ...]]:
        """What came to the rank itself, to no effect."""
        wakes = self._wakes.of(rank)
        for record in reversed(wakes.ignored):
            event = record.event
            assert isinstance(event, StartWaveIgnored)
            if event.wave < wave and record.seq < since:
                continue
            start = _start(event.wave, event.exclude)
            line = f"engine {rank} ignored {start} (#{record.seq}): {event.why}"
            asked, witness = self._asked_by(event.wave, record)
            later = [*asked, *self._left_out_by(rank, event), *self._resumed(rank, record)]
            if record.seq < since and not self._group.states[caller].running:
                duty, add = self._duty(caller)
                later, witness = [*later, *duty], (*witness, *add)
            return (line, *later), (*witness, record)
        for record in reversed(wakes.seen):
            seen = record.event
            assert isinstance(seen, StartWaveSeen)
            if seen.wave < wave or seen.exclude == rank:
                continue
            start = _start(seen.wave, seen.exclude)
            if wakes.began is None or wakes.began.seq < record.seq:
                line = f"{start} reached engine {rank} (#{record.seq}), and a rule kept it from its loop"
                return (line,), (record,)
        return (), ()

    def _asked_by(self, wave: int, arrived: Record) -> tuple[tuple[str, ...], tuple[Record, ...]]:
        """Why the coordinator sent the wake-up that arrived, where it tells."""
        for record in reversed(self._wakes.handled):
            event = record.event
            if record.seq > arrived.seq:
                continue
            if isinstance(event, FirstRequestHandled) and event.broadcast_wave == wave:
                what = f"a first request for engine {event.engine}"
            elif isinstance(event, WaveNoticeHandled) and event.broadcast and event.wave == wave:
                what = f"start_wave {wave} of engine {event.engine}"
            else:
                continue
            return (f"the coordinator sent it for {what} (#{record.seq})",), (record,)
        return (), ()

    def _resumed(self, rank: int, ignored: Record) -> tuple[str, ...]:
        resumed = self._wakes.of(rank).resumed
        if resumed is None or resumed.seq < ignored.seq:
            return ()
        return (f"engine {rank} was resumed only after that (#{resumed.seq})",)

    def _left_out_by(self, rank: int, event: StartWaveIgnored) -> tuple[str, ...]:
        """Who asked for a wake-up that leaves this rank out."""
        if event.exclude != rank:
            return ()
        for record in reversed(self._wakes.of(rank).asked):
            wave = getattr(record.event, "wave", None)
            if wave == event.wave:
                return (f"engine {rank} had asked for it itself (#{record.seq})",)
        return (
            f"a frontend sent a request to engine {rank} and had its peers woken",
            f"that request {self._request(rank)}",
        )

    def _request(self, rank: int) -> str:
        wakes = self._wakes.of(rank)
        if not wakes.adds:
            return f"never came to engine {rank}"
        add = wakes.adds[-1]
        name = getattr(add.event, "request_id", "")
        for record in wakes.aborts:
            if record.seq > add.seq and name in getattr(record.event, "request_ids", ()):
                return f"came (#{add.seq}) and was aborted (#{record.seq}) before a step"
        return f"is not there: the last ADD at engine {rank} is #{add.seq}"

    def _sent(
        self, rank: int, caller: int, wave: int, since: int
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        """Nothing came to the rank: whether it was asked for, and what was made of that."""
        asked = [
            record
            for each in self._group.states
            for record in self._wakes.of(each).asked
            if getattr(record.event, "wave", -1) == wave
        ]
        asked.sort(key=lambda record: record.seq)
        handled = [r for r in self._wakes.handled if r.seq >= since or _wave_of(r) == wave]
        for record in reversed(asked):
            engine = getattr(record.event, "engine", -1)
            line = f"engine {engine} asked for it: start_wave {wave} (#{record.seq})"
            fate, *witness = self._fate(record, engine, wave)
            return fate, (line, fate), (record, *witness)
        for record in reversed(handled):
            event = record.event
            if isinstance(event, FirstRequestHandled):
                line = _first_request(record, event)
                return line, (line, f"it never reached engine {rank}"), (record,)
        return self._nobody_asked(caller)

    def _fate(self, asked: Record, engine: int, wave: int) -> tuple[str, *tuple[Record, ...]]:
        for record in self._wakes.handled:
            event = record.event
            if not isinstance(event, WaveNoticeHandled) or record.seq < asked.seq:
                continue
            if (event.notice, event.engine, event.wave) != ("start", engine, wave):
                continue
            if event.broadcast:
                return f"the coordinator passed it on (#{record.seq}), and it was lost", record
            state = _coordinator(event.wave_before, running=event.running_before)
            return f"the coordinator, {state}, took it for stale (#{record.seq})", record
        sent = [
            record
            for rank in self._group.states
            for record in self._wakes.of(rank).seen
            if record.seq > asked.seq
        ]
        if sent:
            return f"START_DP_WAVE went out (#{sent[0].seq}), and not to all", sent[0]
        return f"no START_DP_WAVE followed start_wave {wave} of engine {engine}", asked

    def _nobody_asked(self, caller: int) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        short = "nobody asked the coordinator to wake it"
        if not self._split.seen:
            short = "no engine asked for it, and no START_DP_WAVE came"
        began, by = self._began(caller)
        if self._group.states[caller].running and began is not None:
            line = f"engine {caller} began to run at #{began.seq}{by}, and told nobody"
            return short, (short, line), (began,)
        lines, witness = self._duty(caller)
        return short, (short, *lines), witness

    def _duty(self, caller: int) -> tuple[tuple[str, ...], tuple[Record, ...]]:
        """Who should have seen to it that the peers of an idle rank with a request wake up."""
        adds = self._wakes.of(caller).adds
        if not adds:
            return (), ()
        add = adds[-1]
        lines = [
            f"engine {caller} got an ADD of wave {getattr(add.event, 'wave', -1)} (#{add.seq})"
        ]
        if not self._split.engine:
            lines.append(f"engine {caller} leaves it to the frontend to wake its peers for that")
            lines += self._frontend(add)
        elif self._group.states[caller].pause != UNPAUSED:
            lines.append(f"engine {caller} is paused, and tells nobody of it")
        else:
            lines.append(
                f"engine {caller} should have told the coordinator, and sent no start_wave"
            )
        return tuple(lines), (add,)

    def _frontend(self, add: Record) -> list[str]:
        """What the frontend did of its part."""
        if not self._split.frontend:
            return ["the frontend leaves it to the engines: the two are of different releases"]
        if not self._split.seen:
            return []
        if not self._wakes.queued:
            return ["the frontend never told its coordinator of a first request"]
        last = self._wakes.queued[-1]
        told = "" if last.seq > add.seq else ": it took the engines for running"
        return [f"the frontend told its coordinator last at #{last.seq}{told}"]


def _message(record: Record) -> str:
    event = record.event
    if isinstance(event, StartWaveSeen):
        return _start(event.wave, event.exclude)
    return event.method if isinstance(event, UtilitySeen) else "an ADD"


def _there(*records: Record | None) -> tuple[Record, ...]:
    return tuple(record for record in records if record is not None)


def _of(fan: FanOut | None) -> str:
    return "" if fan is None else f" of {fan.op!r}"


def _start(wave: int, exclude: int | None) -> str:
    left_out = "" if exclude is None else f", without engine {exclude}"
    return f"START_DP_WAVE (wave {wave}{left_out})"


def _wave_of(record: Record) -> int:
    return int(getattr(record.event, "wave_after", -1))


def _coordinator(wave: int, *, running: bool) -> str:
    return f"at wave {wave} and {'running' if running else 'paused'}"


def _first_request(record: Record, event: FirstRequestHandled) -> str:
    asked = f"first request of wave {event.request_wave} for engine {event.engine}"
    if event.broadcast_wave is None:
        state = _coordinator(event.wave_before, running=event.running_before)
        return f"the coordinator, {state}, sent nothing for the {asked} (#{record.seq})"
    start = _start(event.broadcast_wave, event.exclude)
    return f"the coordinator sent {start} for the {asked} (#{record.seq})"
