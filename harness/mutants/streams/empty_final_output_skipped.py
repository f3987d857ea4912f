"""A stream that skips outputs without tokens, the last one too."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.protocol.messages import EngineCoreOutput
from client.streams import StreamState
from harness.mutants.base import Mutant


class TokensOnly(StreamState):
    """Nothing to show, nothing to queue."""

    def push(self, output: EngineCoreOutput) -> None:
        """Queue an output if it has tokens."""
        if output.new_token_ids:
            super().push(output)


class EmptyFinalOutputSkipped(Mutant):
    """See the module."""

    id = "empty-final-output-skipped"
    family = "streams and aborts"
    title = "an output without tokens is skipped, even if it is the final one"
    bug = "A request that ends without a further token, as each abort does, hangs for its caller."
    source = (
        "https://github.com/vllm-project/vllm/issues/27572 (streams without an end); a seeded fault"
    )
    killed_by = "request.accepted-ends"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the state of streams."""
        return replace(base, stream_state=TokensOnly)
