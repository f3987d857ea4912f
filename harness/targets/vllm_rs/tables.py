"""Tables of the documentation: surfaces, and the gRPC methods whose fields are known."""

from __future__ import annotations

from collections.abc import Iterator

from harness.targets.vllm_rs.grpc_messages import METHODS
from harness.targets.vllm_rs.http_surfaces import HTTP_SURFACES, STREAM

SURFACE_HEAD = ("surface", "route or method", "prompt", "shows", "external id", "served since")
METHOD_HEAD = ("method", "request", "answer", "since")
_NOT_SERVED = "by no release up to 0.33.0"


def surface_rows() -> Iterator[tuple[str, ...]]:
    """Yield one row for each surface, HTTP first."""
    for name, api in HTTP_SURFACES.items():
        shown = [
            word for word, yes in (("text", api.shows_text), ("tokens", api.shows_tokens)) if yes
        ]
        for suffix, since in (("", api.since), (STREAM, api.stream_since)):
            yield (
                f"`{name}{suffix}`",
                f"`POST {api.path}`",
                "text" if api.takes_text else "token ids",
                ", ".join(shown),
                f"`{api.prefix}ID`",
                since or _NOT_SERVED,
            )
    for suffix, method in (("", "Generate"), (STREAM, "GenerateStream")):
        yield (
            f"`grpc{suffix}`",
            f"`Inference/{method}`",
            "token ids",
            "text, tokens",
            "`ID`",
            "0.22.0",
        )


def method_rows() -> Iterator[tuple[str, ...]]:
    """Yield one row for each gRPC method."""
    for name, method in METHODS.items():
        package, _, short = name.rpartition(".")
        shown = short if package == "vllm" else name
        request, answer = (kind.rpartition(".")[2] for kind in (method.request, method.response))
        stream = "stream of " if method.stream else ""
        yield (f"`{shown}`", f"`{request}`", f"{stream}`{answer}`", method.since)
