"""A stream that hands out the newest output first."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.streams import Item, StreamState
from harness.mutants.base import Mutant


class NewestFirst(StreamState):
    """A stack in the place of the queue."""

    def take(self) -> Item:
        """Return the newest item, the end last."""
        if len(self._queue) > 1:
            at = -1 if not self._complete else -2
            newest = self._queue[at]
            del self._queue[at]
            self._queue.appendleft(newest)
        return super().take()


class NewestOutputFirst(Mutant):
    """See the module."""

    id = "newest-output-first"
    family = "streams and aborts"
    title = "a slow reader gets the newest output first"
    bug = "Tokens change places in the answer of whoever reads slower than the engine sends."
    source = "protocol page, section 8.1 (a seeded fault: no release had it)"
    killed_by = "request.outputs-own-only"
    hidden_because = (
        "whether outputs queue up before their reader takes them is the server's own timing, so a run "
        "from outside may show nothing"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the state of streams."""
        return replace(base, stream_state=NewestFirst)
