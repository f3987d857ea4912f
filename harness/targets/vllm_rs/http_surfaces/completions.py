"""``POST /v1/completions`` with a token-id prompt."""

from __future__ import annotations

from typing import Any

from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_surfaces.base import (
    HttpSurface,
    Json,
    Reading,
    optional,
    usual_choices,
)


class Completions(HttpSurface):
    """Token ids in, text and token ids out.

    Source: vLLM ``rust/src/server/src/routes/openai/completions``; measured on 0.22.0 … 0.33.0.
    """

    path = "/v1/completions"
    prefix = "cmpl-"

    def body(self, step: CallStep, model: str, *, stream: bool) -> dict[str, Any]:
        """Ask for token ids too, instead of guessing them from text."""
        body: dict[str, Any] = {
            "model": model,
            "prompt": list(step.prompt),
            "max_tokens": step.max_tokens,
            "stream": stream,
            "return_token_ids": True,
        }
        return body | optional(step)

    def answer(self, decoded: Json, reading: Reading) -> None:
        """One choice with everything."""
        usual_choices(decoded, reading)

    def chunk(self, name: str, decoded: Json, reading: Reading) -> None:
        """A choice with a piece, or the finish reason in a chunk of its own."""
        del name
        usual_choices(decoded, reading)
