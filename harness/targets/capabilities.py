"""Capabilities: what scenarios and invariants ask for, and targets declare.

Nothing asks for a target's name. Each capability is a string with one line of meaning.
"""

from __future__ import annotations

from collections.abc import Iterable

CAPABILITIES: dict[str, str] = {
    # operations
    "op.generate": "start a generation and read its outputs",
    "op.cancel": "the caller of a running operation leaves",
    "op.drop": "a stream is dropped by its reader",
    "op.abort": "abort a request by the id that its caller knows",
    "op.rank": "ask for an explicit data-parallel rank",
    "op.rank-text": "send the rank as raw header or metadata text",
    "op.kv-transfer": "kv_transfer_params travel with a request and its output",
    "op.aux": "aux tensor frames travel with a request",
    "op.utility": "admin methods that have a public route or API method",
    "op.utility-raw": "any utility method, one result per engine",
    "op.utility-timeout": "an overall timeout of one utility call",
    "op.scale": "change the number of engines while the deployment runs",
    "op.server-info": "read the deployment's sizes",
    "op.shutdown": "shut the frontend down while work is in flight",
    "op.connect-error": "startup failures and configuration errors are typed",
    "op.unencodable": "hand the frontend a value that cannot be encoded",
    "op.http": "send any HTTP request",
    "op.grpc": "make any gRPC call",
    "op.stop": "stop strings of a generation",
    "op.body": "further parameters of a generation, as its surface names them",
    "op.slow-reader": "a caller that does not read its answer for a while",
    "op.frontend-args": "arguments and environment of the frontend's process",
    # surfaces of op.generate
    "surface.native": "the in-process API",
    "surface.http": "HTTP, one answer (a target without a server applies its rank rule)",
    "surface.http-stream": "HTTP, server-sent events",
    "surface.grpc": "gRPC, one answer (a target without a server applies its rank rule)",
    "surface.grpc-stream": "gRPC, a stream of answers",
    "surface.chat": "chat completions, one answer",
    "surface.chat-stream": "chat completions, server-sent events",
    "surface.chat-batch": "the batch route of chat completions",
    "surface.responses": "the responses API, one answer",
    "surface.responses-stream": "the responses API, server-sent events",
    "surface.messages": "the messages API, one answer",
    "surface.messages-stream": "the messages API, server-sent events",
    "surface.generate": "the raw generate route with token ids, one answer",
    "surface.generate-stream": "the raw generate route with token ids, server-sent events",
    # observations
    "see.wire": "messages as the engines send and receive them",
    "see.results": "what each caller gets",
    "see.health": "health of the frontend",
    "see.health-error": "the sticky health error itself",
    "see.registries": "in-flight requests and utility waiters, white box",
    "see.coordinator": "wave and running flag inside the frontend, white box",
    "see.client-events": "internal events of the reference client",
    "see.log": "log lines of the frontend as events",
    "see.failure": "a fatal error of the frontend as an event",
    "see.publishes": "a publish of an external coordinator is seen to be taken over",
    "see.coordinator-log": "log lines of the external coordinator as events",
    "see.text": "the generated text",
    "see.status": "status of each answer (HTTP, gRPC)",
    "see.metrics": "samples of the frontend's metrics",
    "see.process": "memory and descriptors of the frontend's process, its exit code",
    # topology
    "coordinator.none": "no coordinator",
    "coordinator.in-process": "coordinator inside the frontend",
    "coordinator.external": "coordinator in a process of its own",
    "transport.handshake-owner": "the frontend runs the startup handshake",
    "transport.bootstrapped": "addresses are given to the frontend",
    "topology.any-ranks": "ranks need not be 0 … n-1",
    "topology.two-frontends": "a second frontend on the same engines",
    # faults
    "fault.link": "hold or fail single sends of the frontend",
    "fault.engine-vanish": "an engine disappears without a word",
    "fault.engine-stall": "an engine stops reading and sending for a while",
    "fault.engine-rejoin": "a rank comes back with its identity",
    "fault.signal": "signals to the frontend's process",
    "fault.starved": "the frontend's process gets its CPU last",
    # worlds
    "world.virtual-time": "deterministic schedule and virtual clock",
}


def unknown(names: Iterable[str]) -> list[str]:
    """Return the names that are no capability, in order."""
    return [name for name in names if name not in CAPABILITIES]
