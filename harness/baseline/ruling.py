"""What a baseline makes of one result, for whoever tells results. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.baseline.gate import Found, Kind
from harness.results import ScenarioResult

WAIVED = "waived"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a baseline makes of one result.

    Attributes:
        fails: whether it ends the command with exit code 1.
        waived: who accepts what is violated, why and how long, if that is all; else ``""``.
        lines: what is found, one line each.
    """

    fails: bool = False
    waived: str = ""
    lines: tuple[str, ...] = ()


Rule = Callable[[ScenarioResult], Ruling]


def ruling(found: Sequence[tuple[Found, bool]]) -> Ruling:
    """Put together what was found of one result, each with whether it counts."""
    lines = tuple(line_of(one) for one, _ in found)
    fails = any(counts for _, counts in found)
    accepted = [one for one, _ in found if one.kind is Kind.WAIVED]
    waived = "; ".join(f"{one.invariant} {one.text}" for one in accepted)
    return Ruling(fails, "" if fails else waived, lines)


def line_of(one: Found) -> str:
    """A finding as one line."""
    code = f"[{one.invariant}]" if one.invariant else ""
    return f"{one.kind}{code}: {one.text}"


def by_result(rulings: Mapping[tuple[str, str], Ruling]) -> Rule:
    """A rule from rulings by scenario and release; others pass."""
    return lambda result: rulings.get((result.scenario, result.profile), Ruling())
