"""``POST /v1/responses``."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from client.protocol.strict_json import loads
from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_surfaces.base import HttpSurface, Json, Reading, optional
from harness.targets.vllm_rs.http_surfaces.sse import ServerEvent
from harness.targets.vllm_rs.model_folder import text_of

FINISHES = {"completed": "stop", "incomplete": "length", "cancelled": "abort", "failed": "error"}
"""Status of a response → finish reason; repetition cannot be told from stop."""
TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


class Responses(HttpSurface):
    """Text in, items with text out; no token ids.

    Source: OpenAI API reference, "Responses" and "Streaming events"; vLLM
        ``rust/src/server/src/routes/openai/responses`` on main. No release up to 0.33.0 serves it
        (404), so nothing here was measured on a binary.
    """

    path = "/v1/responses"
    prefix = "resp_"
    since: ClassVar[str | None] = None
    stream_since: ClassVar[str | None] = None
    shows_tokens = False
    takes_text = True

    def body(self, step: CallStep, model: str, *, stream: bool) -> dict[str, Any]:
        """Nothing is stored: each request stands alone."""
        body: dict[str, Any] = {
            "model": model,
            "input": text_of(tuple(step.prompt)),
            "max_output_tokens": step.max_tokens,
            "stream": stream,
            "store": False,
        }
        return body | optional(step)

    def answer(self, decoded: Json, reading: Reading) -> None:
        """All message items; a failed response is an error, whatever the HTTP status."""
        texts = [
            part.get("text", "")
            for item in decoded.get("output") or []
            if item.get("type") == "message"
            for part in item.get("content") or []
        ]
        self._end(decoded, reading, "".join(texts))

    def event(self, event: ServerEvent, reading: Reading) -> None:
        """The stream ends with a terminal event and without ``[DONE]``."""
        if reading.over:
            reading.overrun = True
            return
        decoded = loads(event.data, lenient=True)
        reading.last = decoded
        self.chunk(event.name, decoded, reading)

    def chunk(self, name: str, decoded: Json, reading: Reading) -> None:
        """Deltas of text, and the terminal event, which repeats everything."""
        kind = decoded.get("type", name)
        if kind == "response.output_text.delta":
            reading.piece(text=decoded.get("delta", ""))
        elif kind in TERMINAL:
            reading.over = True
            self._end(decoded.get("response") or {}, reading, "")
        elif kind == "error":
            reading.over = True
            reading.failure = decoded.get("message") or json.dumps(decoded)

    @staticmethod
    def _end(response: Json, reading: Reading, text: str) -> None:
        extra = response.get("kv_transfer_params")
        if isinstance(extra, dict):
            reading.kv_transfer_params = extra
        if response.get("error") is not None:
            reading.fail(response, json.dumps(response))
        else:
            reading.piece(finish=FINISHES.get(str(response.get("status"))), text=text)
