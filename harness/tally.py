"""What schedules or trials came to so far. Parts of a campaign are put together in its order."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import msgspec

from harness.attempt import Attempt
from harness.results import ExpectationResult, ScenarioResult, VerdictResult
from harness.verdict import NOT_JUDGED, is_worse, merge_expectations, status_of

Wishes = tuple[tuple[str, tuple[str, ...]], ...]


class Part(msgspec.Struct, frozen=True):
    """Some attempts in a row.

    Attributes:
        played: how many.
        wishes: for each violated ``should`` the events that showed it first.
        digests: of each attempt, in order.
    """

    expectations: tuple[ExpectationResult, ...] = ()
    verdicts: tuple[VerdictResult, ...] = ()
    played: int = 0
    wishes: Wishes = ()
    digests: tuple[str, ...] = ()

    @classmethod
    def of(cls, attempt: Attempt) -> Part:
        """One attempt alone."""
        verdicts = attempt.results
        wishes = tuple(
            [(wish.invariant, attempt.event_lines(wish.witness)) for wish in attempt.wished]
        )
        return cls(tuple(attempt.expectations), verdicts, 1, wishes, (attempt.digest,))


class Tally:
    """All attempts so far, merged as they come: a campaign of a million keeps no more than one."""

    def __init__(self) -> None:
        self._expectations: tuple[ExpectationResult, ...] = ()
        self._verdicts: dict[str, VerdictResult] = {}
        self._exercised: dict[str, int] = {}
        """Counted apart: a verdict is made anew only when it gets worse."""
        self._last: tuple[VerdictResult, ...] = ()
        self._again = 0
        self._wishes: dict[str, tuple[str, ...]] = {}
        self._digest = hashlib.sha256()
        self.played = 0

    def add(self, part: Part) -> None:
        """Take the attempts right behind those that are there."""
        if part.expectations:
            self._expectations = merge_expectations((self._expectations, part.expectations))
        if part.verdicts is self._last:
            self._again += 1  # most schedules of a campaign come to the same
        else:
            self._take_last()
            self._last, self._again = part.verdicts, 1
        self.played += part.played
        for name, lines in part.wishes:
            self._wishes.setdefault(name, lines)
        for digest in part.digests:
            self._digest.update(digest.encode())

    def _take_last(self) -> None:
        """Merge the verdicts of the attempts that came last, all alike."""
        kept, exercised = self._verdicts, self._exercised
        for verdict in self._last:
            name = verdict.invariant
            first = kept.get(name)
            if first is None or is_worse(verdict, first):
                kept[name] = verdict
            exercised[name] = exercised.get(name, 0) + self._again * verdict.exercised
        self._last, self._again = (), 0

    def part(self, digests: tuple[str, ...]) -> Part:
        """All of it as one part; the digests of its attempts are kept by whoever needs them."""
        return Part(
            self._expectations, self._merged(), self.played, tuple(self._wishes.items()), digests
        )

    def _merged(self) -> tuple[VerdictResult, ...]:
        """What ``harness.verdict.merge_all`` makes of the verdicts of all attempts."""
        self._take_last()
        return tuple(
            replace(self._verdicts[name], exercised=self._exercised[name])
            for name in sorted(self._verdicts)
        )

    def result(
        self,
        base: ScenarioResult,
        *,
        own_invariants: list[str],
        deterministic: bool,
    ) -> ScenarioResult:
        """The result as far as the attempts decide it.

        Args:
            base: what is known of the scenario without them.
            own_invariants: those that the scenario names.
            deterministic: whether they are schedules, not trials.
        """
        verdicts = self._merged()
        status = status_of(None, self._expectations, verdicts, own_invariants=own_invariants)
        return replace(
            base,
            status=status,
            reason="nothing that it expects was exercised" if status == NOT_JUDGED else None,
            expectations=self._expectations,
            verdicts=verdicts,
            schedules=self.played if deterministic else 0,
            trials=0 if deterministic else self.played,
            digest=self._digest.hexdigest() if deterministic else None,
            should_lines=tuple(self._wishes.items()),
        )
