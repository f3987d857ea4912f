"""The external coordinator takes a wave for started, and tells no engine."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.external_coordinator import Broadcast, Effect, ExternalCoordinatorState
from client.protocol.messages import EngineCoreOutputs
from harness.mutants.base import Mutant


class PublishesOnly(ExternalCoordinatorState):
    """Tells frontends what engines need to hear."""

    def on_outputs(self, outputs: EngineCoreOutputs) -> list[Effect]:
        """Act on notices, without a broadcast. Raises ``CoordinatorDied``."""
        effects = super().on_outputs(outputs)
        return [effect for effect in effects if not isinstance(effect, Broadcast)]


class ExternalStartWaveNotPassedOn(Mutant):
    """See the module."""

    id = "external-start-wave-not-passed-on"
    family = "external coordinator"
    title = "the external coordinator does not pass an engine's start_wave on"
    bug = "The peers of the engine that began sleep, and it waits for them in a collective."
    source = "https://github.com/vllm-project/vllm/issues/51983; protocol page, section 12"
    killed_by = "wave.engine-start-rebroadcast-once"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the external coordinator's state."""
        return replace(base, external_coordinator=PublishesOnly)
