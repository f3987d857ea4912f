"""Which bytes carried which events of a run.

An engine tells what it sends in the moment in which it sends, and what it received before it
handles the next message of that socket; so an event finds its message by the order of both.
"""

from __future__ import annotations

from collections.abc import Sequence

from client.protocol.codec import Codec, CodecError
from client.protocol.messages import (
    READY_GATE,
    Abort,
    Add,
    EngineInput,
    StartDpWave,
    UtilityCall,
)
from client.protocol.profiles import Profile
from client.protocol.transport import Socket, SocketKind
from harness.capture.recording import FROM_ENGINE, TO_ENGINE, Direction, Frame, Passed, Tape
from harness.trace.events import Event, Record
from mock_engines import events as mock

_SENT = (
    mock.OutputSent,
    mock.FinishedOnlySent,
    mock.UtilityReplySent,
    mock.WaveNoticeSent,
    mock.StatsSent,
    mock.RawSent,
)


BYTES_MAX = 64 << 20
"""Bytes of messages that are kept of one run; what comes after belongs to no event."""


class Listening(Tape):
    """Writes messages down, and which event each belongs to.

    ``Tape.tap`` is what a run takes; ``event`` is to be told of every record as it happens.
    """

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        self._room = BYTES_MAX
        self._codec = Codec(profile)
        self._joined: set[int] = set()
        self._startup: dict[int, list[Passed]] = {}
        self._arrived: dict[int, list[Passed]] = {}
        self._leaving: dict[int, list[int]] = {}
        self._of_event: dict[int, list[Passed]] = {}

    def add(
        self, engine: int, socket: Socket, direction: Direction, frames: Sequence[bytes]
    ) -> Passed:
        """Write one message down; one that leaves carries what its engine has just told of."""
        passed = super().add(engine, socket, direction, frames)
        self._room -= sum(map(len, passed.frames))
        if self._room < 0:
            # Nobody looks at so much, and a flood must not be held in memory whole.
            super().remove(passed)
            self._leaving.pop(engine, None)
            return passed
        if direction == FROM_ENGINE and (told := self._leaving.pop(engine, None)):
            for seq in told:
                self._of_event.setdefault(seq, []).append(passed)
        elif engine not in self._joined:
            self._startup.setdefault(engine, []).append(passed)
        elif direction == TO_ENGINE:
            self._arrived.setdefault(engine, []).append(passed)
        return passed

    def remove(self, passed: Passed) -> None:
        """Forget a message that could not be sent."""
        super().remove(passed)
        for found in [*self._of_event.values(), *self._startup.values()]:
            found[:] = [other for other in found if other is not passed]

    def event(self, record: Record) -> None:
        """Take note of an event."""
        event = record.event
        engine = getattr(event, "engine", None)
        if not isinstance(engine, int) or type(event).__module__ != mock.__name__:
            return
        if isinstance(event, _SENT):
            self._leaving.setdefault(engine, []).append(record.seq)
        elif isinstance(event, mock.EngineJoined):
            self._joined.add(engine)
            self._of_event[record.seq] = self._startup.pop(engine, [])
        elif isinstance(event, mock.EngineDied):
            self._joined.discard(engine)
        elif found := self._carrier(event, engine):
            self._of_event[record.seq] = [found]

    def _carrier(self, event: Event, engine: int) -> Passed | None:
        """The message that an event tells of; it counts for no later one."""
        books = self._arrived if engine in self._joined else self._startup
        waiting = books.get(engine, [])
        for place in range(len(waiting) - 1, -1, -1):
            if waiting[place].direction == TO_ENGINE and self._tells(waiting[place], event):
                return waiting.pop(place)
        return None

    def _tells(self, passed: Passed, event: Event) -> bool:
        if isinstance(event, mock.GateOpened):
            return passed.kind is SocketKind.XSUB and passed.frames == (READY_GATE,)
        if isinstance(event, mock.UnknownSeen):
            # One message of a socket is in hand at a time: the latest that nobody told of.
            return True
        message = self._read(passed)
        if isinstance(event, mock.AddSeen):
            return isinstance(message, Add) and message.request.request_id == event.request_id
        if isinstance(event, mock.AbortSeen):
            return isinstance(message, Abort) and tuple(message.request_ids) == event.request_ids
        if isinstance(event, mock.UtilitySeen):
            return isinstance(message, UtilityCall) and message.call_id == event.call_id
        if isinstance(event, mock.StartWaveSeen):
            return isinstance(message, StartDpWave) and message.wave == event.wave
        return False

    def _read(self, passed: Passed) -> EngineInput | None:
        try:
            return self._codec.decode_engine_input(list(passed.frames))
        except CodecError:
            return None

    def told(self) -> tuple[list[Frame], dict[int, list[int]]]:
        """All messages that an event tells of, and for each event their places in the list."""
        frames = dict(zip(map(id, self.passed), self.frames(), strict=True))
        kept: dict[int, int] = {}
        of_event: dict[int, list[int]] = {}
        for seq in sorted(self._of_event):
            for passed in self._of_event[seq]:
                place = kept.setdefault(id(passed), len(kept))
                of_event.setdefault(seq, []).append(place)
        return [frames[key] for key in kept], of_event
