"""Which surface carries a call, and the external id that its ADD has there."""

from __future__ import annotations

from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_surfaces import HTTP_SURFACES, STREAM, HttpSurface

GRPC = "grpc"


def surface_of(step: CallStep) -> str:
    """Return the surface of a call: the one that it names, or completions."""
    if step.surface != "auto":
        return step.surface
    # A streamed answer does not carry kv_transfer_params, a whole one does.
    return "http" + STREAM if step.kv_transfer_params is None else "http"


def http_surface(name: str) -> HttpSurface | None:
    """Return the HTTP API behind the name of a surface, ``None`` for gRPC."""
    return HTTP_SURFACES.get(name.removesuffix(STREAM))


def external_id(step: CallStep) -> str:
    """Return the caller's id as ADD carries it: HTTP APIs put their prefix before it."""
    given = step.request_id or step.id
    api = http_surface(surface_of(step))
    return given if api is None else api.prefix + given


def served(name: str, *, stream: bool) -> str | None:
    """Return the first release that serves this HTTP API, ``None`` if no known one does."""
    api = HTTP_SURFACES[name]
    return api.stream_since if stream else api.since
