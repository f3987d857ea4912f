"""A reader is not woken when its stream fails."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.errors import ClientError
from client.output_stream import OutputChannel
from harness.mutants.base import Mutant


class SilentFailure(OutputChannel):
    """Leaves the error where the reader will find it."""

    def fail(self, error: ClientError) -> None:
        """End with an error, and wake nobody."""
        self.state.fail(error)


class ReaderNotWokenByAFailure(Mutant):
    """See the module."""

    id = "reader-not-woken-by-a-failure"
    family = "health"
    title = "a failure does not wake who waits for an output"
    bug = "Callers that wait at that moment wait for ever; those that come later see the error."
    source = "https://github.com/vllm-project/vllm/issues/52852 (streams without a last event)"
    killed_by = "health.fails-all-open-work"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the channel of streams."""
        return replace(base, channel=SilentFailure)
