"""Target ``vllm-rs`` with ``--attach``: the frontend is somebody else's, the engines are ours."""

from __future__ import annotations

from typing import ClassVar

from client.protocol.profiles import Profile, profile_for
from harness.play import FrontendFactory, Setting
from harness.scenario.model import Scenario
from harness.tape import Chooser
from harness.targets.base import Frontend, TargetInfo
from harness.targets.request import TargetRequest
from harness.targets.second import with_second
from harness.targets.vllm_rs.attach import (
    AttachError,
    Attachment,
    check_files,
    parse_attachment,
)
from harness.targets.vllm_rs.attached import AttachedLife
from harness.targets.vllm_rs.capabilities import LOGGED, capabilities, unsupported
from harness.targets.vllm_rs.frontend import VllmRsFrontend
from harness.targets.vllm_rs.grpc_schema import load_grpc
from harness.targets.vllm_rs.http_wire import load_h11
from harness.targets.vllm_rs.listening import check_listening
from harness.targets.vllm_rs.releases import judged_as, judged_release
from harness.worlds import World, ZmqWorld

NOT_OURS = frozenset(
    {
        *("see.process", "fault.signal", "op.shutdown", "op.connect-error", "op.frontend-args"),
        "fault.starved",
    }
)
"""Needs a process that is ours."""


def attached_capabilities(at: Attachment, release: str) -> frozenset[str]:
    """Return what is left of the capabilities of a release when the frontend is not ours."""
    gone = set(NOT_OURS)
    if at.log is None:
        gone |= LOGGED
    names = capabilities(release)
    if at.grpc is None:
        gone |= {name for name in names if name.startswith(("surface.grpc", "op.grpc"))}
    other = "handshake-owner" if at.transport == "bootstrapped" else "bootstrapped"
    gone.add(f"transport.{other}")
    if at.transport == "handshake-owner":
        gone |= {"coordinator.external", "topology.two-frontends"}
        gone.add("coordinator.none" if at.moe and at.engines != 1 else "coordinator.in-process")
    else:
        gone.add("coordinator.in-process")
        gone.add("coordinator.none" if at.coordinator is not None else "coordinator.external")
    return names - gone


class AttachedTarget:
    """One running frontend; it serves one run, see ``harness.targets.vllm_rs.attached``."""

    kind: ClassVar[str] = "vllm-rs"
    title: ClassVar[str] = "a frontend that somebody else started, as a black box"
    deterministic: ClassVar[bool] = False
    black_box: ClassVar[bool] = True

    def __init__(self, at: Attachment, release: str) -> None:
        """``release``: what it is taken for; decides whose promises are judged."""
        self._at = at
        self._release = judged_release(release)
        self._note = f"the frontend at {at.http} is taken for {self._release}"
        if self._release != release.removeprefix("v"):
            self._note += f"; {judged_as('--as-release', release)}"

    @classmethod
    def open(cls, request: TargetRequest) -> AttachedTarget:
        """Read ``--attach``, and see that somebody is there; nothing is sent yet.

        Raises:
            AttachError: it cannot be read, names a file that is not there, or the release is
                missing (a usage error).
            UnknownFrontendError: the release is none (a usage error).
            TargetError: nobody listens where engines are to join; an extra is not installed.
        """
        load_h11()
        load_grpc()
        at = parse_attachment(request.attach or "")
        if request.profile is None:
            msg = "--attach needs the release of the frontend: --as-release V, such as 0.33.0"
            raise AttachError(msg)
        target = cls(at, request.profile)
        check_files(at)
        check_listening(at)
        return target

    @property
    def info(self) -> TargetInfo:
        """Release as it was given."""
        names = attached_capabilities(self._at, self._release)
        return TargetInfo(self.kind, self._release, names, self.title, (self._note,))

    def profile(self, asked: str | None) -> Profile | None:
        """The release that was given."""
        del asked
        return profile_for(self._release)

    def capabilities(self, profile: Profile) -> frozenset[str]:
        """Without those that need a process of ours."""
        return attached_capabilities(self._at, profile.release)

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """Topologies that the frontend was not started for, and what no release can do."""
        return self._at.mismatch(scenario.topology) or unsupported(scenario, profile.release)

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """Real sockets for the engines."""
        del chooser, record_labels
        return ZmqWorld()

    def frontend(self) -> FrontendFactory:
        """The same frontend for each run: only one that waits for its engines will do."""
        return self._make

    def _make(self, setting: Setting) -> Frontend:
        life = AttachedLife(
            self._at,
            topology=setting.topology,
            profile=setting.profile,
            emit=setting.emit,
            transport=setting.world.transport,
        )
        first = VllmRsFrontend(
            life, topology=setting.topology, profile=setting.profile, wait_at=setting.gates.wait
        )
        return with_second(setting, first)
