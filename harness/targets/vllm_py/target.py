"""Target ``vllm-py``: a release's own Python classes, each scenario against one part of them."""

from __future__ import annotations

import sys
from typing import ClassVar

from client.protocol.profiles import Profile, profile_for
from harness.play import FrontendFactory
from harness.scenario.model import Scenario
from harness.sim.choosing import Chooser
from harness.targets.base import TargetError, TargetInfo
from harness.targets.request import TargetRequest
from harness.targets.target import Target
from harness.targets.vllm_py.client_part import ClientPart
from harness.targets.vllm_py.coordinator_part import CoordinatorPart
from harness.targets.vllm_py.sources import SourceTree, resolve
from harness.worlds import World


class VllmPyTarget:
    """Fixes the profile to the release of its sources, and hands each scenario to a part."""

    kind: ClassVar[str] = "vllm-py"
    title: ClassVar[str] = "vLLM's own Python classes of a release, without torch"
    deterministic: ClassVar[bool] = False
    black_box: ClassVar[bool] = True
    program: ClassVar[str] = "vllm-py"

    def __init__(self, tree: SourceTree) -> None:
        """``tree``: from ``harness.targets.vllm_py.sources.resolve``."""
        self._tree = tree
        self._coordinator = CoordinatorPart(tree)
        self._client = ClientPart(tree)

    @classmethod
    def open(cls, request: TargetRequest) -> VllmPyTarget:
        """Resolve ``--frontend`` and ``--profile``; progress of a download goes to stderr.

        Raises:
            UnknownFrontendError: neither a known release nor a folder (a usage error).
            TargetError: the sources cannot be had here.
        """
        return cls(resolve(request.frontend, request.profile, _say))

    @property
    def parts(self) -> tuple[Target, ...]:
        """What there is to play against."""
        return (self._coordinator, self._client)

    def part(self, scenario: Scenario) -> Target:
        """The part that a scenario is about."""
        external = scenario.topology.coordinator == "external"
        return self._coordinator if external else self._client

    @property
    def info(self) -> TargetInfo:
        """Release of the sources; capabilities of all parts together."""
        notes = (self._tree.note,) if self._tree.note else ()
        release = self._tree.release
        return TargetInfo(
            self.kind, release, self.capabilities(profile_for(release)), self.title, notes
        )

    def profile(self, asked: str | None) -> Profile | None:
        """The release of the sources, whatever was asked for."""
        del asked
        return profile_for(self._tree.release)

    def capabilities(self, profile: Profile) -> frozenset[str]:
        """Of all parts together; a scenario is played against one of them."""
        return frozenset().union(*(part.capabilities(profile) for part in self.parts))

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """What the scenario's part says."""
        return self.part(scenario).unsupported(scenario, profile)

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """Real sockets."""
        return self._coordinator.world(chooser, record_labels=record_labels)

    def frontend(self) -> FrontendFactory:
        """Not of the whole: ask a part.

        Raises:
            TargetError: always.
        """
        msg = "vllm-py is played part by part"
        raise TargetError(msg)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress, not a log
