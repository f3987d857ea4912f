"""How a rank takes part in a change of its group's size. Pure.

Theory of operation. The frontend first tells each rank that stays of the size to come
(*prepare*), and has the new ones started; those are at once where the groups change, and wait.
Then it pauses the old ranks and tells them to go on (*commit*), and those that are to leave that
they do. Old and new ranks meet once, in the ``switch``; each goes on with the most of what any
rank of the new group had as running flag, wave and step. A new rank had nothing, so it takes the
others' wave over. Who leaves is done after that meeting.

New ranks heed no START_DP_WAVE before the resume that ends the change, in which all of the new
group meet.

Source: vLLM ``distributed/elastic_ep/elastic_state.py`` and ``v1/engine/core.py``
(``reinitialize_distributed``, ``commit_prepared_elastic_ep``, ``_eep_scale_up_before_kv_init``)
of 0.27 to 0.33; docs/lockstep.md, section Elastic changes.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from client.protocol.ids import LEAVES_GROUP
from mock_engines.lockstep.collectives import Change
from mock_engines.lockstep.effects import Changed

PREPARE_METHOD = "reinitialize_distributed"
COMMIT_METHOD = "commit_prepared_elastic_ep"
METHODS = (PREPARE_METHOD, COMMIT_METHOD)
UNDER_WAY = "a change of the group is under way already"
NOT_PREPARED = "no change of the group is prepared"


class Role(enum.Enum):
    """What a rank is in a change."""

    STAYS = "stays"
    NEW = "new"
    LEAVES = "leaves"


class ElasticError(Exception):
    """The call is answered with this text as its failure."""


@dataclass(slots=True)
class Course:
    """A change that a rank takes part in.

    Attributes:
        size: how many ranks there will be.
        due: the rank is to meet the others now.
    """

    size: int
    part: Role
    due: bool


class Elastic:
    """The change of one rank, if there is one.

    Args:
        rank: its index.
        joins: size of the group that it is started for; ``None`` for a rank that is there from the
            start.
    """

    def __init__(self, rank: int, joins: int | None = None) -> None:
        self._rank = rank
        self.course = None if joins is None else Course(joins, Role.NEW, due=True)

    @property
    def due(self) -> bool:
        """Whether the rank is to meet the others."""
        return self.course is not None and self.course.due

    @property
    def size(self) -> int:
        """How many ranks there will be, while a change is on; else 0."""
        return 0 if self.course is None else self.course.size

    def answer(self, method: str, args: tuple[Any, ...]) -> Any:
        """Answer a call of ``METHODS``. Raises ``ElasticError``."""
        if method == COMMIT_METHOD:
            if self.course is None or self.course.due:
                raise ElasticError(NOT_PREPARED)
            self.course.due = True
            return None
        if self.course is not None:
            raise ElasticError(UNDER_WAY)
        request = args[0] if args else None
        if not isinstance(request, Mapping):
            msg = f"{PREPARE_METHOD} needs a mapping with the new size"
            raise ElasticError(msg)
        leaves = request["new_data_parallel_rank"] == LEAVES_GROUP
        part = Role.LEAVES if leaves else Role.STAYS
        self.course = Course(int(request["new_data_parallel_size"]), part, due=leaves)
        return f"eep_ready/{self._rank}"

    def state(self, *, running: bool, wave: int, step: int) -> Change:
        """What the rank brings to the meeting: nothing, unless it is in both groups."""
        assert self.course is not None
        if self.course.part is Role.STAYS:
            return Change(running, wave, step)
        return Change(False, 0, 0)

    def switched(self) -> tuple[Role, Changed | None]:
        """The meeting is over: what the rank is, and what it tells its frontend."""
        course, self.course = self.course, None
        assert course is not None
        if course.part is Role.LEAVES:
            return course.part, Changed("SHUTDOWN_COMPLETE")
        if course.part is Role.STAYS and self._rank == 0:
            return course.part, Changed("RECONFIGURE_FINISHED")
        return course.part, None
