"""Judges a run against a baseline: what is a regression, what is waived, what is stale. Pure.

A regression is what the baseline does not say: a violation without a waiver, a waiver that has
expired, a scenario that was judged and no longer is, a new one that is not judged. Everything
else is told and does not count.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.baseline.model import Baseline, Waiver
from harness.baseline.observed import Observed, scenarios_of
from harness.reports.wording import counted
from harness.verdict import ERROR, HELD, NOT_JUDGED, UNSTABLE, VIOLATED, ExitCode


class Kind(enum.StrEnum):
    """What a finding is."""

    REGRESSION = "regression"
    """A violation without a waiver."""
    EXPIRED = "expired"
    """A violation, or something that could not be judged, whose waiver has expired."""
    BLIND = "blind"
    """A known fault that was not seen, where known faults are allowed."""
    UNSTABLE = "unstable"
    """Repeats differ, and no waived violation explains it."""
    LOST = "lost"
    """A scenario that is pinned as judged, and was not judged or is gone."""
    UNJUDGED = "unjudged"
    """A scenario that the baseline does not know, and that could not be judged."""
    UNPINNED = "unpinned"
    """A release of which the baseline pins nothing, although it pins others."""
    WAIVED = "waived"
    STALE = "stale"
    """A waiver of something that holds, or of a scenario that is gone."""


RED = frozenset(Kind) - {Kind.WAIVED, Kind.STALE}
"""Kinds that make the command end with exit code 1."""


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that a comparison found.

    Attributes:
        scenario: its id, or ``""`` where it is about a whole release.
        invariant: what is violated or waived, or ``""``.
        text: what it is, as one line.
        waiver: number of the waiver in the file, from 0, or ``None``.
    """

    kind: Kind
    scenario: str
    target: str
    release: str
    invariant: str
    text: str
    waiver: int | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run against a baseline.

    Attributes:
        found: in the order of the run, then of the file.
        absent: pinned scenarios that exist and were not part of the run.
        strict: whether what is stale counts.
    """

    found: tuple[Found, ...]
    absent: tuple[str, ...] = ()
    strict: bool = False

    @property
    def red(self) -> tuple[Found, ...]:
        """What makes the command end with exit code 1."""
        return tuple(one for one in self.found if self.counts(one))

    def counts(self, one: Found) -> bool:
        """Whether a finding makes the command end with exit code 1."""
        return one.kind in RED or (self.strict and one.kind is Kind.STALE)

    def of(self, kind: Kind) -> tuple[Found, ...]:
        """Findings of one kind."""
        return tuple(one for one in self.found if one.kind is kind)

    @property
    def words(self) -> str:
        """How many there are of each kind: ``1 regression, 2 waived``."""
        parts = []
        for kind in Kind:
            if number := len(self.of(kind)):
                noun = kind is Kind.REGRESSION
                parts.append(counted(number, "regression") if noun else f"{number} {kind}")
        return ", ".join(parts) or "as the baseline says"

    def exit_code(self, statuses: Iterable[str], *, interrupted: bool = False) -> ExitCode:
        """The exit code of a run whose scenarios have these statuses."""
        seen = set(statuses)
        if interrupted:
            return ExitCode.INTERRUPTED
        if self.red:
            return ExitCode.VIOLATION
        if not seen:
            return ExitCode.USAGE
        if ERROR in seen:
            return ExitCode.HARNESS
        if not seen & {HELD, VIOLATED, UNSTABLE}:
            return ExitCode.NOT_JUDGED
        return ExitCode.OK


class Gate:
    """A baseline on a day."""

    def __init__(self, baseline: Baseline, today: dt.date) -> None:
        self._baseline = baseline
        self._today = today

    # --- one scenario -----------------------------------------------------------------------

    def of(self, one: Observed) -> tuple[Found, ...]:
        """What is to be said of one scenario."""
        found = [self._broken(one, name) for name in one.broken]
        for name in one.blind:
            text = f"known to be violated by {one.release}, and this was not seen"
            found.append(_about(one, Kind.BLIND, name, text))
        if one.status == UNSTABLE and not found:
            found.append(_about(one, Kind.UNSTABLE, "", one.reason or "repeats differ"))
        if one.status == NOT_JUDGED:
            found += self._not_judged(one)
        return tuple(found)

    def _broken(self, one: Observed, name: str) -> Found:
        matching = [
            (number, waiver)
            for number, waiver in enumerate(self._baseline.waivers)
            if (waiver.scenario, waiver.invariant) == (one.scenario, name)
            and waiver.covers(one.target, one.release)
        ]
        if not matching:
            return _about(one, Kind.REGRESSION, name, "violated, and no waiver accepts it")
        # Windows may overlap: the one that lasts longest decides.
        number, waiver = max(matching, key=lambda pair: pair[1].expires)
        if waiver.days_left(self._today) < 0:
            return _about(one, Kind.EXPIRED, name, f"violated; {expired(waiver)}", number)
        return _about(one, Kind.WAIVED, name, waived(waiver, self._today), number)

    def _not_judged(self, one: Observed) -> Iterator[Found]:
        for number, waiver in enumerate(self._baseline.waivers):
            applies = waiver.scenario == one.scenario and waiver.covers(one.target, one.release)
            if applies and waiver.days_left(self._today) < 0:
                text = f"not judged, so it may still be violated; {expired(waiver)}"
                yield _about(one, Kind.EXPIRED, waiver.invariant, text, number)
        pins = [p for p in self._baseline.pins if p.covers(one.target, one.release)]
        if any(one.scenario in pin.judged for pin in pins):
            text = f"the baseline says that it is judged, and it was not: {one.reason}"
            yield _about(one, Kind.LOST, "", text)
        elif pins and not any(one.scenario in pin.not_judged for pin in pins):
            text = f"new, and not judged: {one.reason}"
            yield _about(one, Kind.UNJUDGED, "", text)

    # --- all of it --------------------------------------------------------------------------

    def compare(
        self,
        results: Sequence[Observed],
        *,
        target: str,
        exists: Callable[[str], bool],
        partial: bool = False,
        strict: bool = False,
    ) -> Comparison:
        """Judge a whole run.

        Args:
            results: of all scenarios that were played.
            target: kind of the target.
            exists: whether there is a scenario of a name, although it was not played.
            partial: the run was of a part on purpose, so what it lacks may be there.
            strict: what is stale counts.
        """
        found = [one for result in results for one in self.of(result)]
        found += self._unpinned(results, target)
        lost, absent = self._missing(results, target, exists, partial=partial)
        used = {one.waiver for one in found if one.waiver is not None}
        found += lost
        found += self._stale(results, used, exists, target=target, partial=partial)
        return Comparison(tuple(found), absent, strict)

    def _unpinned(self, results: Sequence[Observed], target: str) -> Iterator[Found]:
        pins = [pin for pin in self._baseline.pins if pin.target == target]
        if not self._baseline.pins:
            return
        for release in dict.fromkeys(one.release for one in results if one.status != ERROR):
            if any(pin.covers(target, release) for pin in pins):
                continue
            windows = ", ".join(
                f"{pin.target} {pin.releases or '(all)'}" for pin in self._baseline.pins
            )
            text = (
                f"the baseline pins nothing for {target} {release}, so lost coverage cannot be "
                f"seen; it pins {windows}: widen `releases`, or write it again"
            )
            yield Found(Kind.UNPINNED, "", target, release, "", text)

    def _missing(
        self,
        results: Sequence[Observed],
        target: str,
        exists: Callable[[str], bool],
        *,
        partial: bool,
    ) -> tuple[list[Found], tuple[str, ...]]:
        """Pinned scenarios that were not played: those that are gone, and the others."""
        played = scenarios_of(results)
        releases = list(dict.fromkeys(one.release for one in results))
        lost: dict[str, Found] = {}
        absent: dict[str, None] = {}
        for pin in self._baseline.pins:
            if not any(pin.covers(target, release) for release in releases):
                continue
            for name in pin.judged:
                if name in played:
                    continue
                if partial or exists(name):
                    absent[name] = None
                else:
                    text = "the baseline says that it is judged, and there is no such scenario"
                    lost[name] = Found(Kind.LOST, name, target, "", "", text)
        return list(lost.values()), tuple(absent)

    def _stale(
        self,
        results: Sequence[Observed],
        used: set[int],
        exists: Callable[[str], bool],
        *,
        target: str,
        partial: bool,
    ) -> Iterator[Found]:
        played = scenarios_of(results)
        for number, waiver in enumerate(self._baseline.waivers):
            if number in used or waiver.target != target:
                continue
            if waiver.scenario not in played:
                if not partial and not exists(waiver.scenario):
                    text = "there is no such scenario; remove the waiver"
                    yield _stale(waiver, number, "", text)
                continue
            about = [
                one
                for one in results
                if one.scenario == waiver.scenario and waiver.covers(one.target, one.release)
            ]
            # What was not judged says nothing of the violation.
            if about and all(one.judged for one in about):
                also = self._twin(waiver, number)
                text = also or "it is not violated any more; remove the waiver"
                yield _stale(waiver, number, about[0].release, text)

    def _twin(self, waiver: Waiver, number: int) -> str:
        """Why a waiver is not needed although the violation is there: another one lasts longer."""
        for other, one in enumerate(self._baseline.waivers):
            same = (one.scenario, one.invariant, one.target) == waiver.key[:3]
            if same and other != number and one.expires >= waiver.expires:
                return "another waiver of the same lasts longer, or it is not violated any more"
        return ""


def meaning(words: str, code: ExitCode) -> str:
    """What an exit code says of a run that was compared; ``""``: what it always says.

    ``words``: those of the comparison.
    """
    if code is ExitCode.OK:
        return f"no regression ({words})"
    return f"not what the baseline says ({words})" if code is ExitCode.VIOLATION else ""


def _about(
    one: Observed, kind: Kind, invariant: str, text: str, waiver: int | None = None
) -> Found:
    return Found(kind, one.scenario, one.target, one.release, invariant, text, waiver)


def _stale(waiver: Waiver, number: int, release: str, text: str) -> Found:
    what = (waiver.scenario, waiver.target, release, waiver.invariant)
    return Found(Kind.STALE, *what, f"{text} (owner {waiver.owner})", number)


def waived(waiver: Waiver, today: dt.date) -> str:
    """Say who accepts a violation, why, and for how long."""
    return f"waived by {waiver.owner}, {left(waiver, today)}: {waiver.reason}"


def expired(waiver: Waiver) -> str:
    """Say since when a waiver is no more, and who to ask."""
    return f"its waiver expired on {waiver.expires}; ask {waiver.owner} ({waiver.reason})"


def left(waiver: Waiver, today: dt.date) -> str:
    """How long a waiver is still valid, in words."""
    days = waiver.days_left(today)
    if days < 0:
        return f"expired on {waiver.expires}"
    if days == 0:
        return f"today is its last day ({waiver.expires})"
    return f"{counted(days, 'day')} left ({waiver.expires})"
