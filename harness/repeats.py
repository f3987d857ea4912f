"""Several plays of one scenario on one target as one result. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from harness.results import ScenarioResult
from harness.verdict import (
    ERROR,
    NOT_JUDGED,
    UNSTABLE,
    VIOLATED,
    merge_all,
    merge_expectations,
)

Word = Callable[[ScenarioResult], str]
"""What a play came to: its status, or finer."""

_RANK = {NOT_JUDGED: 0, "held": 1, VIOLATED: 2}


def status_word(result: ScenarioResult) -> str:
    """The status of a play."""
    return result.status


def merge_repeats(plays: Sequence[ScenarioResult], word: Word = status_word) -> ScenarioResult:
    """Merge plays of one scenario in one profile: at least one, in order.

    They differ, and the result is ``unstable``, if their words do; what could not be judged
    through a fault (``error``) is no word of the target. On a target whose schedules are exact,
    they differ if their digests do. Else the status is the one that they share; a play in
    error makes it ``error``, unless a violation was seen: that stands.

    Verdicts are merged as those of schedules are. Failure file and witness come from the first
    violated play.
    """
    if len(plays) == 1:
        return dataclasses.replace(plays[0], repeats=())
    words = tuple(word(play) for play in plays)
    judged = [play for play in plays if play.status != ERROR]
    spoken = [said for said, play in zip(words, plays, strict=True) if play.status != ERROR]
    digests = {play.digest for play in judged if play.digest is not None}
    shown = next(
        (play for play in plays if play.status == VIOLATED),
        next((play for play in plays if play.status == ERROR), plays[0]),
    )
    status, reason = shown.status, shown.reason
    if len(set(spoken)) > 1:
        status, reason = UNSTABLE, f"repeats differ: {tally(words)}"
    elif len(digests) > 1:
        status, reason = UNSTABLE, "repeats differ in their events although the order is fixed"
    return dataclasses.replace(
        shown,
        status=status,
        reason=reason,
        known=tuple(dict.fromkeys(name for play in plays for name in play.known)),
        known_because=plays[0].known_because,
        error=shown.error if status in {ERROR, VIOLATED} else None,
        expectations=merge_expectations(play.expectations for play in plays),
        verdicts=merge_all(play.verdicts for play in plays),
        schedules=sum(play.schedules for play in plays),
        trials=sum(play.trials for play in plays),
        digest=plays[0].digest if len(digests) < 2 else None,
        duration_s=round(sum(play.duration_s for play in plays), 3),
        should_lines=tuple(dict(line for play in plays for line in play.should_lines).items()),
        repeats=words,
    )


def tally(words: Sequence[str]) -> str:
    """How often each word was said, in order of appearance: ``2 held, 1 violated``."""
    counts = {word: words.count(word) for word in dict.fromkeys(words)}
    return ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in counts.items())
