"""A dispatcher that gives an output without owner to whoever had the one before."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.inner import ClientInner
from client.output_stream import OutputChannel
from client.protocol.messages import OutputKind, RequestBatch
from client.requests import Registration
from harness.mutants.base import Mutant


class KeepsTheLastSink(ClientInner):
    """Looks an id up, and goes on with the last one that it found."""

    found: Registration[OutputChannel] | None = None

    def dispatch(self, kind: OutputKind) -> None:
        """Act on one message; strangers' tokens go to the request that was served last."""
        if isinstance(kind, RequestBatch) and self.health_error is None:
            for output in kind.outputs:
                known = self.requests.get(output.request_id)
                if known is None and self.found is not None and self.requests.holds(self.found):
                    self.found.sink.push(output)
                self.found = known or self.found
        super().dispatch(kind)


class StrayOutputToTheLastReader(Mutant):
    """See the module."""

    id = "stray-output-to-the-last-reader"
    family = "streams and aborts"
    title = "an output without owner goes to the request that was served last"
    bug = "Tokens of a request that is over appear in the answer of another one."
    source = "protocol page, section 5.4; a seeded fault of the class of late outputs"
    killed_by = "request.outputs-own-only"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=KeepsTheLastSink)
