"""A reader leaves and nobody tells the engine."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.output_stream import OutputStream
from harness.mutants.base import Mutant


class SilentStream(OutputStream):
    """Keeps its end to itself."""

    def on_drop(self) -> None:
        """Ask for no abort."""


class StreamDroppedWithoutAbort(Mutant):
    """See the module."""

    id = "stream-dropped-without-abort"
    family = "streams and aborts"
    title = "a dropped stream sends no ABORT"
    bug = "The engine goes on generating for nobody and holds its cache."
    source = "https://github.com/vllm-project/vllm/issues/9428"
    killed_by = "request.every-add-ends"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the stream."""
        return replace(base, stream=SilentStream)
