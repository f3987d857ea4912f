"""``POST /v1/chat/completions``, and its batch route."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_surfaces.base import (
    HttpSurface,
    Json,
    Reading,
    optional,
    usual_choices,
)
from harness.targets.vllm_rs.model_folder import text_of


def messages_of(step: CallStep) -> list[dict[str, str]]:
    """Return one message whose content is the prompt; the model's template adds nothing to it."""
    return [{"role": "user", "content": text_of(tuple(step.prompt))}]


class Chat(HttpSurface):
    """Messages in, text and token ids out.

    Source: vLLM ``rust/src/server/src/routes/openai/chat_completions``; measured on
        0.22.0 … 0.33.0.
    """

    path = "/v1/chat/completions"
    prefix = "chatcmpl-"
    takes_text = True

    def body(self, step: CallStep, model: str, *, stream: bool) -> dict[str, Any]:
        """As completions, with messages."""
        body: dict[str, Any] = {
            "model": model,
            "messages": messages_of(step),
            "max_tokens": step.max_tokens,
            "stream": stream,
            "return_token_ids": True,
        }
        return body | optional(step)

    def answer(self, decoded: Json, reading: Reading) -> None:
        """One choice with a message."""
        usual_choices(decoded, reading)

    def chunk(self, name: str, decoded: Json, reading: Reading) -> None:
        """A choice with a delta: first the role alone, at last the finish reason alone."""
        del name
        usual_choices(decoded, reading)


class ChatBatch(Chat):
    """Several conversations in one request; a call sends one.

    Source: vLLM ``entrypoints/openai`` (Python). Of the Rust frontend no release up to 0.33.0
        serves it: 404 before 0.33, 501 there.
    """

    path = "/v1/chat/completions/batch"
    since: ClassVar[str | None] = None
    stream_since: ClassVar[str | None] = None

    def body(self, step: CallStep, model: str, *, stream: bool) -> dict[str, Any]:
        """A list of conversations; the route does not stream."""
        body = super().body(step, model, stream=stream)
        del body["stream"]
        return {**body, "messages": [body["messages"]]}
