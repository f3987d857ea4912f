"""Follows what engines sent as the end of an id, be it out of the blue. Not an invariant."""

from __future__ import annotations

from typing import ClassVar

from harness.invariants._run import EventTypes
from harness.trace.events import Fenced, Record
from mock_engines.events import FinishedOnlySent, OutputSent


class EndBook:
    """Ends by id, and fences, which nothing that was sent before outlives."""

    HANDLES: ClassVar[EventTypes] = (OutputSent, FinishedOnlySent, Fenced)

    def __init__(self) -> None:
        self._ends: dict[str, list[tuple[int, int]]] = {}
        """Event number and sender of each."""
        self._fences: list[int] = []

    def feed(self, record: Record) -> None:
        """Take one record."""
        match record.event:
            case OutputSent() as event:
                if event.finish is not None:
                    self._end(record, event.engine, event.request_id)
            case FinishedOnlySent() as event:
                for name in event.request_ids:
                    self._end(record, event.engine, name)
            case _:
                assert isinstance(record.event, Fenced)
                self._fences.append(record.seq)

    def _end(self, record: Record, engine: int, name: str) -> None:
        self._ends.setdefault(name, []).append((record.seq, engine))

    def fence_after(self, seq: int) -> int | None:
        """Number of the first fence behind event ``seq``."""
        return next((fence for fence in self._fences if fence > seq), None)

    def strays(self, request_id: str, *, engine: int, begun: int, added: int) -> list[int]:
        """Numbers of ends that may have reached a call although its engine did not mean it.

        Engines sent them out of the blue, or for another request of the id: this engine before it
        had the ADD, which is event ``added``, or another one; and no fence was between that and
        the call, which began at event ``begun``. A client looks at the id alone.
        """
        since = max((seq for seq in self._fences if seq < begun), default=-1)
        ends = self._ends.get(request_id, ())
        return [seq for seq, sender in ends if seq > since and (seq < added or sender != engine)]
