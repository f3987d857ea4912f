"""What a rank did since all ranks of its group met last, in words: for reports alone. Pure.

Noted is what the loop does anyway, as it is; words are made of it when somebody asks.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Sequence

from mock_engines.lockstep.effects import (
    DUMMY,
    AbortInput,
    AddInput,
    CallInput,
    Enter,
    Input,
    StartInput,
)

KEPT = 256
"""Operations and messages of a rank that are kept: all between two exchanges, and a call or two."""


class MeetingLog(deque[Enter | Input]):
    """Operations that a rank entered and messages that it took, the latest last."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__(maxlen=KEPT)


def did_of(log: Iterable[Enter | Input]) -> tuple[str, ...]:
    """Say what a rank did, in order; a forward pass without a batch is ``dummy``."""
    return counted(
        [_operation(each) if isinstance(each, Enter) else f"took {named(each)}" for each in log]
    )


def _operation(each: Enter) -> str:
    return "dummy" if each is DUMMY else each.kind


def named(message: Input) -> str:
    """A message by its name on the wire and what tells it from others of its kind."""
    match message:
        case AddInput(work):
            return f"ADD {work.request_id}"
        case AbortInput(request_ids):
            return f"ABORT {' '.join(request_ids)}"
        case StartInput(wave):
            return f"START_DP_WAVE {wave}"
        case CallInput(_, call_id, method):
            return f"UTILITY {call_id} {method}"
        case _:
            return "shutdown"


def counted(words: Sequence[str]) -> tuple[str, ...]:
    """Equal neighbours as one, with their number: ``16 forward``."""
    groups = ((word, sum(1 for _ in equal)) for word, equal in itertools.groupby(words))
    return tuple(word if number == 1 else f"{number} {word}" for word, number in groups)
