"""vLLM's coordinator under test; the reference client stands for the frontends round it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from client.events import ClientEvent, CoordinatorStateApplied
from client.protocol.profiles import Profile
from harness.play import FenceFilter, Setting
from harness.scenario.model import EngineStep, Expect, Scenario, Step
from harness.targets.base import Emit, Frontend
from harness.targets.client_frontend import ClientFrontend
from harness.targets.coordinator_handle import CoordinatorHandle
from harness.targets.vllm_py.coordinator import VllmCoordinator
from harness.targets.vllm_py.part import SourcesPart
from harness.targets.vllm_py.sources import SourceTree
from mock_engines.behaviours.model import Action

CAPABILITIES = frozenset(
    {
        "op.generate", "op.cancel", "op.drop", "op.abort", "op.rank", "surface.native",
        "see.wire", "see.results", "see.health", "see.health-error", "see.coordinator",
        "see.client-events", "see.failure", "see.publishes", "see.log", "see.coordinator-log",
        "coordinator.external", "transport.bootstrapped",
        "fault.link", "fault.engine-vanish", "fault.engine-stall", "fault.engine-rejoin",
    }
)  # fmt: skip
"""Of the part as a whole; what callers do is done by the reference client."""
CHAPTERS = ("wave",)
"""Invariants that judge a coordinator; the others would judge the reference client."""
_OWN_EVENTS = frozenset({"start_wave", "first-request", "wave-notice", "published", "ready_gate"})
_NOTICES = frozenset({"wave_complete", "start_wave", "flood"})


class CoordinatorFrontend(ClientFrontend):
    """The reference client, with vLLM's coordinator in the place of the reference one."""

    def __init__(self, tree: SourceTree, setting: Setting) -> None:
        """``tree``: sources of the coordinator."""
        told = FenceFilter(setting.emit)

        def observer(event: ClientEvent) -> None:
            applied = isinstance(event, CoordinatorStateApplied)
            if applied and self._process is not None and self._process.client_applied():
                return
            told(event)

        super().__init__(
            topology=setting.topology,
            profile=setting.profile,
            transport=setting.world.transport,
            components=setting.components,
            observer=observer,
            emit=setting.emit,
            wait_gate=setting.gates.wait,
        )
        self._tree = tree
        self._told: Emit = setting.emit
        self._process: VllmCoordinator | None = None

    def _make_coordinator(self) -> CoordinatorHandle:
        self._process = VllmCoordinator(
            tree=self._tree,
            profile=self._profile,
            engine_count=len(self._topology.rank_list),
            front_address=self._plain.endpoint("coordinator-front"),
            back_input_address=self._plain.endpoint("coordinator-input"),
            back_output_address=self._plain.endpoint("coordinator-output"),
            observer=self._observer,
            emit=self._told,
        )
        return self._process


class CoordinatorPart(SourcesPart):
    """Plays scenarios with an external coordinator."""

    title: ClassVar[str] = "vLLM's Python coordinator, with the reference client round it"
    black_box: ClassVar[bool] = False
    offered: ClassVar[frozenset[str]] = CAPABILITIES
    chapters: ClassVar[tuple[str, ...]] = CHAPTERS

    def unsupported(self, scenario: Scenario, profile: Profile) -> str | None:
        """A scenario in which the coordinator has nothing to do would judge the client only."""
        del profile
        if scenario.topology.waves == "auto" or any(_reaches_coordinator(scenario)):
            return None
        return "the coordinator has nothing to do in it: its publishes are scripted"

    def _make(self, setting: Setting) -> Frontend:
        return CoordinatorFrontend(self._tree, setting)


def _reaches_coordinator(scenario: Scenario) -> Iterator[bool]:
    """Whether something is told to the coordinator, or asked of it, that it answers itself."""
    for spec in scenario.engines:
        for rule in spec.rules:
            yield any(map(_is_for_coordinator, rule.do))
    for step in scenario.steps:
        yield _step_reaches(step)


def _step_reaches(step: Step) -> bool:
    if step.engine is not None:
        return _engine_step_reaches(step.engine)
    if step.coordinator is not None:
        return step.coordinator.stop or step.coordinator.start
    if step.wait is not None:
        return step.wait.event in _OWN_EVENTS
    return step.expect is not None and _expects_own(step.expect)


def _engine_step_reaches(step: EngineStep) -> bool:
    return step.rejoin or any(map(_is_for_coordinator, step.do))


def _is_for_coordinator(action: Action) -> bool:
    if action.stats is not None:
        return action.stats.path == "coordinator"
    if action.raw is not None:
        return action.raw.path == "coordinator"
    return action.verb in _NOTICES


def _expects_own(expect: Expect) -> bool:
    count = expect.count
    if count is None or count.event not in _OWN_EVENTS:
        return False
    return bool(count.equals) or bool(count.at_least)
