"""A dispatcher that reads the list of finished ids before the outputs."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from client.components import Components
from client.inner import ClientInner
from client.protocol.messages import OutputKind, RequestBatch
from harness.mutants.base import Mutant


class EndsBeforeOutputs(ClientInner):
    """Clears up first."""

    def dispatch(self, kind: OutputKind) -> None:
        """Act on one message: finished ids first, then its outputs."""
        if isinstance(kind, RequestBatch) and kind.finished_requests:
            super().dispatch(msgspec.structs.replace(kind, outputs=(), scheduler_stats=None))
            kind = msgspec.structs.replace(kind, finished_requests=None)
        super().dispatch(kind)


class FinishedIdsBeforeOutputs(Mutant):
    """See the module."""

    id = "finished-ids-before-outputs"
    family = "streams and aborts"
    title = "finished ids are acted on before the outputs of their message"
    bug = "A request whose last output comes with its end fails, although it was answered in full."
    source = "protocol page, section 5.2 (order within one message); a seeded fault"
    killed_by = "answer.failure-has-a-cause"

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the dispatcher."""
        return replace(base, inner=EndsBeforeOutputs)
