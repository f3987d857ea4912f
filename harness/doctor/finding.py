"""One thing that was looked at."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class State(enum.StrEnum):
    """What was found."""

    OK = "ok"
    OPTIONAL = "optional"
    """It is not there, and only some uses need it."""
    MISSING = "missing"
    """It is not there, and the target that was asked about needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what; never changed, since it is in the JSON.
        good: whether all is well.
        found: one line on what there is.
        needed: whether the target in question cannot do without.
        used_for: what needs it.
        mend: the command, or the one thing to do, that mends it.
    """

    name: str
    good: bool
    found: str
    needed: bool = True
    used_for: str = ""
    mend: str = ""

    @property
    def state(self) -> State:
        """The word for it."""
        if self.good:
            return State.OK
        return State.MISSING if self.needed else State.OPTIONAL
