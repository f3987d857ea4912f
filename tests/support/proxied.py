"""Plays a scenario with the proxy of ``wavecheck record`` between frontend and engines."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from client.protocol.profiles import profile_for
from harness.capture.recording import Tape
from harness.play import play
from harness.recording.init_addresses import Addresses
from harness.recording.proxy import Plan, Proxy
from harness.recording.redaction import Redaction
from harness.recording.release import ReleaseGuess
from harness.recording.sink import Sink
from harness.runner import make_spec
from mock_engines.cluster import JoinAddresses


@dataclass
class Through:
    """What came of a run through the proxy.

    ``at_engines``: messages as the engines sent and received them; ``path``: what the proxy wrote.
    """

    played: object
    at_engines: list
    path: object
    proxy: Proxy
    guess: ReleaseGuess

    @property
    def violated(self):
        found = [v.invariant for v in self.played.verdicts if v.verdict == "violated"]
        return found + [
            r for r in self.played.story.results if r.outcome.status not in ("held", "not_judged")
        ]


class Proxied:
    """A frontend whose engines are told the addresses of a proxy."""

    def __init__(self, inner, transport, ranks, sink, listen):
        self._inner = inner
        self._transport = transport
        self._ranks = ranks
        self._sink = sink
        self._listen = listen
        self.addresses = None
        self.proxy = None

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def prepare(self):
        await self._inner.prepare()
        there, transport = self._inner.addresses, self._transport
        lines = []
        if there.handshake is not None:
            plan = Plan(handshake=there.handshake, listen=self._listen(transport))
            self.addresses = JoinAddresses(handshake=plan.listen)
        else:
            up = Addresses(
                (there.input,), (there.output,), there.coordinator_input, there.coordinator_output
            )
            waves = there.coordinator_input is not None
            down = Addresses(
                (transport.endpoint("our-input"),),
                (transport.endpoint("our-output"),),
                transport.endpoint("our-waves") if waves else None,
                transport.endpoint("our-notices") if waves else None,
            )
            plan = Plan(upstream=up, down=down, ranks=self._ranks)
            self.addresses = dataclasses.replace(
                there,
                input=down.inputs[0],
                output=down.outputs[0],
                coordinator_input=down.coordinator_input,
                coordinator_output=down.coordinator_output,
            )
        self.proxy = Proxy(transport, plan, self._sink, lines.append)
        await self.proxy.start()

    async def stop(self):
        try:
            if self.proxy is not None:
                await self.proxy.stop()
        finally:
            await self._inner.stop()


def play_through_proxy(
    scenario, target, release, path, *, redact=False, listen=lambda t: t.endpoint("our-handshake")
):
    """Play on real sockets; what passed the proxy is in the file ``path``."""
    profile = profile_for(release)
    tape, guess = Tape(profile), ReleaseGuess()
    sink = Sink(path, guess, Redaction(guess, b"key") if redact else None)
    spec = make_spec(scenario, target, profile, None)
    made = []

    def frontend(setting):
        inner = spec.make_frontend(setting)
        ranks = setting.topology.rank_list
        made.append(Proxied(inner, setting.world.transport, ranks, sink, listen))
        return made[-1]

    played = play(
        dataclasses.replace(spec, make_frontend=frontend, tap=tape.tap), target.world(None)
    )
    sink.close()
    return Through(played, tape.frames(), path, made[0].proxy, guess)
