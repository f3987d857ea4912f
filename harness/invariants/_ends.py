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
        self._ends: dict[str, list[int]] = {}
        self._fences: list[int] = []

    def feed(self, record: Record) -> None:
        """Take one record."""
        match record.event:
            case OutputSent() as event:
                if event.finish is not None:
                    self._ends.setdefault(event.request_id, []).append(record.seq)
            case FinishedOnlySent() as event:
                for name in event.request_ids:
                    self._ends.setdefault(name, []).append(record.seq)
            case Fenced():
                self._fences.append(record.seq)
            case _:
                pass

    def before(self, request_id: str, *, begun: int, added: int) -> bool:
        """Whether an end of this id may have reached a call ahead of its ADD.

        An engine sent one, out of the blue or for an earlier request of the id, and no fence was
        between that and the call, which began at event ``begun`` and whose ADD is event ``added``.
        """
        since = max((seq for seq in self._fences if seq < begun), default=-1)
        return any(since < seq < added for seq in self._ends.get(request_id, ()))
