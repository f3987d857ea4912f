"""A baseline file at work: on the results of one run, as its command tells them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from harness.baseline.file import BaselineFile
from harness.baseline.gate import RED, Comparison, Found, Gate, Kind
from harness.baseline.observed import Observed, observed
from harness.baseline.ruling import Ruling, ruling
from harness.reports.diagnostic import Diagnostic, Excerpt
from harness.reports.wording import counted
from harness.results import ScenarioResult
from harness.scenario.positions import LINE_BREAKS
from harness.scenario.problems import did_you_mean

NAMED_MAX = 3
_TITLES = {
    Kind.REGRESSION: "is violated, and no waiver accepts it",
    Kind.EXPIRED: "has a waiver that has expired",
    Kind.STALE: "has a waiver that it does not need",
    Kind.LOST: "is no longer judged",
    Kind.UNJUDGED: "is new, and was not judged",
    Kind.BLIND: "did not show a known fault",
    Kind.UNSTABLE: "is unstable",
    Kind.WAIVED: "is violated, and waived",
}


class BaselineSession:
    """A baseline on a day, for one target.

    Attributes:
        file: the baseline.
        today: the day, in UTC.
    """

    def __init__(
        self,
        file: BaselineFile,
        today: dt.date,
        *,
        target: str,
        allow_known: bool = False,
        strict: bool = False,
    ) -> None:
        self.file = file
        self.today = today
        self._target = target
        self._allow_known = allow_known
        self._strict = strict
        self._gate = Gate(file.baseline, today)

    def _observed(self, result: ScenarioResult) -> Observed:
        return observed(result, self._target, allow_known=self._allow_known, strict=self._strict)

    def rule(self, result: ScenarioResult) -> Ruling:
        """What the baseline makes of one result."""
        return ruling([(one, one.kind in RED) for one in self._gate.of(self._observed(result))])

    def compare(
        self,
        results: Sequence[ScenarioResult],
        *,
        exists: Callable[[str], bool],
        partial: bool,
    ) -> Comparison:
        """Judge all results."""
        return self.compare_observed(
            [self._observed(result) for result in results], exists=exists, partial=partial
        )

    def compare_observed(
        self, results: Sequence[Observed], *, exists: Callable[[str], bool], partial: bool
    ) -> Comparison:
        """Judge all results, in the form that a baseline needs."""
        return self._gate.compare(
            results, target=self._target, exists=exists, partial=partial, strict=self._strict
        )

    # --- what is told -----------------------------------------------------------------------

    def document(self, comparison: Comparison) -> dict[str, Any]:
        """As JSON: the key ``baseline`` of a run."""
        return {
            "file": str(self.file.path),
            "today": self.today.isoformat(),
            "words": comparison.words,
            "regressions": len(comparison.red),
            "found": [
                {
                    "kind": str(one.kind),
                    "counts": comparison.counts(one),
                    "scenario": one.scenario,
                    "target": one.target,
                    "release": one.release,
                    "invariant": one.invariant,
                    "text": one.text,
                    "line": self.line_of(one),
                }
                for one in comparison.found
            ],
            "absent": list(comparison.absent),
        }

    def line_of(self, one: Found) -> int | None:
        """The line of the baseline file that a finding is about, from 1."""
        return None if one.waiver is None else self.file.place_of(one.waiver).line

    def messages(self, comparison: Comparison, *, all_of: bool = False) -> list[Diagnostic]:
        """What is told behind the results.

        ``all_of``: also what ``wavecheck run`` has told with each scenario.
        """
        told_there = set() if all_of else {Kind.REGRESSION, Kind.WAIVED, Kind.BLIND, Kind.UNSTABLE}
        messages = [
            self._message(one, counts=comparison.counts(one))
            for one in comparison.found
            if one.kind not in told_there
        ]
        if comparison.absent:
            messages.append(_absent(comparison.absent))
        if not self.file.baseline.pins:
            messages.append(
                Diagnostic(
                    "note",
                    "the baseline pins no scenarios, so lost coverage is not seen",
                    where=str(self.file.path),
                    help="wavecheck baseline write RUN.json -o FILE --update",
                )
            )
        return messages

    def _message(self, one: Found, *, counts: bool) -> Diagnostic:
        title = f"{one.scenario} {_TITLES[one.kind]}" if one.scenario else one.text
        where = f"{self.file.path}"
        excerpt = None
        if one.waiver is not None:
            place = self.file.place_of(one.waiver)
            where = f"{where}:{place.line}:{place.column}"
            line = LINE_BREAKS.split(self.file.text)[place.line - 1]
            excerpt = Excerpt(place.line, place.column, line)
        elif one.release:
            where = f"{one.scenario or one.target} ({one.target} {one.release})"
        known = [*(name for pin in self.file.baseline.pins for name in pin.judged)]
        hint = did_you_mean(one.scenario, known) if one.kind is Kind.UNJUDGED else ""
        return Diagnostic(
            str(one.kind) if counts or one.kind is Kind.WAIVED else "note",
            title,
            code=one.invariant,
            where=where,
            excerpt=excerpt,
            seen=one.text if one.scenario else "",
            help=_HELP.get(one.kind, "") or hint,
        )


_HELP = {
    Kind.EXPIRED: "mend it, or let the owner renew `expires` in the file",
    Kind.STALE: "wavecheck baseline prune RUN.json --baseline FILE",
    Kind.LOST: "if that is meant: wavecheck baseline write RUN.json -o FILE --update, or prune",
    Kind.UNJUDGED: "if that is meant: wavecheck baseline write RUN.json -o FILE --update",
}


def _absent(names: Sequence[str]) -> Diagnostic:
    shown = ", ".join(names[:NAMED_MAX]) + (", ..." if len(names) > NAMED_MAX else "")
    title = f"{counted(len(names), 'pinned scenario')} not played, so not compared: {shown}"
    return Diagnostic("note", title)
