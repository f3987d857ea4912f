"""Utility calls, decided: call ids and waiters, the fan-out, what an engine's reply means.

Theory of operation. A call takes one id and one waiter for each engine, in engine order. A
waiter leaves the registry by exactly one of: its reply, the call's guard, the client's close.
So a reply for an id without waiter is late, double or foreign, and is dropped. The fan-out
collects one outcome for each engine and is settled when *all* of them are there: whoever reads
an error may compensate, since no engine is still at work.

Sources: Rust ``engine-core-client/src/client.rs``, ``client/state.rs``; PR #52671 (wait for all,
guard); protocol page, section 9.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, assert_never

from client.errors import ClientError, UtilityCallFailed, UtilityResultDecode
from client.protocol.ids import CallId
from client.protocol.messages import UtilityOutput
from client.protocol.shown import quoted

T = TypeVar("T")
W = TypeVar("W")

FIRST_CALL_ID = 1
NIL: type[None] = type(None)
"""Result type of methods that answer nil."""


class Limit(enum.Enum):
    """A time limit that is not given as a number."""

    CONFIGURED = "configured"


Timeout = float | None | Limit
"""Seconds; ``None``: no limit; ``CONFIGURED``: whatever the client's configuration says."""
CONFIGURED = Limit.CONFIGURED


class IdList(list[int]):
    """Result type of methods that answer a set of ids: an array of integers, read ascending."""


RESULT_TYPES = (bool, int, float, str, list, NIL, IdList, object)


def check_result_type(result_type: object) -> None:
    """Refuse, before anything is sent, a type that no reply can be checked against.

    Raises:
        TypeError: a mistake of the calling code, e.g. ``list[int]``.
    """
    if not any(result_type is known for known in RESULT_TYPES):
        names = ", ".join(known.__name__ for known in RESULT_TYPES)
        msg = f"result type {result_type!r} is none of {names}"
        raise TypeError(msg)


class UtilityRegistry(Generic[W]):
    """Call id → waiter. Ids count from ``first`` and are never used twice."""

    def __init__(self, first: int = FIRST_CALL_ID) -> None:
        self._next = first
        self._waiters: dict[CallId, W] = {}
        self._closed_by: ClientError | None = None

    def allocate(self, waiter: W) -> CallId:
        """Register a waiter under the next id. Raises the sticky error, once closed."""
        if self._closed_by is not None:
            raise self._closed_by.again()
        call_id = CallId(self._next)
        self._next += 1
        self._waiters[call_id] = waiter
        return call_id

    def resolve(self, call_id: int) -> W | None:
        """Take out the waiter that a reply is for; ``None``: drop the reply."""
        return self._waiters.pop(CallId(call_id), None)

    def release(self, call_id: CallId) -> bool:
        """Remove a waiter without a reply; ``False`` if it is gone already."""
        return self._waiters.pop(call_id, None) is not None

    def pending(self) -> tuple[CallId, ...]:
        """Ids that wait, lowest first."""
        return tuple(sorted(self._waiters))

    def close(self, error: ClientError) -> list[W]:
        """Refuse further calls; return all waiters, oldest first."""
        if self._closed_by is None:
            self._closed_by = error
        waiters = list(self._waiters.values())
        self._waiters.clear()
        return waiters


@dataclass(frozen=True, slots=True)
class Ok(Generic[T]):
    """An engine answered with a value of the right type."""

    value: T


@dataclass(frozen=True, slots=True)
class Failed:
    """What an engine's part of the call came to instead."""

    error: ClientError


class FanOut(Generic[T]):
    """Outcomes of one call, by position in engine order."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = tuple(ranks)
        self._outcomes: dict[int, Ok[T] | Failed] = {}

    def record(self, position: int, outcome: Ok[T] | Failed) -> None:
        """Keep an engine's outcome. Each position settles once."""
        if position in self._outcomes or not 0 <= position < len(self._ranks):
            msg = f"position {position} settles twice or is no engine"
            raise ValueError(msg)
        self._outcomes[position] = outcome

    @property
    def settled(self) -> bool:
        """Whether the call may end: every engine has an outcome."""
        return len(self._outcomes) == len(self._ranks)

    def results(self) -> list[T]:
        """Values in engine order.

        Raises:
            ClientError: the error of the first engine, in engine order, that has one.
        """
        values: list[T] = []
        for position in sorted(self._outcomes):
            match outcome := self._outcomes[position]:
                case Ok(value):
                    values.append(value)
                case Failed(error):
                    raise error
                case _:
                    assert_never(outcome)
        return values

    def describe(self) -> list[tuple[int, str]]:
        """``(rank, how)`` of the engines that have settled, in engine order."""
        told = []
        for position, rank in enumerate(self._ranks):
            match outcome := self._outcomes.get(position):
                case Ok(value):
                    told.append((rank, f"ok {quoted(value)}"))
                case Failed(error):
                    told.append((rank, str(error)))
                case None:
                    pass
                case _:
                    assert_never(outcome)
        return told

    def open_ranks(self) -> list[int]:
        """Ranks without outcome, in engine order."""
        return [rank for at, rank in enumerate(self._ranks) if at not in self._outcomes]


def typed_value(output: UtilityOutput, method: str, result_type: type[T]) -> T:
    """Read one engine's reply as a value of the method's type.

    ``bool``, ``int``, ``float``, ``str``, ``list``, ``NIL`` are exact (a bool is no int, nil is
    no bool, and any value where nil is expected is an error); ``IdList`` wants integers and
    reads them ascending; ``object`` takes everything.

    Raises:
        UtilityCallFailed: there is a failure message; it wins over any value.
        UtilityResultDecode: the value has another type.
    """
    if output.failure_message is not None:
        raise UtilityCallFailed(method, output.call_id, output.failure_message)
    value: Any = output.value
    if result_type is object:
        return value  # type: ignore[no-any-return]
    if result_type is list:
        fits = isinstance(value, list | tuple)
        value = list(value) if fits else value
    elif result_type is IdList:
        fits = isinstance(value, list | tuple) and all(type(each) is int for each in value)
        value = IdList(sorted(value)) if fits else value
    else:
        fits = isinstance(value, result_type)
        fits = fits and not (isinstance(value, bool) and result_type is not bool)
    if not fits:
        wanted = {NIL: "nil", IdList: "list of int"}.get(result_type, result_type.__name__)
        reason = f"expected {wanted}, got {quoted(value)}"
        raise UtilityResultDecode(method, output.call_id, reason)
    return value  # type: ignore[no-any-return]
