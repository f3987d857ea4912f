"""Capabilities that a scenario asks of a target, derived from its content."""

from __future__ import annotations

from collections.abc import Iterator

from client import events as client_events
from harness.scenario.model import CallStep, EventMatch, Expect, Scenario, Step, UtilityStep
from harness.trace.events import LogLine
from harness.trace.kinds import class_of
from mock_engines.behaviours.model import Action


def needs(scenario: Scenario) -> frozenset[str]:
    """Everything that a target must be able to do and show for this scenario."""
    return frozenset(_needs(scenario))


def _needs(scenario: Scenario) -> Iterator[str]:
    yield from scenario.needs
    topology = scenario.topology
    yield f"transport.{topology.transport}"
    yield f"coordinator.{topology.coordinator}"
    if topology.rank_list != list(range(len(topology.rank_list))):
        yield "topology.any-ranks"
    if topology.frontends > 1:
        yield "topology.two-frontends"
    if topology.frontend_args or topology.frontend_env:
        yield "op.frontend-args"
    if topology.starved:
        yield "fault.starved"
    if scenario.connect_fails:
        yield "op.connect-error"
    if topology.config.utility_timeout_s is not None:
        yield "op.utility-timeout"
    for spec in scenario.engines:
        for rule in spec.rules:
            yield from _of_actions(rule.do)
    for step in scenario.steps:
        yield from _of_step(step, scenario)


def _of_step(step: Step, scenario: Scenario) -> Iterator[str]:
    by_verb = {
        "cancel": "op.cancel",
        "drop": "op.drop",
        "abort": "op.abort",
        "link": "fault.link",
        "load": "op.generate",
        "shutdown": "op.shutdown",
        "coordinator": "coordinator.external",
        "http": "op.http",
        "grpc": "op.grpc",
        "crowd": "op.generate",
        "sample": "see.process",
        "scale": "op.scale",
        "signal": "fault.signal",
    }
    if step.verb in by_verb:
        yield by_verb[step.verb]
    if step.call is not None:
        yield from _of_call(step.call)
    if step.crowd is not None and step.crowd.surface != "auto":
        yield f"surface.{step.crowd.surface}"
    if step.crowd is not None and step.crowd.rank is not None:
        yield "op.rank"
    if step.crowd is not None and step.crowd.leave == "abort-after-add":
        yield "op.abort"
    if step.crowd is not None and step.crowd.leave != "no":
        yield "op.cancel"
    if step.utility is not None:
        yield from _of_utility(step.utility)
    if step.engine is not None:
        if step.engine.rejoin:
            yield "fault.engine-rejoin"
        yield from _of_actions(step.engine.do)
    if step.wait is not None:
        yield from _of_wait(step.wait, scenario)
    if step.expect is not None:
        yield from _of_expect(step.expect, scenario)


_TOLD_BY_COORDINATOR = (
    client_events.CoordinatorPublished,
    client_events.FirstRequestHandled,
    client_events.WaveNoticeHandled,
    client_events.ScaleNoticeHandled,
)
"""Events of a coordinator; an external one is ours, whatever the frontend is."""


def _of_wait(match: EventMatch, scenario: Scenario) -> Iterator[str]:
    """A step that waits for an event which the target never shows would wait for ever."""
    kind = class_of(match.event)
    if kind is client_events.HealthFailed:
        yield "see.failure"
    elif kind in (client_events.CoordinatorStateApplied, client_events.FirstRequestQueued):
        external = scenario.topology.coordinator == "external"
        yield "see.publishes" if external else "see.client-events"
    elif kind in _TOLD_BY_COORDINATOR and scenario.topology.coordinator == "external":
        yield "coordinator.external"
    elif kind.__module__ == client_events.__name__:
        yield "see.client-events"
    elif kind is LogLine:
        yield "see.log"


def _of_call(call: CallStep) -> Iterator[str]:
    yield "op.generate"
    if call.surface != "auto":
        yield f"surface.{call.surface}"
    if call.rank is not None:
        yield "op.rank"
    if call.rank_text is not None:
        yield "op.rank-text"
    if call.kv_transfer_params is not None:
        yield "op.kv-transfer"
    if call.stop:
        yield "op.stop"
    if call.body or call.headers:
        yield "op.body"
    if call.read is not None:
        yield "op.slow-reader"
    if call.frontend:
        yield "topology.two-frontends"
    if call.aux:
        yield "op.aux"
    if call.unencodable:
        yield "op.unencodable"


def _of_utility(utility: UtilityStep) -> Iterator[str]:
    yield "op.utility" if utility.via == "method" else "op.utility-raw"
    if utility.timeout_s is not None:
        yield "op.utility-timeout"
    if utility.unencodable:
        yield "op.unencodable"


def _of_actions(actions: list[Action]) -> Iterator[str]:
    if any(action.die == "vanish" for action in actions):
        yield "fault.engine-vanish"
    if any(action.stall is not None for action in actions):
        yield "fault.engine-stall"


def _of_expect(expect: Expect, scenario: Scenario) -> Iterator[str]:
    given = expect.model_fields_set
    # Registries, coordinator state and the sticky error itself are judged where they can be
    # seen; elsewhere that one expectation is not judged, and the rest of the scenario is.
    if "server_info" in given:
        yield "op.server-info"
    if "connect" in given:
        yield "op.connect-error"
    if given & {"healthy", "health_error"}:
        yield "see.health"
    for match in [expect.count, *(expect.order or [])]:
        if match is not None:
            yield from _of_wait(match, scenario)
    if "metrics" in given:
        yield "see.metrics"
    if given & {"process", "exit_code"}:
        yield "see.process"
    if "text" in given:
        yield "see.text"
    if "status" in given:
        yield "see.status"
    if expect.kv_transfer_params is not None:
        yield "op.kv-transfer"
