"""A publish of a paused group is read one wave too high."""

from __future__ import annotations

from dataclasses import replace

from client.components import Components
from client.coordinator import ExternalView
from client.protocol.ids import Wave
from client.protocol.messages import CoordinatorPublish
from harness.mutants.base import Mutant


class OneAhead(ExternalView):
    """Takes the wave of a publish for the one that is over."""

    def apply(self, publish: CoordinatorPublish) -> None:
        """Take over a publish; while paused, the next wave is meant."""
        super().apply(publish)
        if not publish.engines_running:
            self.current_wave = Wave(publish.current_wave + 1)


class PublishReadOneWaveAhead(Mutant):
    """See the module."""

    id = "publish-read-one-wave-ahead"
    family = "external coordinator"
    title = "a publish is read one wave too high"
    bug = "The engine that gets the request goes ahead of its peers and ignores their wake-ups."
    source = "protocol page, section 11.2 (off by one between complete and current); a seeded fault"
    killed_by = "wave.add-stamp-not-ahead"
    hidden_because = (
        "our server owns its handshake, so that it never follows an external coordinator; the "
        "coordinator that others are given is a process of its own"
    )

    @classmethod
    def components(cls, base: Components) -> Components:
        """Replace the view of the external coordinator."""
        return replace(base, external_view=OneAhead)
