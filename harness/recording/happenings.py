"""What a recorded session consists of: requests, calls, deaths, in the order of their moments."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from client.protocol.messages import Add, EngineCoreOutput, Init, ReadyResponse
from client.protocol.profiles import Profile

CALL, UTILITY, ABORT, DEATH, END, REPLIED = (
    "call", "utility", "abort", "death", "end", "replied",
)  # fmt: skip


@dataclass(slots=True)
class Request:
    """One request at one engine.

    Attributes:
        name: what it is called in the scenario.
        chunks: how many tokens each row brought.
        end: finish reason, ``None`` while it has none.
        aborted_after: rows that had come when it was aborted, ``None``: it was not.
        said_finished: it was named in ``finished_requests``.
    """

    name: str
    engine: int
    add: Add
    chunks: list[int] = field(default_factory=list)
    end: str | None = None
    stop_reason: int | str | None = None
    last: EngineCoreOutput | None = None
    aborted_after: int | None = None
    said_finished: bool = False

    @property
    def tokens(self) -> int:
        """How many tokens it got."""
        return sum(self.chunks)

    @property
    def over(self) -> bool:
        """Whether its engine has ended it."""
        return self.end is not None or self.said_finished


@dataclass(slots=True)
class Answer:
    """What one engine answered to a call."""

    value: Any = None
    failure: str | None = None


@dataclass(slots=True)
class Call:
    """One utility call at all engines that got it.

    Attributes:
        ids: call id at each engine.
        answers: of each engine that answered.
    """

    name: str
    method: str
    args: tuple[Any, ...]
    client_index: int
    ids: dict[int, int] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether every engine that got it has answered."""
        return set(self.ids) <= set(self.answers)


Moment = tuple[str, Any]
"""One line of the story: a word above, and what it is about."""


@dataclass(slots=True)
class Session:
    """Everything that a scenario can be made of.

    Attributes:
        ranks: of all engines, in order.
        inits: INIT of each engine that got one.
        ready: registration of each engine.
        moments: in the order in which they were seen.
        notes: what was seen and is not in ``moments``.
    """

    profile: Profile
    ranks: list[int] = field(default_factory=list)
    inits: dict[int, Init] = field(default_factory=dict)
    ready: dict[int, ReadyResponse] = field(default_factory=dict)
    coordinator: bool = False
    requests: list[Request] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    clients: set[int] = field(default_factory=set)
