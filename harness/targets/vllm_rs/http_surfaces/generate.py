"""``POST /inference/v1/generate``: token ids in, token ids out."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_surfaces.base import HttpSurface, Json, Reading, usual_choices


class Generate(HttpSurface):
    """The raw route, without a tokenizer: no text, so no stop strings.

    From 0.30 it exists under ``--enable-scale-out`` only.

    Source: vLLM ``rust/src/server/src/routes/inference/generate``; measured on 0.22.0 … 0.33.0.
    """

    path = "/inference/v1/generate"
    shows_text = False
    stream_since: ClassVar[str | None] = "0.23.0"

    def body(self, step: CallStep, model: str, *, stream: bool) -> dict[str, Any]:
        """Sampling parameters have a mapping of their own."""
        body: dict[str, Any] = {
            "model": model,
            "token_ids": list(step.prompt),
            "sampling_params": {"max_tokens": step.max_tokens},
            "stream": stream,
        }
        if step.kv_transfer_params is not None:
            body["kv_transfer_params"] = step.kv_transfer_params
        return body

    def answer(self, decoded: Json, reading: Reading) -> None:
        """One choice with everything."""
        usual_choices(decoded, reading)

    def chunk(self, name: str, decoded: Json, reading: Reading) -> None:
        """The finish reason comes with the last tokens."""
        del name
        usual_choices(decoded, reading)
