"""A stream that delivers its last output a second time, as its end."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.protocol.messages import EngineCoreOutput
from client.streams import Item, StreamPhase, StreamState
from harness.mutants.base import Mutant


class EndsWithAnEcho(StreamState):
    """Tells the end by the output that brought it."""

    echoed = False

    def take(self) -> Item:
        """Return the next item; the final output comes twice."""
        item = super().take()
        if (
            isinstance(item, EngineCoreOutput)
            and item.finish_reason is not None
            and not self.echoed
        ):
            self.echoed = True
            self._queue.appendleft(item)
            self.phase = StreamPhase.RUNNING
        return item


class FinalOutputTwice(Mutant):
    """See the module."""

    id = "final-output-twice"
    family = "streams and aborts"
    title = "the final output is delivered twice"
    bug = "The last tokens stand twice in the answer, and the request ends twice for its caller."
    source = "protocol page, section 8.1 (a seeded fault: no release had it)"
    killed_by = "request.no-output-after-end"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the state of streams."""
        return replace(base, stream_state=EndsWithAnEcho)
