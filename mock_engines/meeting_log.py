"""What a rank did since all ranks of its group met last, in words: for reports alone. Pure.

Operations are counted, and messages noted as they are; words are made of them when somebody asks.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from client.protocol.shown import name_shown
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
"""Messages of a rank that are kept, the latest; of those before them the number alone."""
NAMED_MAX = 4
"""Requests that an ABORT is told by."""


class MeetingLog:
    """Operations that a rank entered, by kind, and messages that it took, the latest last.

    Attributes:
        entered: kind of operation → how often, in the order in which kinds came up. A forward
            pass without a batch is ``dummy``.
        taken: messages; the oldest of many are dropped.
    """

    __slots__ = ("_number", "entered", "taken")

    def __init__(self) -> None:
        """Begin with nothing."""
        self.entered: dict[str, int] = {}
        self.taken: deque[Input] = deque(maxlen=KEPT)
        self._number = 0

    def enter(self, effect: Enter) -> None:
        """Note an operation."""
        kind = "dummy" if effect is DUMMY else effect.kind
        self.entered[kind] = self.entered.get(kind, 0) + 1

    def take(self, message: Input) -> None:
        """Note a message."""
        self.taken.append(message)
        self._number += 1

    @property
    def dropped(self) -> int:
        """How many messages it took that are not kept; the oldest."""
        return self._number - len(self.taken)

    def did(self) -> tuple[str, ...]:
        """Say what the rank did: operations with their numbers, then the messages in order."""
        operations = (_times(kind, number) for kind, number in self.entered.items())
        return (*operations, *counted([f"took {named(each)}" for each in self.taken]))


def named(message: Input) -> str:
    """A message by its name on the wire and what tells it from others of its kind."""
    match message:
        case AddInput(work):
            return add_named(work.request_id)
        case AbortInput(request_ids):
            return abort_named(request_ids)
        case StartInput(wave):
            return start_named(wave)
        case CallInput(_, call_id, method):
            return call_named(call_id, method)
        case _:
            return "shutdown"


def add_named(request_id: str) -> str:
    """An ADD."""
    return f"ADD {name_shown(request_id)}"


def abort_named(request_ids: Sequence[str]) -> str:
    """An ABORT, by the first of its requests."""
    names = [name_shown(each) for each in request_ids[:NAMED_MAX]]
    if len(request_ids) > NAMED_MAX:
        names.append(f"and {len(request_ids) - NAMED_MAX} more")
    return f"ABORT {' '.join(names)}"


def start_named(wave: int) -> str:
    """A START_DP_WAVE."""
    return f"START_DP_WAVE {wave}"


def call_named(call_id: int, method: str) -> str:
    """A UTILITY."""
    return f"UTILITY {call_id} {name_shown(method)}"


def counted(words: Sequence[str]) -> tuple[str, ...]:
    """Equal neighbours as one, with their number: ``16 START_DP_WAVE 1``."""
    groups = ((word, sum(1 for _ in equal)) for word, equal in itertools.groupby(words))
    return tuple(_times(word, number) for word, number in groups)


def _times(word: str, number: int) -> str:
    return word if number == 1 else f"{number} {word}"
