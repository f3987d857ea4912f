"""The external coordinator counts completions."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from client.components import Components
from client.external_coordinator import Effect, ExternalCoordinatorState
from client.protocol.messages import EngineCoreOutputs
from harness.mutants.base import Mutant


class CountsNotices(ExternalCoordinatorState):
    """One notice, one wave."""

    def on_outputs(self, outputs: EngineCoreOutputs) -> list[Effect]:
        """Act on a wave_complete as if it were of the current wave. Raises ``CoordinatorDied``."""
        if outputs.wave_complete is not None:
            outputs = msgspec.structs.replace(outputs, wave_complete=self.current_wave)
        return super().on_outputs(outputs)


class ExternalCompletionsCounted(Mutant):
    """See the module."""

    id = "external-completions-counted"
    family = "external coordinator"
    title = "the external coordinator advances by one for each wave_complete"
    bug = "A notice that comes twice puts every frontend a wave ahead of the engines."
    source = "protocol page, section 12; a seeded fault"
    killed_by = "wave.complete-advances-once"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=CountsNotices)
