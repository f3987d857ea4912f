"""Checks of engines that step together: what their loop does nobody else may do for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from client.protocol.profiles import RELEASES
from harness.scenario.finding import Finding
from harness.scenario.model import Scenario
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of
from mock_engines.behaviours.model import Action, Stream
from mock_engines.behaviours.registry import behaviour_of

LOCKSTEP = "lockstep"


def check_lockstep(scenario: Scenario) -> Iterator[Finding]:
    """Engines that step together have a coordinator, and send what their loop decides."""
    topology = scenario.topology
    if (release := topology.engine_release) is not None and release not in RELEASES:
        yield Finding(
            ("topology", "engine_release"),
            f"'{release}' is no known release",
            one_of(RELEASES),
            did_you_mean(release, RELEASES),
        )
    steps_together = topology.waves == LOCKSTEP
    if steps_together and topology.coordinator == "none":
        yield Finding(
            ("topology", "waves"),
            "engines that step together need a coordinator",
            "key 'coordinator': in-process or external",
        )
    if steps_together and 0 not in topology.rank_list:
        yield Finding(
            ("topology", "waves"),
            "engines that step together need rank 0, which speaks for all of them",
            "ranks that begin with 0",
        )
    if not steps_together and "lockstep" in topology.model_fields_set:
        yield Finding(
            ("topology", "lockstep"),
            "nothing steps at this pace",
            "waves: lockstep",
            on_key=True,
        )
    for i, spec in enumerate(scenario.engines):
        if steps_together and spec.process:
            yield Finding(
                ("engines", i, "process"),
                "an engine that steps with others lives in the harness's own process",
                "process: false, or no such key",
            )
    for path, actions in _actions(scenario):
        yield from _told(path, actions, steps_together=steps_together)


def _actions(scenario: Scenario) -> Iterator[tuple[Path, Sequence[Action]]]:
    for i, spec in enumerate(scenario.engines):
        for j, rule in enumerate(spec.rules):
            yield ("engines", i, "rules", j, "do"), rule.do
    for i, step in enumerate(scenario.steps):
        if step.engine is not None:
            yield ("steps", i, "engine", "do"), step.engine.do


def _told(path: Path, actions: Sequence[Action], *, steps_together: bool) -> Iterator[Finding]:
    for i, action in enumerate(actions):
        verb = action.verb
        if not steps_together:
            if action.shut_down is not None:
                yield Finding(
                    (*path, i, verb),
                    "only engines that step together are shut down in order",
                    "waves: lockstep in the topology, or die: close here",
                )
        elif behaviour_of(action).in_lockstep == "never":
            yield Finding(
                (*path, i, verb),
                f"'{verb}' sends what the loop of an engine that steps with others knows nothing of",
                "stream, default, or another topology.waves",
            )
        elif action.stream is not None:
            yield from _stream((*path, i, "stream"), action.stream)


def _stream(path: Path, stream: Stream) -> Iterator[Finding]:
    """How many tokens come when is up to the loop."""
    for key in ("chunk", "pause_at", "gate"):
        if key in stream.model_fields_set:
            yield Finding(
                (*path, key),
                "an engine that steps with others sends as many tokens in a step as its pace says",
                "topology.lockstep: {tokens, batch, step_ms}, or 'stall' for the whole engine",
                on_key=True,
            )
    if stream.finish is None:
        yield Finding(
            (*path, "finish"),
            "a request at engines that step together comes to its end, or they never rest",
            "a finish reason",
        )
