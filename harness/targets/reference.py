"""Targets ``sim`` and ``zmq``: the reference client, in simulation and over real sockets."""

from __future__ import annotations

from typing import ClassVar

from client.protocol.profiles import NEWEST, Profile
from harness.play import FenceFilter, FrontendFactory, Setting
from harness.scenario.model import Scenario
from harness.sim.choosing import Chooser
from harness.strategies import make_strategy
from harness.targets.base import Frontend, TargetInfo
from harness.targets.client_frontend import CAPABILITIES, ClientFrontend
from harness.targets.second import with_second
from harness.version import tool_version
from harness.worlds import SimWorld, World, ZmqWorld


class ReferenceTarget:
    """What both worlds share."""

    kind: ClassVar[str]
    title: ClassVar[str]
    deterministic: ClassVar[bool]
    black_box: ClassVar[bool] = False
    extra: ClassVar[frozenset[str]] = frozenset()

    @property
    def info(self) -> TargetInfo:
        """Version of the reference client = version of the tool."""
        return TargetInfo(
            self.kind, tool_version(), CAPABILITIES | self.extra, self.title, (f"up to {NEWEST}",)
        )

    def profile(self, asked: str | None) -> Profile | None:
        """Any profile will do."""
        del asked
        return None

    def capabilities(self, profile: Profile) -> frozenset[str]:
        """The same for every profile."""
        del profile
        return CAPABILITIES | self.extra

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """Nothing beyond capabilities."""
        del scenario, profile
        return None

    def frontend(self) -> FrontendFactory:
        """A client on the world's transport."""
        return make_client_frontend


class SimTarget(ReferenceTarget):
    """Deterministic simulation."""

    kind = "sim"
    title = "reference client in a deterministic simulation"
    deterministic = True
    extra = frozenset({"world.virtual-time", "op.scale"})

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """A simulated world; without a chooser, FIFO."""
        return SimWorld(
            make_strategy("fifo", 0, 0) if chooser is None else chooser,
            record_labels=record_labels,
        )


class ZmqTarget(ReferenceTarget):
    """Real sockets."""

    kind = "zmq"
    title = "reference client over real ZMQ sockets"
    deterministic = False
    extra = frozenset({"op.scale"})

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """A real-time world; choices are the kernel's."""
        del chooser, record_labels
        return ZmqWorld()


def make_client_frontend(setting: Setting) -> Frontend:
    """Build the reference client's frontend for one run, and a second one where there are two."""
    first = ClientFrontend(
        topology=setting.topology,
        profile=setting.profile,
        transport=setting.world.transport,
        components=setting.components,
        observer=FenceFilter(setting.emit),
        emit=setting.emit,
        wait_gate=setting.gates.wait,
    )
    return with_second(setting, first)
