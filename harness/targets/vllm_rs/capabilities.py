"""What one release of the binary can do and show, and what of a scenario it cannot.

``capabilities`` answers for the vocabulary of ``harness.targets.capabilities``; ``unsupported``
for finer things, such as an admin method that has no route on a release.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenario.model import CallStep, Expect, Scenario, UtilityStep
from harness.targets.vllm_rs import admin_routes
from harness.targets.vllm_rs.model_folder import VOCABULARY
from harness.targets.vllm_rs.releases import at_least

_ALWAYS = frozenset(
    {
        *("op.generate", "op.cancel", "op.drop", "op.rank", "op.rank-text", "op.kv-transfer"),
        *("op.utility", "op.shutdown", "op.connect-error"),
        *("surface.http", "surface.http-stream", "surface.grpc", "surface.grpc-stream"),
        *("see.wire", "see.results", "see.health", "see.health-error", "see.log"),
        *("coordinator.none", "coordinator.in-process", "transport.handshake-owner"),
        *("topology.any-ranks", "fault.engine-vanish", "fault.engine-stall"),
        "fault.engine-rejoin",
    }
)
_SINCE = {"op.abort": "0.24.0", "op.server-info": "0.24.0"}
"""``/abort_requests`` and ``/get_world_size`` appeared with 0.24."""
_GRPC_LOST_REASONS = frozenset({"error", "repetition"})
_PRINTABLE = range(0x20, 0x7F)


def capabilities(release: str) -> frozenset[str]:
    """Return the capabilities of a release."""
    newer = {name for name, since in _SINCE.items() if at_least(release, since)}
    return _ALWAYS | newer


def unsupported(scenario: Scenario, release: str) -> str | None:
    """Return the first reason why this scenario cannot run on this release, or ``None``.

    Capabilities are not looked at again.
    """
    return next(_reasons(scenario, release), None)


def _reasons(scenario: Scenario, release: str) -> Iterator[str]:
    yield from _topology(scenario)
    calls: dict[str, CallStep] = {}
    utilities: dict[str, UtilityStep] = {}
    for step in scenario.steps:
        if step.call is not None:
            calls[step.call.id] = step.call
            yield from _call(step.call)
        elif step.utility is not None:
            utilities[step.utility.id] = step.utility
            if (reason := admin_routes.unsupported(step.utility, release)) is not None:
                yield reason
        elif step.expect is not None:
            yield from _expect(step.expect, calls, utilities, release)


def _topology(scenario: Scenario) -> Iterator[str]:
    topology = scenario.topology
    count, given = len(topology.rank_list), topology.config
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


def _call(call: CallStep) -> Iterator[str]:
    if call.surface.startswith("grpc") and call.kv_transfer_params is not None:
        yield "gRPC answers do not carry kv_transfer_params"
    if any(token >= VOCABULARY for token in call.prompt):
        yield f"the generated model has {VOCABULARY} tokens"
    for text in call.rank_text or ():
        if any(ord(character) not in _PRINTABLE and character != "\t" for character in text):
            yield f"rank text {text!r} is no header value"


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
    call = calls.get(expect.op or "")
    over_grpc = call is not None and call.surface.startswith("grpc")
    if over_grpc and expect.finish in _GRPC_LOST_REASONS:
        yield f"gRPC shows finish reason {expect.finish} as abort"
