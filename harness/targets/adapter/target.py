"""Target ``adapter``: a client or frontend of anybody, in any language, behind a line protocol."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from client.protocol.profiles import RELEASES, Profile, profile_for
from harness.play import FrontendFactory, Setting
from harness.scenario.model import Scenario
from harness.sim.choosing import Chooser
from harness.targets.adapter import idle
from harness.targets.adapter.frontend import AdapterFrontend
from harness.targets.adapter.lines import Greeting
from harness.targets.adapter.process import AdapterProcess
from harness.targets.adapter.vocabulary import PROVIDED, WHITE_BOX
from harness.targets.base import Frontend, TargetError, TargetInfo
from harness.targets.request import TargetRequest
from harness.targets.second import with_second
from harness.worlds import World, ZmqWorld

OWN_ADAPTER = (sys.executable, "-m", "harness.adapters.python_client")
"""The shipped adapter, over our own client: what is meant where no adapter is named."""
IMPORT_ROOT = str(Path(__file__).resolve().parents[3])
"""Our own adapter must find the package that we use, however that was found."""


class AdapterTarget:
    """Capabilities, releases and mutants are those that the adapter declares."""

    kind: ClassVar[str] = "adapter"
    title: ClassVar[str] = "any client or frontend, behind a line protocol"
    deterministic: ClassVar[bool] = False

    def __init__(self, recipe: idle.Recipe, greeting: Greeting, mutant: str | None = None) -> None:
        """``greeting``: what a process of ``recipe`` said."""
        self._recipe = recipe
        self._greeting = greeting
        self._mutant = mutant
        self._capabilities = PROVIDED | set(greeting.capabilities)

    @classmethod
    def open(cls, request: TargetRequest) -> AdapterTarget:
        """Start the adapter once, to hear what it can do and show.

        Raises:
            ValueError: the command line is none, or the adapter cannot carry the mutant (usage).
            TargetError: it cannot be started, or its hello is no good.
        """
        recipe = recipe_of(request)
        process, greeting = _take(recipe)
        if greeting.reusable:
            idle.give_back(recipe, process, greeting)
        elif not process.close():
            msg = f"the adapter {greeting.name} did not end when its input did, and was killed"
            raise TargetError(msg)
        if request.mutant is not None and request.mutant not in greeting.mutants:
            known = ", ".join(greeting.mutants) or "none"
            msg = (
                f"the adapter {greeting.name} cannot carry the mutant {request.mutant!r}; it "
                f"declares: {known}"
            )
            raise ValueError(msg)
        return cls(recipe, greeting, request.mutant)

    @property
    def black_box(self) -> bool:
        """Whether the events of its client cannot be seen."""
        return WHITE_BOX not in self._greeting.capabilities

    @property
    def program(self) -> str | None:
        """Whose known faults are expected of it: ``None`` for code that is not vLLM's."""
        return self._greeting.program

    @property
    def info(self) -> TargetInfo:
        """Name and version as the adapter says them."""
        greeting = self._greeting
        version = f"{greeting.name} {greeting.adapter_version}".rstrip()
        return TargetInfo(self.kind, version, self._capabilities, self.title)

    def profile(self, asked: str | None) -> Profile | None:
        """The one asked for, else the newest that the adapter declares; ``None`` if it has all."""
        declared = self._greeting.releases
        if asked is not None:
            return profile_for(asked)
        if declared is None:
            return None
        return profile_for(max(declared, key=RELEASES.index))

    def capabilities(self, profile: Profile) -> frozenset[str]:
        """The same for every release that it speaks."""
        del profile
        return self._capabilities

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """A release that the adapter does not speak."""
        del scenario
        declared = self._greeting.releases
        if declared is None or profile.release in declared:
            return None
        return f"the adapter {self._greeting.name} speaks {', '.join(declared)} only"

    def world(self, chooser: Chooser | None, *, record_labels: bool = False) -> World:
        """Real sockets, of the kind that the adapter likes best."""
        del chooser, record_labels
        return ZmqWorld(self._greeting.schemes[0])

    def frontend(self) -> FrontendFactory:
        """One run of the adapter, in a process that may have served others before."""
        return self._make

    def _make(self, setting: Setting) -> Frontend:
        first = AdapterFrontend(
            recipe=self._recipe,
            greeting=self._greeting,
            mutant=self._mutant,
            topology=setting.topology,
            profile=setting.profile,
            transport=setting.world.transport,
            gates=setting.gates,
            emit=setting.emit,
        )
        return with_second(setting, first)


def _take(recipe: idle.Recipe) -> tuple[AdapterProcess, Greeting]:
    loop = asyncio.SelectorEventLoop()
    task = loop.create_task(idle.take(recipe), name="adapter: hello")
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        raise
    finally:
        loop.close()


def recipe_of(request: TargetRequest) -> idle.Recipe:
    """How the adapter of a request is started; our own one if it names none.

    Raises:
        ValueError: the command line is none, or its program is not there.
    """
    environment = dict(request.environment)
    if request.adapter is None:
        roots = (IMPORT_ROOT, environment.get("PYTHONPATH", os.environ.get("PYTHONPATH")))
        environment["PYTHONPATH"] = os.pathsep.join(root for root in roots if root)
        words = list(OWN_ADAPTER)
    else:
        words = _words(request.adapter)
    return idle.Recipe((*words, *request.arguments), tuple(sorted(environment.items())))


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError as error:
        msg = f"--adapter {line!r} is no command line: {error}"
        raise ValueError(msg) from error
    if not words:
        msg = "--adapter takes the command line that starts an adapter"
        raise ValueError(msg)
    program = shutil.which(words[0])
    if program is None:
        msg = f"--adapter: there is no program {words[0]!r}, or it cannot be executed"
        raise ValueError(msg)
    return [os.path.abspath(program), *words[1:]]
