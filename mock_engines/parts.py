"""The classes that mock engines are built from. A mutant replaces one of them by a subclass."""

from __future__ import annotations

from dataclasses import dataclass

from mock_engines.lockstep.collectives import Collectives
from mock_engines.lockstep.rank import Rank
from mock_engines.lockstep.scheduler import Scheduler
from mock_engines.waves import AutoWaves


@dataclass(frozen=True, slots=True)
class EngineParts:
    """One class for each rule set that a cluster follows.

    Attributes:
        waves: when a wave starts and completes (``waves: auto``).
        rank: the loop of a rank that steps with others (``waves: lockstep``).
        scheduler: its requests.
        collectives: where ranks meet.
    """

    waves: type[AutoWaves] = AutoWaves
    rank: type[Rank] = Rank
    scheduler: type[Scheduler] = Scheduler
    collectives: type[Collectives] = Collectives
