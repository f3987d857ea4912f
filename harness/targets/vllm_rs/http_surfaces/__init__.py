"""The HTTP APIs that generate, one module each."""

from harness.targets.vllm_rs.http_surfaces.base import (
    HttpSurface,
    Reading,
    error_message,
    merged,
)
from harness.targets.vllm_rs.http_surfaces.chat import Chat, ChatBatch
from harness.targets.vllm_rs.http_surfaces.completions import Completions
from harness.targets.vllm_rs.http_surfaces.generate import Generate
from harness.targets.vllm_rs.http_surfaces.messages import Messages
from harness.targets.vllm_rs.http_surfaces.responses import Responses
from harness.targets.vllm_rs.http_surfaces.sse import EventParser

HTTP_SURFACES: dict[str, HttpSurface] = {
    "http": Completions(),
    "chat": Chat(),
    "chat-batch": ChatBatch(),
    "responses": Responses(),
    "messages": Messages(),
    "generate": Generate(),
}
"""By the name of the surface with one answer; ``<name>-stream`` is the same API, streamed."""
STREAM = "-stream"

__all__ = [
    "HTTP_SURFACES",
    "STREAM",
    "EventParser",
    "HttpSurface",
    "Reading",
    "error_message",
    "merged",
]
