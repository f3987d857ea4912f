"""What an invariant is: a named statement that reads the trace and gives a verdict.

One class in one file. The class docstring has four parts that the CLI prints: Statement,
Reason, Source, Limits. A checker takes records as they happen and keeps only its own state.
"""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from harness.scenario.model import Scenario
from harness.trace.events import Event, Record


class Level(enum.Enum):
    """``must``: documented, or agreed upstream. ``should``: what users want."""

    MUST = "must"
    SHOULD = "should"


class Kind(enum.Enum):
    """``ALWAYS`` names the first event at which it broke; ``EVENTUALLY`` is judged at rest."""

    ALWAYS = "always"
    EVENTUALLY = "eventually"


@dataclass(frozen=True, slots=True)
class Violation:
    """Evidence. ``expected`` and ``seen`` have one form, for the eye to compare."""

    message: str
    expected: str
    seen: str
    witness: tuple[int, ...]
    """Trace numbers, in order."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a checker may know beside the trace."""

    scenario: Scenario
    release: Version
    capabilities: frozenset[str]
    ranks: tuple[int, ...]


@dataclass
class Invariant:
    """Base of all invariants.

    Subclasses define ``handles`` (the event types they read), ``on_event``, and where needed
    ``at_end``.

    Attributes:
        exercised: how often the situation that it guards arose.
        violation: the first one, if any.
        unjudged: why it cannot be judged although it was exercised, e.g. healing failed.
    """

    id: ClassVar[str]
    level: ClassVar[Level] = Level.MUST
    kind: ClassVar[Kind] = Kind.ALWAYS
    needs: ClassVar[frozenset[str]] = frozenset({"see.wire"})
    profiles: ClassVar[str] = ""
    """PEP 440 specifier of the releases to which it applies; empty = all."""
    handles: ClassVar[tuple[type, ...]]

    context: RunContext
    exercised: int = 0
    violation: Violation | None = None
    unjudged: str | None = None

    def on_event(self, record: Record) -> None:
        """Take one record whose event type is in ``handles``."""
        raise NotImplementedError

    def at_end(self) -> None:
        """Judge what can only be judged once the trace is complete."""

    def violate(
        self, message: str, *, expected: str, seen: str, witness: Iterable[int | Record]
    ) -> None:
        """Record the first violation; later ones are consequences and dropped."""
        if self.violation is None:
            numbers = sorted({w if isinstance(w, int) else w.seq for w in witness})
            self.violation = Violation(message, expected, seen, tuple(numbers))

    @classmethod
    def applies_to(cls, release: Version) -> bool:
        """Whether the rule is a promise of this release."""
        return not cls.profiles or release in SpecifierSet(cls.profiles)

    @classmethod
    def doc(cls) -> Mapping[str, str]:
        """The docstring's parts: ``statement``, ``reason``, ``source``, ``limits``."""
        text = inspect.getdoc(cls) or ""
        parts = re.split(r"^(Statement|Reason|Source|Limits):\s*", text, flags=re.MULTILINE)
        return {
            name.lower(): " ".join(body.split())
            for name, body in zip(parts[1::2], parts[2::2], strict=True)
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """One invariant's judgement of one run. ``verdict``: held, violated or not_judged."""

    invariant: str
    level: str
    verdict: str
    reason: str
    exercised: int
    message: str = ""
    expected: str = ""
    seen: str = ""
    witness: tuple[int, ...] = field(default=())


class Judge:
    """Feeds records to the invariants that apply and collects their verdicts.

    A checker that raises is a harness fault: the exception propagates.
    """

    def __init__(self, invariants: Iterable[type[Invariant]], context: RunContext) -> None:
        self._context = context
        self._checkers: list[Invariant] = []
        self._skipped: list[Verdict] = []
        self._by_type: dict[type, list[Invariant]] = {}
        for cls in invariants:
            missing = sorted(cls.needs - context.capabilities)
            if not cls.applies_to(context.release):
                reason = f"no promise of {context.release} (applies to {cls.profiles})"
            elif missing:
                reason = f"target lacks {', '.join(missing)}"
            else:
                checker = cls(context)
                self._checkers.append(checker)
                for event_type in cls.handles:
                    self._by_type.setdefault(event_type, []).append(checker)
                continue
            self._skipped.append(Verdict(cls.id, cls.level.value, "not_judged", reason, 0))

    def feed(self, record: Record) -> None:
        """Give one record to every checker that handles its type."""
        for checker in self._by_type.get(type(record.event), ()):
            if checker.violation is None:
                checker.on_event(record)

    def verdicts(self) -> list[Verdict]:
        """Close the trace and judge; sorted by invariant id. Call once."""
        found = list(self._skipped)
        for checker in self._checkers:
            if checker.violation is None:
                checker.at_end()
            found.append(self._judge(checker))
        return sorted(found, key=lambda verdict: verdict.invariant)

    @staticmethod
    def _judge(checker: Invariant) -> Verdict:
        name, level, count = checker.id, checker.level.value, checker.exercised
        if (broken := checker.violation) is not None:
            return Verdict(
                name,
                level,
                "violated",
                "",
                max(count, 1),
                broken.message,
                broken.expected,
                broken.seen,
                broken.witness,
            )
        if checker.unjudged is not None:
            return Verdict(name, level, "not_judged", checker.unjudged, count)
        if count == 0:
            return Verdict(name, level, "not_judged", "never exercised", 0)
        return Verdict(name, level, "held", "", count)


def events_of(records: Iterable[Record]) -> list[Event]:
    """Strip numbers and times, for tests."""
    return [record.event for record in records]
