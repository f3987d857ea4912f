"""Follows a wake-up that did not help, from the rank back to who should have sent it. No invariant."""

from __future__ import annotations

from dataclasses import dataclass

from client.events import FirstRequestHandled, WaveNoticeHandled
from client.protocol.shown import name_shown
from harness.invariants._deadlock_calls import CallTrail, of_op
from harness.invariants._deadlock_table import dropped, untaken
from harness.invariants._fanouts import FanOutBook
from harness.invariants._lockstep import PAUSE_METHODS, UNPAUSED, GroupBook, named
from harness.invariants._wakes import WakeBook
from harness.trace.events import Record
from mock_engines.events import RanksStuck, StartWaveIgnored, StartWaveSeen, UtilitySeen
from mock_engines.meeting_log import start_named


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
        releases: of the engines, and of the frontend.
    """

    engine: bool
    frontend: bool
    seen: bool
    releases: tuple[str, str]


class WakeTrail:
    """Reads the books of one run.

    Args:
        group: states of the ranks.
        wakes: wake-ups by rank.
        fans: which calls belong together; ``calls``: what became of them.
        split: who wakes the peers of a rank that gets a request of its own wave.
    """

    def __init__(
        self, group: GroupBook, wakes: WakeBook, fans: FanOutBook, calls: CallTrail, split: Split
    ) -> None:
        self._group = group
        self._wakes = wakes
        self._fans = fans
        self._calls = calls
        self._split = split

    def why(self, rank: int, stuck: RanksStuck) -> Reason:
        """START_DP_WAVE, from the rank that sleeps back to the one that should have asked."""
        states, wakes = self._group.states, self._wakes
        caller = next((r for r, _ in stuck.entered if r in states), rank)
        wave = states[caller].wave
        adds = wakes.of(caller).adds
        began = wakes.of(caller).began if states[caller].running else (adds[-1] if adds else None)
        since = -1 if began is None else began.seq
        would = f"engine {rank} gets START_DP_WAVE of wave {wave}, and takes it"
        stopped = wakes.of(rank).stopped
        goes_on = states[caller].running and states[rank].wave in {wave, wave + 1}
        if goes_on and stopped is not None and stopped.seq > since:
            short = f"engine {rank} ended its wave (#{stopped.seq}) while its peers went on"
            would = "all ranks end the wave in the same exchange"
            return Reason(short, would, (short,), _there(began, stopped))
        short, lines, witness = self._arrived(rank, caller, wave, since, stuck)
        if not lines:
            short, lines, witness = self._sent(rank, caller, wave, since)
        if began is not None and lines == self._woken_late(caller, began):
            would = f"engine {caller} ignores START_DP_WAVE of a wave that is over"
        if wave < states[rank].wave:
            would = f"engine {caller} in wave {states[rank].wave}, like engine {rank}"
            lines = (*self._behind(caller, rank, began), *lines)
        return Reason(short, would, lines, _there(began, *witness))

    def _behind(self, caller: int, rank: int, began: Record | None) -> tuple[str, ...]:
        """Two ranks are in different waves."""
        states, moved = self._group.states, self._group.moved
        wave = states[rank].wave
        ahead = [each for each, state in states.items() if state.wave == wave]
        apart = (
            f"engine {caller} is in wave {states[caller].wave} (#{moved[caller].seq}), and"
            f" {named(ahead)} in wave {wave} (#{max(moved[each].seq for each in ahead)})"
        )
        lines = [apart]
        if (switch := self._group.joined_by(caller)) is not None:
            told = getattr(switch.event, "wave", -1)
            lines.append(
                f"engine {caller} came into the group by a change of its size (#{switch.seq}), in"
                f" which all agreed on wave {told}"
            )
        if began is not None and states[caller].running:
            lines.append(f"engine {caller} began to run at #{began.seq}{self.began(caller)[1]}")
        return tuple(lines)

    def _arrived(
        self, rank: int, caller: int, wave: int, since: int, stuck: RanksStuck
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        """What came to the rank itself, to no effect."""
        wakes = self._wakes.of(rank)
        for record in reversed(wakes.ignored):
            event = record.event
            assert isinstance(event, StartWaveIgnored)
            past = event.wave < wave or event.wave < self._group.states[rank].wave
            if past and record.seq < since:
                continue
            start = _start(event.wave, event.exclude)
            line = f"engine {rank} ignored {start} (#{record.seq}): {event.why}"
            asked, witness = self._asked_by(event.wave, record)
            later = [
                *asked,
                *self._left_out_by(rank, event),
                *self._paused(rank, caller, record),
                *self._resumed(rank, record),
            ]
            short = line
            if record.seq < since and not self._group.states[caller].running:
                # What was ignored would have helped; what is missing now is another one.
                short, duty, add = self._duty(caller)
                later, witness = [*later, *duty], (*witness, *add)
            return short, (line, *later), (*witness, record)
        for record in reversed(wakes.seen):
            seen = record.event
            assert isinstance(seen, StartWaveSeen)
            if seen.wave < wave or seen.exclude == rank:
                continue
            start = _start(seen.wave, seen.exclude)
            if wakes.began is None or wakes.began.seq < record.seq:
                arrived = f"{start} reached engine {rank} (#{record.seq})"
                line = f"{arrived}, {_fate(stuck, rank, seen.wave)}"
                return line, (line,), (record,)
        return "", (), ()

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

    def _paused(self, rank: int, caller: int, ignored: Record) -> tuple[str, ...]:
        """The call that had paused the rank by then, and what became of it at the other one."""
        for record in reversed(self._wakes.of(rank).calls):
            event = record.event
            assert isinstance(event, UtilitySeen)
            if record.seq > ignored.seq or event.method not in PAUSE_METHODS:
                continue
            resumed = self._wakes.of(rank).resumed
            if resumed is not None and record.seq < resumed.seq < ignored.seq:
                return ()
            reply = self._wakes.replies.get(event.call_id)
            answered = "not answered yet" if reply is None else f"answered at #{reply.seq}"
            fan = self._fans.by_call.get(event.call_id)
            taken = self._calls.taken(caller, event.method, fan)
            came = (
                f"{event.method}{of_op(fan)} had come to engine {rank} (#{record.seq}), {answered}"
            )
            return (f"{came}; {taken}",)
        return ()

    def _left_out_by(self, rank: int, event: StartWaveIgnored) -> tuple[str, ...]:
        """Who asked for a wake-up that leaves this rank out."""
        if event.exclude != rank:
            return ()
        for record in reversed(self._wakes.of(rank).asked):
            wave = getattr(record.event, "wave", None)
            if wave == event.wave:
                return (f"engine {rank} had asked for it itself (#{record.seq})",)
        woken = f"a frontend sent a request to engine {rank} and had its peers woken"
        return (f"{woken}: it {self._request(rank)}",)

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
            short = f"engine {engine} asked for wave {wave} (#{record.seq}), and {fate}"
            return short, (line, fate), (record, *witness)
        for record in reversed(handled):
            event = record.event
            if isinstance(event, FirstRequestHandled):
                line = _first_request(record, event)
                return line, (line, f"it never reached engine {rank}"), (record,)
        return self._nobody_asked(rank, caller)

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
            late = " as of a past wave" if wave < event.wave_before else ""
            return f"the coordinator, {state}, sent nothing for it{late} (#{record.seq})", record
        sent = [
            record
            for rank in self._group.states
            for record in self._wakes.of(rank).seen
            if record.seq > asked.seq
        ]
        if sent:
            return f"START_DP_WAVE went out (#{sent[0].seq}), and not to all", sent[0]
        return f"no START_DP_WAVE followed start_wave {wave} of engine {engine}", asked

    def _nobody_asked(
        self, rank: int, caller: int
    ) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        began, by = self.began(caller)
        if self._group.states[caller].running and began is not None:
            if late := self._woken_late(caller, began):
                return late[0], late, (began,)
            woken = any(each.seq < began.seq for each in self._wakes.of(caller).seen)
            missing = f"no START_DP_WAVE came to engine {rank}" if woken else "sent no start_wave"
            line = f"engine {caller} began to run at #{began.seq}{by}, and {missing}"
            return line, (line,), (began,)
        return self._duty(caller)

    def _woken_late(self, caller: int, began: Record) -> tuple[str, ...]:
        """A wake-up of a wave that was over made the rank run, in a line; else nothing."""
        wave = self._group.states[caller].wave
        before = [each for each in self._wakes.of(caller).seen if each.seq < began.seq]
        if not before or not isinstance(event := before[-1].event, StartWaveSeen):
            return ()
        if event.wave >= wave or event.exclude == caller:
            return ()
        return (
            f"engine {caller}, in wave {wave}, began to run (#{began.seq}) by a START_DP_WAVE of"
            f" wave {event.wave} (#{before[-1].seq}), which is over",
        )

    def _duty(self, caller: int) -> tuple[str, tuple[str, ...], tuple[Record, ...]]:
        """Who should have seen to it that the peers of an idle rank with a request wake up."""
        adds = self._wakes.of(caller).adds
        if not adds:
            short = "nobody asked the coordinator to wake it"
            return short, (short,), ()
        add = adds[-1]
        wave = getattr(add.event, "wave", -1)
        got = f"engine {caller} got an ADD of wave {wave} (#{add.seq})"
        if not self._split.engine:
            short, lines = self._frontend(caller, add)
            leaves = "leaves it to the frontend to have its peers woken"
            return short, (f"{got}, and {leaves}", *lines), (add,)
        if self._group.states[caller].pause != UNPAUSED:
            short = f"engine {caller} is paused, and sent no start_wave for its ADD (#{add.seq})"
        else:
            short = f"engine {caller} sent no start_wave for its ADD of wave {wave} (#{add.seq})"
        rule = (
            f"engines of {self._split.releases[0]} have their peers woken themselves, by start_wave"
        )
        return short, (got, rule, short), (add,)

    def _frontend(self, caller: int, add: Record) -> tuple[str, list[str]]:
        """What the frontend did of its part: short, lines."""
        engine, frontend = self._split.releases
        if not self._split.frontend:
            short = (
                f"the frontend ({frontend}) leaves it to the engines to have peers woken, and"
                f" engine {caller} ({engine}) to the frontend"
            )
            return short, [f"a frontend of {frontend} leaves it to the engines"]
        if not self._split.seen:
            return f"no START_DP_WAVE came for the ADD at engine {caller} (#{add.seq})", []
        if not self._wakes.queued:
            short = f"the frontend told its coordinator of no first request (ADD #{add.seq})"
            return short, [short]
        last = self._wakes.queued[-1]
        if last.seq > add.seq:
            short = f"the frontend told its coordinator of a first request (#{last.seq}), in vain"
            return short, [short]
        short = (
            f"the frontend told its coordinator nothing of the ADD at engine {caller}"
            f" (#{add.seq}): it took the engines for running"
        )
        return short, [
            f"the frontend told its coordinator last at #{last.seq}, before that, and took the"
            " engines for running since"
        ]

    def began(self, rank: int) -> tuple[Record | None, str]:
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


def _message(record: Record) -> str:
    event = record.event
    if isinstance(event, StartWaveSeen):
        return _start(event.wave, event.exclude)
    return name_shown(event.method) if isinstance(event, UtilitySeen) else "an ADD"


def _there(*records: Record | None) -> tuple[Record, ...]:
    return tuple(record for record in records if record is not None)


def _fate(stuck: RanksStuck, rank: int, wave: int) -> str:
    """What became of a START_DP_WAVE that arrived at a rank and did not make it run."""
    if start_named(wave) in untaken(stuck, rank):
        return "and lies untaken in its mailbox"
    if gone := dropped(stuck, rank):
        return (
            "and did not make it run; whether it took it is not known: of the messages that it took"
            f" the first {gone} are not kept"
        )
    return "and a rule kept it from its loop"


def _start(wave: int, exclude: int | None) -> str:
    left_out = "" if exclude is None else f", to all but engine {exclude}"
    return f"START_DP_WAVE (wave {wave}{left_out})"


def _wave_of(record: Record) -> int:
    return int(getattr(record.event, "wave_after", -1))


def _coordinator(wave: int, *, running: bool) -> str:
    return f"at wave {wave} {'and' if running else 'with no wave'} running"


def _first_request(record: Record, event: FirstRequestHandled) -> str:
    asked = f"first request of wave {event.request_wave} for engine {event.engine}"
    if event.broadcast_wave is None:
        state = _coordinator(event.wave_before, running=event.running_before)
        return f"the coordinator, {state}, sent nothing for the {asked} (#{record.seq})"
    start = _start(event.broadcast_wave, event.exclude)
    return f"the coordinator sent {start} for the {asked} (#{record.seq})"
