"""Target ``vllm-rs``: one released or locally built binary, real sockets, black box."""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import ClassVar

from client.protocol.profiles import Profile, profile_for
from harness.loopback import exposures_of
from harness.play import FrontendFactory, Setting
from harness.reports.visible import printable
from harness.scenario.model import Scenario
from harness.tape import Chooser
from harness.targets.base import Frontend, TargetInfo
from harness.targets.request import TargetRequest
from harness.targets.second import with_second
from harness.targets.vllm_rs.capabilities import (
    capabilities,
    unsupported,
    with_environment,
)
from harness.targets.vllm_rs.fetch import FrontendBinary, resolve
from harness.targets.vllm_rs.frontend import VllmRsFrontend
from harness.targets.vllm_rs.grpc_schema import load_grpc
from harness.targets.vllm_rs.http_wire import load_h11
from harness.targets.vllm_rs.launch import LaunchSpec
from harness.targets.vllm_rs.life import ProcessLife
from harness.targets.vllm_rs.reference import reference_arguments, reference_capabilities
from harness.worlds import World, ZmqWorld


class VllmRsTarget:
    """Fixes the profile to the release of its binary."""

    kind: ClassVar[str] = "vllm-rs"
    title: ClassVar[str] = "the real Rust frontend, as a black box"
    deterministic: ClassVar[bool] = False
    black_box: ClassVar[bool] = True

    def __init__(self, binary: FrontendBinary, request: TargetRequest) -> None:
        """``binary``: from ``harness.targets.vllm_rs.fetch.resolve``."""
        self._binary = binary
        self._request = request

    @classmethod
    def open(cls, request: TargetRequest) -> VllmRsTarget:
        """Resolve ``--frontend`` and ``--profile``; progress of a download goes to stderr.

        Raises:
            UnknownFrontendError: neither a known release nor a file (a usage error).
            TargetError: the binary cannot be had here, or an extra is not installed.
        """
        load_h11()
        load_grpc()
        return cls(resolve(request.frontend, request.profile, _say), request)

    @property
    def info(self) -> TargetInfo:
        """Release of the binary, and how it was told if not certainly."""
        notes = (self._binary.note,) if self._binary.note else ()
        release = self._binary.release
        return TargetInfo(self.kind, release, self._capabilities(release), self.title, notes)

    def profile(self, asked: str | None) -> Profile | None:
        """The release of the binary, whatever was asked for."""
        del asked
        return profile_for(self._binary.release)

    def capabilities(self, profile: Profile) -> frozenset[str]:
        """What the binary of this release can do and show."""
        return self._capabilities(profile.release)

    def _capabilities(self, release: str) -> frozenset[str]:
        if self._binary.reference:
            return reference_capabilities(release)
        return with_environment(capabilities(release), self._request.environment)

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """What no capability names: routes of a release, options that do not exist."""
        return unsupported(scenario, profile.release)

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """Real sockets for the engines; TCP, since the frontend advertises it."""
        del chooser, record_labels
        return ZmqWorld()

    def frontend(self) -> FrontendFactory:
        """A process for each run."""
        return self._make

    def _make(self, setting: Setting) -> Frontend:
        topology, request = setting.topology, self._request
        _tell_exposures((*request.arguments, *topology.frontend_args))
        spec = LaunchSpec(
            binary=self._binary.path,
            release=setting.profile.release,
            topology=topology,
            arguments=(*self._own_arguments(), *request.arguments, *topology.frontend_args),
            shutdown_timeout_s=setting.shutdown_timeout_s,
        )
        life = ProcessLife(
            spec,
            profile=setting.profile,
            emit=setting.emit,
            transport=setting.world.transport,
            environment={**dict(request.environment), **topology.frontend_env},
            # Each line wakes us, and who is woken there takes the CPU.
            log_level="info" if topology.starved else "debug",
        )
        first = VllmRsFrontend(
            life, topology=topology, profile=setting.profile, wait_at=setting.gates.wait
        )
        return with_second(setting, first)

    def _own_arguments(self) -> Sequence[str]:
        """What a reference frontend is told beside the binary's options."""
        if not self._binary.reference:
            return ()
        return reference_arguments(self._binary.release, self._request.mutant)


@functools.cache
def _tell_exposures(arguments: tuple[str, ...]) -> None:
    """Say once where a frontend listens for others, whoever asked for it: a flag or a file."""
    for note in exposures_of(arguments):
        _say(printable(note))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress, not a log
