"""A send that is tried again after a while, as if the first one could not have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from client.aio import DeadlineExceeded, with_deadline
from client.components import Components
from client.inner import ClientInner
from client.protocol.ids import Identity
from harness.mutants.base import Mutant

RETRY_S = 0.2


class TriesAgain(ClientInner):
    """Takes a slow send for one that was lost."""

    async def send_to_engine(self, engine: Identity, frames: Sequence[bytes]) -> None:
        """Send one message, once more after ``RETRY_S``. Raises like the right one."""
        try:
            await with_deadline(super().send_to_engine(engine, frames), RETRY_S)
        except DeadlineExceeded:
            await super().send_to_engine(engine, frames)


class SlowSendTriedAgain(Mutant):
    """See the module."""

    id = "slow-send-tried-again"
    family = "streams and aborts"
    title = "a message whose send is slow is sent again"
    bug = "The first one had left: the request runs twice, and its answers mix in one stream."
    source = "protocol page, section 6.2 (a send that was cut short may have left); a seeded fault"
    killed_by = "request.add-once"
    hidden_because = (
        "a real socket takes a message at once, so that the send must be held from inside for "
        "the fault to matter"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=TriesAgain)
