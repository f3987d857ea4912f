"""Which events of a run show a violation, as lines for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from client.protocol.codec_values import U64_MAX
from harness.numerals import number_of
from harness.results import ScenarioResult, VerdictResult

LINES_MAX = 30
"""Events of one violation that are shown; the failure file holds all."""


def evidence_of(result: ScenarioResult, verdict: VerdictResult) -> tuple[str, ...]:
    """The lines of the events that a verdict names, or their numbers where they are not there."""
    if (own := dict(result.should_lines).get(verdict.invariant)) is not None:
        return cut(own)
    numbers = [f"#{seq}" for seq in verdict.witness]
    lines = tuple(line for line in result.witness_lines if line.partition(" ")[0] in numbers)
    return cut(lines or tuple(numbers))


def cut(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    if (more := len(lines) - LINES_MAX) > 0:
        return (*lines[:LINES_MAX], f"... and {more} more events, in the failure file")
    return lines


def numbers_of(lines: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the events that these lines show."""
    words = (line.partition(" ")[0] for line in lines)
    found = (number_of(word[1:], U64_MAX) for word in words if word[:1] == "#")
    return tuple(number for number in found if number is not None)
