"""What an invariant is: a named statement that reads the trace and gives a verdict.

One class in one file. The class docstring has four parts that the CLI prints: Statement,
Reason, Source, Limits. A checker takes records in their order and keeps only its own state.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, Protocol, TypeVar

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from client.protocol.profiles import Profile, profile_for
from harness.scenario.model import Scenario
from harness.trace.events import Event, Record, RunEnded

if TYPE_CHECKING:
    from harness.invariants._run import FrontendState

Taker = Callable[[Any, Record], None]
"""A method of an invariant or of a book that takes one record."""
P = ParamSpec("P")
T = TypeVar("T")


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


class Book(Protocol):
    """Follows one aspect of a run. Checkers read it; nobody but ``feed`` changes it."""

    HANDLES: ClassVar[tuple[type, ...]]

    def feed(self, record: Record) -> None:
        """Take one record whose event type is in ``HANDLES``."""


B = TypeVar("B", bound=Book)


class Shelf:
    """The books of one run: one of each kind, however many checkers read it.

    Thirty checkers that each kept books of their own took a quarter of a run's time.
    """

    def __init__(self) -> None:
        self._books: dict[Callable[..., Book], Book] = {}
        self.state: FrontendState | None = None
        """The book that nearly every invariant reads, once there is one."""
        self.broken = False
        """Whether an invariant of this run was seen to break."""

    def book(self, kind: Callable[P, B], *args: P.args, **kwargs: P.kwargs) -> B:
        """Return the book of this kind; made of the arguments if it is the first request."""
        found = self._books.get(kind)
        if found is None:
            found = self._books[kind] = kind(*args, **kwargs)
        return found  # type: ignore[return-value]  # it was made by ``kind``

    @property
    def books(self) -> tuple[Book, ...]:
        """All books, in the order in which they were asked for."""
        return tuple(self._books.values())

    def clear(self) -> None:
        """Let go of the books, some of which refer to this shelf through their context."""
        self._books.clear()
        self.state = None


class RunContext(msgspec.Struct, frozen=True):
    """What a checker may know beside the trace."""

    scenario: Scenario
    release: Version
    capabilities: frozenset[str]
    ranks: tuple[int, ...]
    shelf: Shelf = msgspec.field(default_factory=Shelf)
    """Fed by the judge, before its checkers, up to ``RunEnded``."""
    kept: dict[Callable[..., Any], Any] = msgspec.field(default_factory=dict)
    """What ``once`` found; the same for all runs of a campaign."""

    def once(self, find: Callable[[RunContext], T]) -> T:
        """Return what ``find`` makes of what is known before a run, found in the first run only.

        ``find`` looks at nothing that a run changes, and nobody changes what it returns.
        """
        if find not in self.kept:
            self.kept[find] = find(self)
        return self.kept[find]  # type: ignore[no-any-return]  # it was made by ``find``

    @property
    def profile(self) -> Profile:
        """The release as a profile."""
        return self.once(_profile_of)


def _profile_of(context: RunContext) -> Profile:
    return profile_for(str(context.release))


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
    for_waves: ClassVar[str] = ""
    """``topology.waves`` of the scenarios to which it applies; empty = all."""
    handles: ClassVar[tuple[type, ...]]

    exercised: int = 0
    violation: Violation | None = None
    unjudged: str | None = None

    def __init__(self, context: RunContext) -> None:
        self.context = context

    def on_event(self, record: Record) -> None:
        """Take one record whose event type is in ``handles``."""
        raise NotImplementedError

    @classmethod
    def taker(cls, event_type: type, *, over: bool) -> Taker | None:
        """Its method that takes records of this type, if any; ``over``: the run has ended."""
        del over
        return cls.on_event if event_type in cls.handles else None

    def at_end(self) -> None:
        """Judge what can only be judged once the trace is complete."""

    def violate(
        self, message: str, *, expected: str, seen: str, witness: Iterable[int | Record]
    ) -> None:
        """Record the first violation; later ones are consequences and dropped."""
        if self.violation is None:
            self.context.shelf.broken = True
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


class Verdict(msgspec.Struct, frozen=True, cache_hash=True):
    """One invariant's judgement of one run. ``verdict``: held, violated or not_judged."""

    invariant: str
    level: str
    verdict: str
    reason: str
    exercised: int
    message: str = ""
    expected: str = ""
    seen: str = ""
    witness: tuple[int, ...] = ()


PLAIN_MAX = 256
"""Combinations of verdicts that are kept for a release and a target."""
_BY_NAME = operator.attrgetter("invariant")

Route = tuple[tuple[int, Taker], ...]
"""Where the records of one event type go: to some books, then to some checkers, each by its place
among all of a run."""


@dataclass(frozen=True, slots=True)
class Bench:
    """Which invariants judge a release on a target, and who takes what: the same in every run.

    Attributes:
        levels: those of the judging, as text (an enum's ``value`` is a call into Python).
        skipped: verdicts of those that do not judge.
    """

    judging: tuple[type[Invariant], ...]
    levels: tuple[str, ...]
    skipped: tuple[Verdict, ...]
    closing: tuple[int, ...]
    """Places of those of the judging that have something to say at the end of the trace."""
    plain: dict[tuple[tuple[int, str | None], ...], tuple[Verdict, ...]] = field(
        default_factory=dict
    )
    """Verdicts of runs without a violation, by occurrences and reasons of those of the judging:
    in a campaign most runs are alike in these."""
    _routes: dict[tuple[tuple[type[Book], ...], bool], dict[type, Route]] = field(
        default_factory=dict
    )

    def routes(self, books: tuple[type[Book], ...], *, over: bool) -> dict[type, Route]:
        """The routes found so far, for runs that keep these books."""
        return self._routes.setdefault((books, over), {})

    def route(self, books: tuple[type[Book], ...], kind: type, *, over: bool) -> Route:
        """Find where records of an event type go, before or after the end of a run."""
        takers: list[Taker | None] = [
            book.feed if not over and kind in book.HANDLES else None for book in books
        ]
        takers += [cls.taker(kind, over=over) for cls in self.judging]
        return tuple((place, take) for place, take in enumerate(takers) if take is not None)


@functools.lru_cache(maxsize=64)
def bench_for(
    invariants: tuple[type[Invariant], ...],
    release: Version,
    capabilities: frozenset[str],
    waves: str,
) -> Bench:
    """Choose who judges. Cached: comparing versions and capabilities is slow."""
    judging: list[type[Invariant]] = []
    skipped: list[Verdict] = []
    for cls in invariants:
        missing = sorted(cls.needs - capabilities)
        if not cls.applies_to(release):
            reason = f"no promise of {release} (applies to {cls.profiles})"
        elif missing:
            reason = f"target lacks {', '.join(missing)}"
        elif cls.for_waves and cls.for_waves != waves:
            reason = f"only for engines with waves: {cls.for_waves}"
        else:
            judging.append(cls)
            continue
        skipped.append(Verdict(cls.id, cls.level.value, "not_judged", reason, 0))
    levels = tuple(cls.level.value for cls in judging)
    closing = tuple(n for n, cls in enumerate(judging) if cls.at_end is not Invariant.at_end)
    return Bench(tuple(judging), levels, tuple(skipped), closing)


class Judge:
    """Feeds records to the invariants that apply and collects their verdicts.

    A checker that raises is a harness fault: the exception propagates.
    """

    def __init__(self, invariants: Iterable[type[Invariant]], context: RunContext) -> None:
        # A shelf of its own: one that is fed by two judges would count everything twice.
        self._shelf = Shelf()
        context = RunContext(
            context.scenario,
            context.release,
            context.capabilities,
            context.ranks,
            self._shelf,
            context.kept,
        )
        waves = context.scenario.topology.waves
        self._bench = bench_for(tuple(invariants), context.release, context.capabilities, waves)
        self._checkers = [cls(context) for cls in self._bench.judging]
        books = self._shelf.books
        self._readers: tuple[Book | Invariant, ...] = (*books, *self._checkers)
        self._kinds = tuple([book.__class__ for book in books])
        self._over = False
        self._routes = self._bench.routes(self._kinds, over=False)

    def feed(self, record: Record) -> None:
        """Give one record to the books, then to every checker that reads its type."""
        kind = record.event.__class__
        route = self._routes.get(kind)
        if route is None:
            route = self._bench.route(self._kinds, kind, over=self._over)
            self._routes[kind] = route
        readers = self._readers
        if not self._shelf.broken:  # nearly always: then nobody is asked whether he still judges
            for place, take in route:
                take(readers[place], record)
        else:
            for place, take in route:
                reader = readers[place]
                if getattr(reader, "violation", None) is None:  # a book has none
                    take(reader, record)
        if kind is RunEnded:
            self._over = True
            self._routes = self._bench.routes(self._kinds, over=True)

    def feed_all(self, records: Iterable[Record]) -> None:
        """Give records in order, as ``feed`` does one by one."""
        routes, readers, shelf = self._routes, self._readers, self._shelf
        for record in records:
            kind = record.event.__class__
            route = routes.get(kind)
            if route is None or shelf.broken or kind is RunEnded:
                self.feed(record)
                routes = self._routes
            else:
                for place, take in route:
                    take(readers[place], record)

    @property
    def violated(self) -> bool:
        """Whether a ``must`` was seen to break so far."""
        if not self._shelf.broken:
            return False
        broken = [checker for checker in self._checkers if checker.violation is not None]
        return any(checker.level is Level.MUST for checker in broken)

    def verdicts(self, *, cut: bool = False) -> tuple[Verdict, ...]:
        """Close the trace and judge; sorted by invariant id. Call once.

        ``cut``: the run broke off, so that only what was seen to break by then is judged.
        """
        for place in self._bench.closing:
            checker = self._checkers[place]
            if checker.violation is None and not cut:
                checker.at_end()
        if cut:
            for checker in self._checkers:
                if checker.violation is None:
                    checker.unjudged = "the run broke off"
        self._shelf.clear()
        key = None
        if not self._shelf.broken:
            key = tuple([(checker.exercised, checker.unjudged) for checker in self._checkers])
            if (same := self._bench.plain.get(key)) is not None:
                return same
        found = [*self._bench.skipped, *map(self._judge, self._checkers, self._bench.levels)]
        verdicts = tuple(sorted(found, key=_BY_NAME))
        if key is not None:
            if len(self._bench.plain) >= PLAIN_MAX:
                self._bench.plain.clear()
            self._bench.plain[key] = verdicts
        return verdicts

    @staticmethod
    def _judge(checker: Invariant, level: str) -> Verdict:
        name, count = checker.id, checker.exercised
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
