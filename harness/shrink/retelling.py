"""A result told by the reduced schedule of its failure."""

from __future__ import annotations

from dataclasses import replace

from harness.results import ScenarioResult, VerdictResult
from harness.shrink.schedule import Schedule
from harness.verdict import VIOLATED, merge_all, merge_expectations


def retold(result: ScenarioResult, order: Schedule) -> ScenarioResult:
    """Take words and witnesses of what is violated from the schedule that the failure file has.

    What only the schedule that was found violates stays violated, but without a witness: its
    events are nowhere to be seen. How often something was exercised stays as it was.
    """
    own = {verdict.invariant: verdict for verdict in order.attempt.verdicts}

    def told(verdict: VerdictResult) -> VerdictResult:
        reduced = own.get(verdict.invariant)
        if reduced is not None and reduced.verdict == VIOLATED:
            return replace(reduced, exercised=max(verdict.exercised, reduced.exercised))
        return replace(verdict, witness=()) if verdict.verdict == VIOLATED else verdict

    merged = [told(verdict) for verdict in result.verdicts]
    seen = {verdict.invariant for verdict in merged}
    merged += [verdict for name, verdict in own.items() if name not in seen]
    return replace(
        result,
        verdicts=merge_all([merged]),
        expectations=merge_expectations([order.attempt.expectations, result.expectations]),
        departures=order.lines,
    )
