"""What the parts of vLLM's Python code under test have in common as targets."""

from __future__ import annotations

import abc
from typing import ClassVar

from client.protocol.profiles import Profile, profile_for
from harness.play import FrontendFactory, Setting
from harness.sim.choosing import Chooser
from harness.targets.base import Frontend, TargetInfo
from harness.targets.vllm_py.sources import SourceTree
from harness.worlds import World, ZmqWorld


class SourcesPart(abc.ABC):
    """A part that runs from the sources of one release, over real sockets.

    Attributes:
        title: what is under test, for reports.
        offered: capabilities, the same for every release.
    """

    kind: ClassVar[str] = "vllm-py"
    title: ClassVar[str]
    deterministic: ClassVar[bool] = False
    program: ClassVar[str] = "vllm-py"
    offered: ClassVar[frozenset[str]]

    def __init__(self, tree: SourceTree) -> None:
        """``tree``: from ``harness.targets.vllm_py.sources.resolve``."""
        self._tree = tree

    @property
    def info(self) -> TargetInfo:
        """Release of the sources."""
        notes = (self._tree.note,) if self._tree.note else ()
        return TargetInfo(self.kind, self._tree.release, self.offered, self.title, notes)

    def profile(self, asked: str | None) -> Profile | None:
        """The release of the sources, whatever was asked for."""
        del asked
        return profile_for(self._tree.release)

    def capabilities(self, profile: Profile) -> frozenset[str]:
        """The same for every release."""
        del profile
        return self.offered

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """Real sockets."""
        del chooser, record_labels
        return ZmqWorld()

    def frontend(self) -> FrontendFactory:
        """What is under test, in a process of its own for each run."""
        return self._make

    @abc.abstractmethod
    def _make(self, setting: Setting) -> Frontend:
        """Make it for one run."""
