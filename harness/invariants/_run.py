"""What many invariants share: books that follow a run, and its end.

Not an invariant: classes here have no id, so that ``discover`` passes them by.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from client.events import ClientClosed, HealthFailed
from harness.invariants.base import Book, Invariant, RunContext, Taker
from harness.trace.events import (
    Fenced,
    HealthSample,
    LogLine,
    ProcessExited,
    Record,
    RunEnded,
    StepBegan,
)
from mock_engines.events import EngineDied, RawSent

EventTypes = tuple[type, ...]


def event_types(*groups: Iterable[type]) -> EventTypes:
    """Join groups of event types, each type once (a checker is fed once for each entry)."""
    return tuple(dict.fromkeys(cls for group in groups for cls in group))


class FrontendState:
    """How a run stands: whether the frontend can be held to its duties, and whether it is over.

    Attributes:
        failed: it said that it failed, the first time.
        suspect: an engine did what makes a frontend fail closed: sentinel, scripted bytes.
        closing: its shutdown began, or its process ended.
        fenced: the final fence: everything sent has arrived.
        ended: the end of the run.
    """

    HANDLES: ClassVar[EventTypes] = (
        HealthFailed,
        HealthSample,
        EngineDied,
        RawSent,
        ClientClosed,
        ProcessExited,
        StepBegan,
        Fenced,
        RunEnded,
    )

    def __init__(self, *, white: bool) -> None:
        # A white-box frontend says itself when it fails, so that nothing must be suspected.
        self._white = white
        self.failed: Record | None = None
        self.suspect: Record | None = None
        self.closing: Record | None = None
        self.fenced: Record | None = None
        self.ended: Record | None = None

    @property
    def sound(self) -> bool:
        """Nothing speaks against it being up and serving."""
        return self.failed is None and self.suspect is None and self.closing is None

    def feed(self, record: Record) -> None:
        """Take one record."""
        event = record.event
        if (
            event.__class__ is StepBegan
        ):  # most of them, and each class that does not fit takes time
            if event.verb == "shutdown":
                self.closing = self.closing or record
            return
        match event:
            case HealthFailed() | HealthSample(healthy=False):
                self.failed = self.failed or record
            case EngineDied(how="sentinel") | RawSent(path="main" | "coordinator"):
                if not self._white:
                    self.suspect = self.suspect or record
            case ClientClosed() | ProcessExited():
                self.closing = self.closing or record
            case Fenced(phase="end"):
                self.fenced = record
            case RunEnded():
                self.ended = record
            case _:
                pass


def _state_of(context: RunContext) -> FrontendState:
    """The book of the frontend, which nearly every invariant reads; made by the first that asks."""
    white = "see.client-events" in context.capabilities
    state = context.shelf.book(FrontendState, white=white)
    context.shelf.state = state
    return state


class RunInvariant(Invariant):
    """Base of invariants that read a run up to ``RunEnded``.

    Stopping a frontend cancels whatever is open; that is no behaviour to judge, so records
    after ``RunEnded`` are ignored, log lines apart (a log is read with delay).

    Subclasses take their books from ``context.shelf``, name in ``handles`` what ``see`` itself
    reads (never ``RunEnded``), and override ``see`` and, where needed, ``at_rest``.
    """

    def __init__(self, context: RunContext) -> None:
        # Not by way of the base class: made for each schedule, once for each invariant.
        self.context = context
        self.white = "see.client-events" in context.capabilities
        """Whether the target reports the client's own events."""
        self.state = context.shelf.state or _state_of(context)

    @classmethod
    def taker(cls, event_type: type, *, over: bool) -> Taker | None:
        """Most records go to ``see`` at once: that is called for most records of a run."""
        if event_type is RunEnded:
            return None if over or cls.at_rest is RunInvariant.at_rest else cls.on_event
        if event_type not in cls.handles or (over and event_type is not LogLine):
            return None
        return cls.see

    def on_event(self, record: Record) -> None:
        """Take the end of the run; other records go to ``see``."""
        del record
        self.at_rest()

    def see(self, record: Record) -> None:
        """Take one record; the books know it already."""

    def at_rest(self) -> None:
        """Judge what must be true at the end; ``self.ended`` is known."""

    @property
    def fenced(self) -> Record | None:
        """The final fence: everything sent has arrived."""
        return self.state.fenced

    @property
    def ended(self) -> Record | None:
        """The end of the run, known in ``at_rest``."""
        return self.state.ended

    @property
    def open_on_purpose(self) -> frozenset[str]:
        """Ids that the scenario leaves open."""
        return frozenset(self.context.scenario.open_at_end)


__all__ = ["Book", "EventTypes", "FrontendState", "RunInvariant", "event_types"]
