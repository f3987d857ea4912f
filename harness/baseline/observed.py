"""What a run came to, as far as a baseline is about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.results import ScenarioResult
from harness.verdict import (
    ERROR,
    NOT_JUDGED,
    UNSTABLE,
    VIOLATED,
    assess,
    why_not_judged,
)


@dataclass(frozen=True, slots=True)
class Observed:
    """One scenario on one release of a target.

    Attributes:
        broken: what is violated and counts: invariant ids, or ``expectation``.
        blind: what ``known`` predicts and was not seen, where that counts.
        reason: why it was not judged, how it failed, or how repeats differ.
    """

    scenario: str
    target: str
    release: str
    status: str
    broken: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    reason: str = ""

    @property
    def judged(self) -> bool:
        """Whether something was held or violated."""
        return self.status not in {NOT_JUDGED, ERROR}


def observed(result: ScenarioResult, target: str, *, allow_known: bool, strict: bool) -> Observed:
    """Take from a result what a baseline may be about.

    Args:
        result: of one scenario.
        target: kind of the target.
        allow_known: what ``known`` predicts is not broken, and what it predicts in vain counts.
        strict: a violated ``should`` counts.
    """
    found = assess(result)
    broken = [*found.unknown, *(() if allow_known else found.known)]
    if not allow_known:
        # ``known`` may name a ``should``, which counts no more than any other.
        should = {v.invariant for v in result.verdicts if v.level != "must"}
        broken = [name for name in broken if name not in should]
    if strict:
        broken += found.should
    reason = result.error or result.reason or ""
    if result.status == NOT_JUDGED:
        reason = why_not_judged(result)
    return Observed(
        scenario=result.scenario,
        target=target,
        release=result.profile,
        status=result.status,
        broken=tuple(broken) if result.status in {VIOLATED, UNSTABLE} or strict else (),
        blind=found.blind if allow_known else (),
        reason=reason,
    )


def scenarios_of(results: Iterable[Observed]) -> set[str]:
    """Ids of the scenarios that were played."""
    return {one.scenario for one in results}
