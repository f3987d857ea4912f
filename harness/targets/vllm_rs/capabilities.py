"""What one release of the binary can do and show, and what of a scenario it cannot.

``capabilities`` answers for the vocabulary of ``harness.targets.capabilities``; ``unsupported``
for finer things, such as an admin method that has no route on a release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.scenario.model import CallStep, Expect, Scenario, UtilityStep
from harness.targets.sizes import sizes_of
from harness.targets.vllm_rs import admin_routes, surface_rules
from harness.targets.vllm_rs.command import LISTENERS_SINCE, SIZE_SINCE, START_INDEX_SINCE
from harness.targets.vllm_rs.releases import at_least

_ALWAYS = frozenset(
    {
        *("op.generate", "op.cancel", "op.drop", "op.rank", "op.rank-text", "op.kv-transfer"),
        *("op.utility", "op.shutdown", "op.connect-error"),
        *("op.http", "op.grpc", "op.stop", "op.body", "op.slow-reader"),
        *("see.text", "see.status", "see.metrics"),
        *("see.wire", "see.results", "see.health", "see.health-error", "see.log"),
        *("see.failure", "see.publishes", "see.process", "op.frontend-args"),
        *("coordinator.none", "coordinator.in-process", "coordinator.external"),
        *("transport.handshake-owner", "transport.bootstrapped", "topology.two-frontends"),
        *("topology.any-ranks", "fault.engine-vanish", "fault.engine-stall"),
        *("fault.engine-rejoin", "fault.signal", "fault.starved"),
    }
)
LOGGED = frozenset({"see.log", "see.failure", "see.publishes", "see.health-error"})
"""What is told by the log only."""
LOG_FILTER = "RUST_LOG"
_SINCE = {"op.abort": "0.24.0", "op.server-info": "0.24.0"}
"""``/abort_requests`` and ``/get_world_size`` appeared with 0.24."""


def capabilities(release: str) -> frozenset[str]:
    """Return the capabilities of a release."""
    newer = {name for name, since in _SINCE.items() if at_least(release, since)}
    return _ALWAYS | newer | surface_rules.surfaces(release)


def with_environment(
    names: frozenset[str], environment: Iterable[tuple[str, str]]
) -> frozenset[str]:
    """Return what is left when these variables are set: another log filter hides our lines."""
    return names - LOGGED if LOG_FILTER in dict(environment) else names


def unsupported(scenario: Scenario, release: str) -> str | None:
    """Return the first reason why this scenario cannot run on this release, or ``None``.

    Capabilities are not looked at again.
    """
    return next(_reasons(scenario, release), None)


def _reasons(scenario: Scenario, release: str) -> Iterator[str]:
    yield from _topology(scenario, release)
    calls: dict[str, CallStep] = {}
    utilities: dict[str, UtilityStep] = {}
    for step in scenario.steps:
        if step.call is not None:
            calls[step.call.id] = step.call
            yield from surface_rules.of_call(step.call)
        elif step.crowd is not None:
            yield from surface_rules.of_crowd(step.crowd)
        elif step.grpc is not None:
            yield from surface_rules.of_grpc(step.grpc, release)
        elif step.utility is not None:
            utilities[step.utility.id] = step.utility
            if (reason := admin_routes.unsupported(step.utility, release)) is not None:
                yield reason
        elif step.expect is not None:
            yield from _expect(step.expect, calls, utilities, release)


def _topology(scenario: Scenario, release: str) -> Iterator[str]:
    topology = scenario.topology
    count, given = len(topology.rank_list), topology.config
    if LOG_FILTER in topology.frontend_env:
        yield f"frontend_env sets {LOG_FILTER}, by which the harness reads the log"
    if topology.transport == "bootstrapped":
        yield from _bootstrapped(scenario, release)
        return
    size = topology.data_parallel_size
    if given.data_parallel_size is not None:
        size = given.data_parallel_size
    if size not in (None, count):
        yield "`serve` counts engines by --data-parallel-size; the two cannot differ"
    if given.engine_count not in (None, count):
        yield "`serve` has no option for the number of engines"
    if given.engine_start_index not in (None, topology.rank_list[0]):
        yield "`serve` has no option for the first rank"
    if topology.coordinator == "in-process" and count < 2:
        yield "the frontend has a coordinator from two engines on"


def _bootstrapped(scenario: Scenario, release: str) -> Iterator[str]:
    topology = scenario.topology
    ranks = topology.rank_list
    sizes = sizes_of(topology)
    start, count = sizes.engine_start_index, sizes.engine_count
    if ranks != list(range(ranks[0], ranks[0] + len(ranks))):
        yield "`frontend` has options for the first rank and the number of engines only"
    if start and not at_least(release, START_INDEX_SINCE):
        yield f"`frontend` has an option for the first rank since {START_INDEX_SINCE}"
    if sizes.data_parallel_size != start + count and not at_least(release, SIZE_SINCE):
        yield f"`frontend` has an option for the deployment's size since {SIZE_SINCE}"
    if at_least(release, LISTENERS_SINCE):
        return
    if any(step.verb == "grpc" for step in scenario.steps) or _on_grpc(scenario):
        yield f"a bootstrapped frontend serves gRPC since {LISTENERS_SINCE}"


def _on_grpc(scenario: Scenario) -> bool:
    started = (step.call or step.crowd for step in scenario.steps)
    return any(each is not None and each.surface.startswith("grpc") for each in started)


def _expect(
    expect: Expect,
    calls: dict[str, CallStep],
    utilities: dict[str, UtilityStep],
    release: str,
) -> Iterator[str]:
    if expect.error == "DuplicateRequestId":
        yield "the frontend makes every id unique, so a duplicate cannot reach its client"
    asked = expect.model_fields_set
    utility = utilities.get(expect.op or "")
    wants_value = "value" in asked and expect.value is not None
    if utility is not None and wants_value:
        if admin_routes.shows_value(utility.method, release):
            return
        yield f"the answer to {utility.method} does not show its result on {release}"
    yield from surface_rules.of_expect(expect, calls)
