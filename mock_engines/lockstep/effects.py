"""What the busy loop of a rank does next, and what reaches it. Pure data."""

from __future__ import annotations

from typing import Any

import msgspec

from mock_engines.lockstep.collectives import Group
from mock_engines.lockstep.scheduler import Row, Work

COORDINATOR = -1
"""Client index of what goes to the coordinator."""

# --- what reaches a rank --------------------------------------------------------------------


class AddInput(msgspec.Struct, frozen=True):
    """ADD, with the wave that the frontend stamped on it."""

    work: Work
    wave: int


class AbortInput(msgspec.Struct, frozen=True):
    """ABORT."""

    request_ids: tuple[str, ...]


class StartInput(msgspec.Struct, frozen=True):
    """START_DP_WAVE; ``exclude``: index of a rank that need not be woken, ``None`` = nobody."""

    wave: int
    exclude: int | None


class CallInput(msgspec.Struct, frozen=True):
    """UTILITY."""

    client: int
    call_id: int
    method: str
    args: tuple[Any, ...] = ()


class ShutdownInput(msgspec.Struct, frozen=True):
    """The process is told to end. ``timeout_s`` 0: at once; else what runs may come to its end."""

    timeout_s: float


Input = AddInput | AbortInput | StartInput | CallInput | ShutdownInput

# --- what a rank sends ----------------------------------------------------------------------


class Notice(msgspec.Struct, frozen=True):
    """``complete`` or ``start`` of a wave."""

    kind: str
    wave: int


class Counts(msgspec.Struct, frozen=True):
    """Request counts, with the step and the wave in which they were true."""

    running: int
    waiting: int
    step: int
    wave: int


class Rows(msgspec.Struct, frozen=True):
    """Outputs of one message. ``paused``: refused because the engine is paused, retryable."""

    rows: tuple[Row, ...]
    finished: tuple[str, ...] = ()
    paused: bool = False


class Reply(msgspec.Struct, frozen=True):
    """Answer to a utility call: a value, or the text of a failure."""

    call_id: int
    value: Any = None
    failure: str | None = None


class Changed(msgspec.Struct, frozen=True):
    """How far a change of the group is: ``RECONFIGURE_FINISHED`` or ``SHUTDOWN_COMPLETE``."""

    notice: str


Output = Notice | Counts | Rows | Reply | Changed

# --- what the loop does ---------------------------------------------------------------------


class Block(msgspec.Struct, frozen=True):
    """Wait for the next input; answered with it."""


class Poll(msgspec.Struct, frozen=True):
    """Take the next input if there is one; answered with it or ``None``."""


POLL = Poll()
"""The one that the loop yields, in each step."""


class Enter(msgspec.Struct, frozen=True):
    """Meet the other ranks; answered with what all of them get."""

    group: Group
    kind: str
    value: Any = None


FORWARD = Enter("device", "forward")
"""The exchange inside a forward pass, dummy or not; the same in each step."""
DUMMY = Enter("device", "forward")
"""Equal to it: ranks meet whether they run a batch or a dummy. Its own object, for reports."""


class Send(msgspec.Struct, frozen=True):
    """Put a message into the output queue. ``client``: whose, or ``COORDINATOR``."""

    client: int
    output: Output


class Ignored(msgspec.Struct, frozen=True):
    """A START_DP_WAVE had no effect, and why; nothing is sent."""

    start: StartInput
    why: str


Effect = Block | Poll | Enter | Send | Ignored
