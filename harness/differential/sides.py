"""The two sides of the comparison, and how the model's is driven.

An effect is a tuple: ``("block",)``, ``("poll",)``, ``("enter", group, kind, value)``,
``("send", client, what, …)`` or ``("end", why)``; a state is a tuple too. What vLLM leaves to the
order of a set is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from harness.differential.moves import Arrive, Case
from mock_engines.lockstep.collectives import Collectives
from mock_engines.lockstep.effects import (
    AbortInput,
    AddInput,
    Block,
    CallInput,
    Changed,
    Counts,
    Effect,
    Enter,
    Ignored,
    Input,
    Notice,
    Output,
    Poll,
    Reply,
    Rows,
    Send,
    ShutdownInput,
    StartInput,
)
from mock_engines.lockstep.rank import (
    NEEDS_MEMORY,
    NEEDS_PAUSE,
    RESUME_IN_FLIGHT,
    SHUTTING_DOWN,
    Rank,
    Shutdown,
)
from mock_engines.lockstep.rules import LockstepRules
from mock_engines.lockstep.scheduler import Scheduler, Work

STATE_FIELDS = (
    "running", "wave", "step", "pending pause", "ignores starts", "rejects", "pause state",
    "counts", "shutdown", "asleep",
)  # fmt: skip
"""Names of the places of a state."""

SHUTDOWN, BAD_MODE, IN_FLIGHT, NO_METHOD = "shutdown", "bad mode", "in flight", "no method"
NO_PAUSE, NO_MEMORY = "no pause", "no memory"
"""Why calls fail; the texts differ, as vLLM's are its own."""
_FAILURES = (
    (SHUTTING_DOWN, SHUTDOWN),
    ("invalid pause mode", BAD_MODE),
    (RESUME_IN_FLIGHT, IN_FLIGHT),
    (NEEDS_PAUSE, NO_PAUSE),
    (NEEDS_MEMORY, NO_MEMORY),
    ("engine core has no utility method", NO_METHOD),
)

Canonical = tuple[Any, ...]
RankFactory = Callable[..., Rank]
_SHUTDOWN = {Shutdown.NO: 0, Shutdown.ASKED: 1, Shutdown.UNDER_WAY: 2}


class Side(Protocol):
    """One rank of one side."""

    def advance(self, answer: Any) -> Canonical:
        """Answer the last effect, and return the next one."""

    def item(self, arrived: Arrive) -> Any:
        """What the rank takes out of its input queue."""

    def state(self) -> Canonical:
        """What can be seen of it."""

    def close(self) -> None:
        """Give it up."""


class Meeting(Protocol):
    """Where the ranks of one side meet."""

    def enter(self, rank: int, group: str, kind: str, value: Any) -> Mapping[int, Any]:
        """A rank enters an operation; returns what each gets, if it is complete now."""


class ModelMeeting:
    """The model's collectives."""

    def __init__(self, ranks: int) -> None:
        self._collectives = Collectives(range(ranks))

    def enter(self, rank: int, group: Any, kind: str, value: Any) -> Mapping[int, Any]:
        """See ``Meeting``."""
        return self._collectives.enter(rank, group, kind, value)


class ModelRank:
    """One rank of the model."""

    def __init__(
        self, index: int, case: Case, rules: LockstepRules, make: RankFactory = Rank
    ) -> None:
        self._rank = make(
            index,
            rules,
            Scheduler(batch=case.batch, tokens=case.tokens),
            has_coordinator=case.has_coordinator,
            publishes=case.publishes,
        )
        self._loop: Generator[Effect, Any, None] = self._rank.loop()
        self.ignored = 0

    def advance(self, answer: Any) -> Canonical:
        """See ``Side``."""
        try:
            effect = self._loop.send(answer)
            while isinstance(effect, Ignored):
                self.ignored += 1
                effect = self._loop.send(None)
        except StopIteration:
            return ("end", "the loop is over")
        return canonical(effect)

    def item(self, arrived: Arrive) -> Input:
        """See ``Side``."""
        args = arrived.args
        match arrived.what:
            case "add":
                name, delta, tokens, client = args
                return AddInput(Work(name, tokens, client), max(0, self._rank.wave + delta))
            case "abort":
                return AbortInput(args)
            case "start":
                return StartInput(max(0, self._rank.wave + args[0]), args[1])
            case "restart":
                return StartInput(*args)
            case "call":
                return CallInput(*args)
        return ShutdownInput(*args)

    def state(self) -> Canonical:
        """See ``Side``."""
        rank = self._rank
        return (
            rank.running,
            rank.wave,
            rank.step_count,
            rank.pending_pause,
            rank.ignores_starts,
            rank.rejects,
            int(rank.scheduler.pause),
            rank.scheduler.counts,
            _SHUTDOWN[rank.shutdown],
            frozenset(rank.memory.tags),
        )

    def close(self) -> None:
        """See ``Side``."""
        self._loop.close()


def canonical(effect: Effect) -> Canonical:
    """Return an effect of the model as it is compared."""
    match effect:
        case Block():
            return ("block",)
        case Poll():
            return ("poll",)
        case Enter():
            return ("enter", effect.group, effect.kind, effect.value)
        case Send():
            return ("send", effect.client, *_output(effect.output))
    raise TypeError(effect)


def _output(output: Output) -> Canonical:
    match output:
        case Notice():
            return (output.kind, output.wave)
        case Counts():
            return ("counts", output.running, output.waiting, output.step, output.wave)
        case Rows():
            rows = sorted((row.request_id, row.tokens, row.finish) for row in output.rows)
            return ("rows", tuple(rows), tuple(sorted(output.finished)), output.paused)
        case Reply():
            failure = None if output.failure is None else failure_of(output.failure)
            return ("reply", output.call_id, output.value if failure is None else None, failure)
        case Changed():
            return ("changed", output.notice)


def failure_of(text: str) -> str:
    """Return what a failed call of the model means."""
    return next((meaning for part, meaning in _FAILURES if part in text), text)


def rules_for(case: Case, rules: LockstepRules) -> LockstepRules:
    """Return the rules of a release with the settings of a case that it knows."""
    return replace(rules, sync_interval=case.sync_interval) if rules.syncs_first_step else rules
