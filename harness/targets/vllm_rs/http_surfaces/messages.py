"""``POST /v1/messages``."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from client.protocol.strict_json import loads
from harness.scenario.model import CallStep
from harness.targets.vllm_rs.http_surfaces.base import HttpSurface, Json, Reading, optional
from harness.targets.vllm_rs.http_surfaces.chat import messages_of
from harness.targets.vllm_rs.http_surfaces.sse import ServerEvent

FINISHES = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}
"""Stop reason → finish reason; the API has no word for abort and repetition."""


class Messages(HttpSurface):
    """Messages in, content blocks with text out; no token ids.

    Source: Anthropic API reference, "Messages" and "Streaming Messages"; vLLM
        ``entrypoints/anthropic`` (Python). Of the Rust frontend no release up to 0.33.0 serves it
        (404 before 0.33, 501 there), so nothing here was measured on a binary.
    """

    path = "/v1/messages"
    prefix = "msg_"
    since: ClassVar[str | None] = None
    stream_since: ClassVar[str | None] = None
    shows_tokens = False
    takes_text = True

    def body(self, step: CallStep, model: str, *, stream: bool) -> dict[str, Any]:
        """``max_tokens`` is required here."""
        body: dict[str, Any] = {
            "model": model,
            "messages": messages_of(step),
            "max_tokens": step.max_tokens,
            "stream": stream,
        }
        return body | optional(step, stop="stop_sequences")

    def answer(self, decoded: Json, reading: Reading) -> None:
        """All text blocks."""
        extra = decoded.get("kv_transfer_params")
        if isinstance(extra, dict):
            reading.kv_transfer_params = extra
        blocks = decoded.get("content") or []
        text = "".join(block.get("text", "") for block in blocks if block.get("type") == "text")
        reading.piece(finish=FINISHES.get(str(decoded.get("stop_reason"))), text=text)

    def event(self, event: ServerEvent, reading: Reading) -> None:
        """The stream ends with ``message_stop`` and without ``[DONE]``."""
        if reading.over:
            reading.overrun = True
            return
        decoded = loads(event.data, lenient=True)
        reading.last = decoded
        self.chunk(event.name, decoded, reading)

    def chunk(self, name: str, decoded: Json, reading: Reading) -> None:
        """Deltas of text, one of the message with its stop reason, and the end."""
        match decoded.get("type", name):
            case "content_block_delta":
                reading.piece(text=(decoded.get("delta") or {}).get("text", ""))
            case "message_delta":
                reason = (decoded.get("delta") or {}).get("stop_reason")
                reading.piece(finish=FINISHES.get(str(reason)))
            case "message_stop":
                reading.over = True
            case "error":
                reading.over = True
                reading.fail(decoded, json.dumps(decoded))
            case _:
                pass
