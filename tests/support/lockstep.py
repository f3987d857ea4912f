"""Short names for what ranks that step together tell, in hand-written traces."""

from __future__ import annotations

from typing import Any

from harness.invariants.base import Invariant, Verdict
from harness.trace.events import Event, Fenced, Healed, RunEnded
from mock_engines.events import (
    EngineIdle,
    EngineJoined,
    ExchangeHeld,
    RankMoved,
    RanksSpin,
    RanksStuck,
    StatsSent,
    UtilityApplied,
)
from tests.support.traces import judge

Log = tuple[tuple[int, tuple[str, ...], tuple[str, ...]], ...]
TOPOLOGY = {"coordinator": "in-process", "waves": "lockstep"}
IDLE = (EngineIdle(0, ()), EngineIdle(1, ()))
"""A look at two engines that are at rest."""
JOINED = (EngineJoined(0, b"\0\0", True), EngineJoined(1, b"\1\0", True))
REST = (Healed(), *IDLE, Fenced("end"), RunEnded(()))


def verdict(cls: type[Invariant], *events: Event, **parts: Any) -> Verdict:
    """Judge a trace of two engines that step together; the test names its end."""
    topology = {**TOPOLOGY, **parts.pop("topology", {})}
    return judge(cls, *events, topology=topology, **parts)


def moved(engine: int, *, running: bool = False, wave: int = 0, **state: Any) -> RankMoved:
    """The state of a rank; idle, unpaused and awake unless it is said."""
    told = {"pause": "none", "pending_pause": False, "ignores_starts": False, "asleep": ()} | state
    return RankMoved(engine, running, wave, **told)


def born(*ranks: int) -> tuple[RankMoved, ...]:
    """Ranks as they begin."""
    return tuple(moved(rank) for rank in ranks or (0, 1))


def exchange(
    *waves: tuple[int, int, int],
    unfinished: tuple[int, ...] = (),
    pausing: tuple[int, ...] = (),
    goes_on: bool | None = None,
    number: int = 1,
    claimed: tuple[int, ...] | None = None,
) -> ExchangeHeld:
    """An exchange of two ranks, in step 1 of wave 0 unless it is said."""
    places = waves or ((0, 0, 1), (1, 0, 1))
    on = bool(unfinished) or 0 < len(pausing) < len(places) if goes_on is None else goes_on
    claims = unfinished if claimed is None else claimed
    return ExchangeHeld(places[-1][0], number, places, unfinished, pausing, on, claims)


def stuck(
    *entered: tuple[int, str],
    missing: tuple[int, ...] = (1,),
    group: str = "device",
    for_good: bool = False,
    elsewhere: tuple[tuple[int, str, str], ...] = (),
    log: Log = (),
    met: str = "",
    dropped: tuple[tuple[int, int], ...] = (),
) -> RanksStuck:
    """Ranks hang; states are of no account."""
    states = ("engine 0: waits in it", "engine 1: waits for a message")
    rank = entered[0][0]
    return RanksStuck(rank, group, entered, missing, states, for_good, elsewhere, log, met, dropped)


def spin(*pausing: int, log: Log = (), met: str = "") -> RanksSpin:
    """Ranks step without end."""
    return RanksSpin(0, pausing, ("engine 0: runs", "engine 1: runs"), log, met)


def counts(engine: int, running: int = 0, waiting: int = 0) -> StatsSent:
    """A rank publishes its counts."""
    return StatsSent(engine, engine, running, waiting, "coordinator")


def applied(engine: int, call_id: int, method: str) -> UtilityApplied:
    """A call took effect in the loop."""
    return UtilityApplied(engine, call_id, method, "paused=True")
