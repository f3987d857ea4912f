"""What the busy loop of a rank does next, and what reaches it. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mock_engines.lockstep.collectives import Group
from mock_engines.lockstep.scheduler import Row, Work

COORDINATOR = -1
"""Client index of what goes to the coordinator."""

# --- what reaches a rank --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddInput:
    """ADD, with the wave that the frontend stamped on it."""

    work: Work
    wave: int


@dataclass(frozen=True, slots=True)
class AbortInput:
    """ABORT."""

    request_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartInput:
    """START_DP_WAVE; ``exclude``: index of a rank that need not be woken, ``None`` = nobody."""

    wave: int
    exclude: int | None


@dataclass(frozen=True, slots=True)
class CallInput:
    """UTILITY."""

    client: int
    call_id: int
    method: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ShutdownInput:
    """The process is told to end. ``timeout_s`` 0: at once; else what runs may come to its end."""

    timeout_s: float


Input = AddInput | AbortInput | StartInput | CallInput | ShutdownInput

# --- what a rank sends ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Notice:
    """``complete`` or ``start`` of a wave."""

    kind: str
    wave: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Request counts, with the step and the wave in which they were true."""

    running: int
    waiting: int
    step: int
    wave: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Outputs of one message. ``paused``: refused because the engine is paused, retryable."""

    rows: tuple[Row, ...]
    finished: tuple[str, ...] = ()
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer to a utility call: a value, or the text of a failure."""

    call_id: int
    value: Any = None
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """How far a change of the group is: ``RECONFIGURE_FINISHED`` or ``SHUTDOWN_COMPLETE``."""

    notice: str


Output = Notice | Counts | Rows | Reply | Changed

# --- what the loop does ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Block:
    """Wait for the next input; answered with it."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Take the next input if there is one; answered with it or ``None``."""


@dataclass(frozen=True, slots=True)
class Enter:
    """Meet the other ranks; answered with what all of them get."""

    group: Group
    kind: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Send:
    """Put a message into the output queue. ``client``: whose, or ``COORDINATOR``."""

    client: int
    output: Output


@dataclass(frozen=True, slots=True)
class Ignored:
    """A START_DP_WAVE had no effect, and why; nothing is sent."""

    start: StartInput
    why: str


Effect = Block | Poll | Enter | Send | Ignored
