"""What all invariants say of one run: asked for when it is over, and not twice of the same events.

Invariants are pure: what they say depends on the records and on what the scenario fixes. In a search three
schedules of four are ones whose events, in this order and at these times, were seen before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from harness.invariants.base import Invariant, Judge, RunContext, Verdict
from harness.trace.events import Record
from harness.trace.recorder import digest_of, fingerprint

KNOWN_MAX = 8_192
"""Runs whose verdicts are remembered. A random walk hardly ever repeats one."""


class Said(msgspec.Struct, frozen=True):
    """What there is to say of a whole run. ``digest``: of its events."""

    verdicts: tuple[Verdict, ...]
    digest: int


Known = dict[bytes, Said]
"""By the fingerprint of all records. Of one scenario, release and target only."""


class Judgement:
    """The judges of one run. They take its records when somebody wants to know.

    A checker that raises is a harness fault: the exception propagates.
    """

    def __init__(
        self, invariants: Iterable[type[Invariant]], context: RunContext, known: Known
    ) -> None:
        """Judge nothing yet.

        Args:
            invariants: who judges, if they apply.
            context: the run; its scenario, release and capabilities are those of ``known``.
            known: what was found before; added to.
        """
        self._invariants, self._context, self._known = invariants, context, known
        self._judge: Judge | None = None
        self._taken = 0

    def violated(self, records: Sequence[Record]) -> bool:
        """Whether a ``must`` was seen to break in these first records of the run."""
        return self._after(records).violated

    def cut(self, records: Sequence[Record]) -> tuple[Verdict, ...]:
        """Verdicts of a run that broke off after these records. Call once, and last."""
        return self._after(records).verdicts(cut=True)

    def whole(self, records: Sequence[Record]) -> Said:
        """Judge a whole run. Call once, and last."""
        key = fingerprint(records)
        if key is None:
            return self._said(records)
        found = self._known.get(key)
        if found is None:
            found = self._said(records)
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = found
        return found

    def _said(self, records: Sequence[Record]) -> Said:
        return Said(self._after(records).verdicts(), digest_of(records))

    def _after(self, records: Sequence[Record]) -> Judge:
        if self._judge is None:
            self._judge = Judge(self._invariants, self._context)
        self._judge.feed_all(records[self._taken :])
        self._taken = len(records)
        return self._judge
