"""A finished id without an output closes the registration and forgets the reader."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.output_stream import OutputChannel
from harness.mutants.base import Mutant


class QuietChannel(OutputChannel):
    """Its end without a final output is nobody's business."""

    def close(self) -> None:
        """End, but do not tell the reader."""


class FinishedWithoutOutputHangs(Mutant):
    """See the module."""

    id = "finished-without-output-hangs"
    family = "streams and aborts"
    title = "a request that is finished without a final output never ends"
    bug = "The channel goes without a word, and the caller waits for ever."
    source = "Rust output dispatcher (its safety net); protocol page, section 5.2"
    killed_by = "request.accepted-ends"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the channel of streams."""
        return replace(base, channel=QuietChannel)
