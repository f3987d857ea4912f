"""Shapes of completion answers: whole bodies and stream chunks, by release. Pure.

Source: bodies of the real frontend as measured on 0.22.0 to 0.33.0.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from client.protocol.messages import EngineCoreOutput, FinishReason
from client.protocol.profiles import Profile
from harness.reference_frontend.texts import (
    BAD_REQUEST,
    INTERNAL_TEXT,
    SERVER_ERROR,
    UNAVAILABLE,
    Refusal,
    since,
)

_BYTES = 256


def finish_text(reason: FinishReason | None, profile: Profile) -> str | None:
    """Return how HTTP names a finish reason; *repetition* has its own name since 0.25."""
    if reason is FinishReason.REPETITION and not since(profile, "0.25"):
        return "stop"
    return None if reason is None else reason.name.lower()


def engine_refusal(output: EngineCoreOutput) -> Refusal | None:
    """Return the answer to an output that ends with *error*, ``None`` for any other.

    The engine's own words are shown only where it marks them as meant for callers (≥ 0.33).
    """
    if output.finish_reason is not FinishReason.ERROR:
        return None
    error = output.error
    if error is not None and error.code == "validation_error":
        return Refusal(BAD_REQUEST, error.message)
    if error is not None and error.retryable:
        return Refusal(UNAVAILABLE, error.message)
    return Refusal(SERVER_ERROR, INTERNAL_TEXT)


class Text:
    """Text of byte tokens; a character of several tokens is shown when it is complete.

    Tokens beyond the bytes have no text, as the special token of the generated model.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Sequence[int], *, last: bool = False) -> str:
        """Return what these tokens add; ``last`` shows an incomplete character too."""
        return self._decoder.decode(bytes(t for t in tokens if t < _BYTES), last)


@dataclass(slots=True)
class Answer:
    """One completion on its way to its caller.

    Attributes:
        request_id: external id.
        created: seconds since the epoch.
        tokens: received so far.
    """

    profile: Profile
    request_id: str
    model: str
    prompt: Sequence[int]
    created: int
    return_ids: bool
    tokens: list[int] = field(default_factory=list)
    _text: Text = field(default_factory=Text)

    def head(self) -> dict[str, Any]:
        """Return what every body and chunk begins with."""
        return {
            "id": self.request_id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
        }

    def usage(self) -> dict[str, Any]:
        """Return the numbers of tokens."""
        prompt, completion = len(self.prompt), len(self.tokens)
        found: dict[str, Any] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }
        if since(self.profile, "0.26"):
            found["prompt_tokens_details"] = None
        if since(self.profile, "0.30"):
            found["completion_tokens_details"] = {"reasoning_tokens": 0}
        return found

    def whole(self, last: EngineCoreOutput) -> dict[str, Any]:
        """Return the body of an answer that is not streamed; ``tokens`` are complete."""
        choice: dict[str, Any] = {"index": 0, "text": self._text.add(self.tokens, last=True)}
        finish = finish_text(last.finish_reason, self.profile)
        ids = list(self.tokens) if self.return_ids else None
        prompt_ids = list(self.prompt) if self.return_ids else None
        if not since(self.profile, "0.26"):
            choice["finish_reason"] = finish
            if last.stop_reason is not None:
                choice["stop_reason"] = last.stop_reason
            if self.return_ids:
                choice |= {"token_ids": ids, "prompt_token_ids": prompt_ids}
            body = {**self.head(), "choices": [choice], "usage": self.usage()}
            if last.kv_transfer_params is not None:
                body["kv_transfer_params"] = last.kv_transfer_params
            return body
        choice |= {
            "logprobs": None,
            "finish_reason": finish,
            "stop_reason": last.stop_reason,
            "prompt_logprobs": None,
            "token_ids": ids,
            "prompt_token_ids": prompt_ids,
        }
        body = {**self.head(), "choices": [choice], "usage": self.usage()}
        if since(self.profile, "0.33"):
            body["metrics"] = None
        return body | {
            "system_fingerprint": None,
            "kv_transfer_params": last.kv_transfer_params,
            "ec_transfer_params": last.ec_transfer_params,
        }

    def first_chunk(self) -> dict[str, Any]:
        """Return the chunk that precedes the first tokens: it names the prompt's ids."""
        choice: dict[str, Any] = {"index": 0, "text": ""}
        if self.return_ids:
            if since(self.profile, "0.32"):
                choice["token_ids"] = []
            choice["prompt_token_ids"] = list(self.prompt)
        return self._chunk(choice)

    def chunk(self, output: EngineCoreOutput) -> dict[str, Any]:
        """Return the chunk of new tokens, and count them."""
        new = list(output.new_token_ids)
        self.tokens += new
        last = output.finish_reason is not None
        choice: dict[str, Any] = {"index": 0, "text": self._text.add(new, last=last)}
        if self.return_ids:
            choice["token_ids"] = new
        return self._chunk(choice)

    def last_chunk(self, output: EngineCoreOutput) -> dict[str, Any]:
        """Return the chunk that says how it ended."""
        choice: dict[str, Any] = {"index": 0, "text": ""}
        choice["finish_reason"] = finish_text(output.finish_reason, self.profile)
        if output.stop_reason is not None:
            choice["stop_reason"] = output.stop_reason
        if self.return_ids and since(self.profile, "0.32"):
            choice["token_ids"] = []
        return self._chunk(choice)

    def usage_chunk(self) -> dict[str, Any]:
        """Return the chunk behind the last one, for who asked for it."""
        return {**self.head(), "choices": [], "usage": self.usage()}

    def _chunk(self, choice: dict[str, Any]) -> dict[str, Any]:
        return {**self.head(), "choices": [choice]}
