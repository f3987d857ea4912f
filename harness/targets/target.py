"""What the runner needs of a target: capabilities, a world for each run, a frontend."""

from __future__ import annotations

from typing import ClassVar, Protocol

from client.protocol.profiles import Profile
from harness.play import FrontendFactory
from harness.scenario.model import Scenario
from harness.sim.choosing import Chooser
from harness.targets.base import TargetInfo
from harness.worlds import World


class Target(Protocol):
    """One kind of target, opened for one command."""

    kind: ClassVar[str]
    title: ClassVar[str]
    deterministic: ClassVar[bool]
    """Whether a tape decides the run: schedules, digests and replay mean something."""

    @property
    def black_box(self) -> bool:
        """Whether the frontend's inside cannot be seen."""

    @property
    def info(self) -> TargetInfo:
        """Kind, version and capabilities, for reports."""

    def profile(self, asked: str | None) -> Profile | None:
        """The profile that this target fixes (a real frontend's release), or ``None``."""

    def capabilities(self, profile: Profile) -> frozenset[str]:
        """What it can do and show when it speaks ``profile``."""

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """Why a scenario whose capabilities are there still cannot run, or ``None``."""

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """A fresh world for one run."""

    def frontend(self) -> FrontendFactory:
        """How to make the frontend of one run."""


def part_for(target: Target, scenario: Scenario) -> Target:
    """The part of a target that plays a scenario; most targets are of one piece."""
    choose = getattr(target, "part", None)
    return target if choose is None else choose(scenario)


def program_of(target: Target) -> str | None:
    """Whose releases are judged, as ``known`` names them; ``None``: nothing but our own code."""
    default = target.kind if target.black_box else None
    return getattr(target, "program", default)
