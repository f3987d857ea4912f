"""A failure file of another run of the same failure."""

from __future__ import annotations

from dataclasses import replace

from harness.attempt import Attempt
from harness.failure import EVENTS_MAX, FailureFile
from harness.shrink.promise import Promise
from harness.shrink.schedule import Schedule
from harness.tape import Tape


def filed(
    failure: FailureFile,
    promise: Promise,
    attempt: Attempt,
    *,
    tape: Tape | None,
    order: Schedule | None,
) -> FailureFile:
    """Describe another run that breaks the promise.

    Args:
        failure: what stays as it is: the target and how it was started.
        promise: what breaks, under the name that it has in this run.
        attempt: the run.
        tape: its choices with labels; ``None`` where nobody chooses.
        order: its schedule in words, as far as anybody looked.
    """
    broken = promise.broken_in(attempt)
    assert broken is not None, "a failure file is about a failure"
    stalls = None if order is None else order.stalls
    return replace(
        failure,
        violated=promise.name,
        witness=list(broken.witness),
        digest=attempt.digest,
        tape=None if tape is None else tape.to_json(),
        events=list(attempt.event_lines(tuple(range(len(attempt.played.records)))))[:EVENTS_MAX],
        departures=None if order is None else list(order.lines),
        stalls=None if stalls is None else list(stalls),
        # Of the run that was recorded; this is another one.
        recording=None,
    )
