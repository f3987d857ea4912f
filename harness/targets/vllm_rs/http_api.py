"""The OpenAI-style HTTP side of the frontend: completions, health, load, raw requests.

One connection per request, so that a caller who leaves closes a connection of its own and
nothing is reused. Token ids are asked for (``return_token_ids``) instead of being guessed from
text; every release answers with them.

Source: vLLM ``rust/src/server/src/routes``; bodies as measured on 0.22.0 … 0.33.0.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.scenario.model import CallStep
from harness.targets.base import CallResult, OnOutput, TargetError
from harness.targets.vllm_rs.client_errors import ENGINE_ERROR_TEXT, http_error_name

if TYPE_CHECKING:
    import httpx

RANK_HEADER = "X-data-parallel-rank"
REQUEST_ID_HEADER = "X-Request-Id"
COMPLETION_PREFIX = "cmpl-"
"""Put before a given request id by ``/v1/completions``."""
CONNECTION_REFUSED = "ConnectionRefused"
CONNECTION_LOST = "ConnectionLost"
_PROBE_TIMEOUT_S = 5.0
_OK = 200
_ERROR = 400
_RETRYABLE = 503


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer. ``status`` 0 = no answer; ``lost`` then names what happened."""

    status: int
    body: str = ""
    lost: str | None = None

    @property
    def ok(self) -> bool:
        """Whether it is a success."""
        return self.status == _OK

    def json(self) -> Any:
        """Return the decoded body, ``None`` if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


@dataclass(slots=True)
class _Reading:
    """What was read of one generation so far."""

    on_output: OnOutput
    finish: str | None = None
    kv_transfer_params: Mapping[str, Any] | None = None
    failure: str | None = field(default=None)

    def choice(self, body: Mapping[str, Any]) -> None:
        """Take the choice of an answer or a stream chunk."""
        if isinstance(extra := body.get("kv_transfer_params"), dict):
            self.kv_transfer_params = extra
        for choice in body.get("choices") or []:
            tokens = tuple(choice.get("token_ids") or ())
            finish = choice.get("finish_reason")
            if tokens or finish is not None:
                self.finish = finish or self.finish
                self.on_output(tokens, finish)


def error_message(body: str) -> str:
    """Return the message of an error body, or the body itself."""
    try:
        decoded = json.loads(body)
    except ValueError:
        return body
    error = decoded.get("error") if isinstance(decoded, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else body


def rank_headers(step: CallStep) -> list[tuple[str, str]]:
    """Return the rank as headers: one for ``rank``, one for each text of ``rank_text``.

    Spaces round a value are no part of it in HTTP (RFC 9110, 5.5) and are not sent.
    """
    if step.rank_text is not None:
        return [(RANK_HEADER, text.strip(" \t")) for text in step.rank_text]
    return [] if step.rank is None else [(RANK_HEADER, str(step.rank))]


def load_httpx() -> Any:
    """Import httpx, which is in the extra ``frontend``.

    Raises:
        TargetError: it is not installed.
    """
    try:
        import httpx
    except ImportError as error:
        msg = "the target vllm-rs needs httpx: pip install wavecheck[frontend]"
        raise TargetError(msg) from error
    return httpx


class HttpApi:
    """Requests to one frontend. ``close`` when done."""

    def __init__(self, port: int, model: str) -> None:
        """Make a client for 127.0.0.1:``port``; nothing is sent yet."""
        self._httpx = load_httpx()
        self._model = model
        self._client: httpx.AsyncClient = self._httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            timeout=None,  # hanging is a result here; callers bound their waits
            trust_env=False,
            verify=False,  # plain HTTP; saves loading certificates
            limits=self._httpx.Limits(max_keepalive_connections=0, max_connections=None),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Any = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send one request and return its answer; a lost connection is an answer too."""
        kwargs: dict[str, Any] = {"timeout": timeout_s}
        if query:
            kwargs["params"] = list(query)
        if body is not None:
            kwargs["json"] = body
        try:
            response = await self._client.request(verb, path, **kwargs)
        except self._httpx.TransportError as error:
            return Answer(0, repr(error), self._lost(error))
        return Answer(response.status_code, response.text)

    async def probe(self, path: str) -> Answer:
        """GET with a short timeout: health, load and the like answer at once."""
        return await self.request("GET", path, timeout_s=_PROBE_TIMEOUT_S)

    async def open_requests(self) -> int | None:
        """Return how many API requests the frontend is serving, ``None`` if it does not say."""
        decoded = (await self.probe("/load")).json()
        load = decoded.get("server_load") if isinstance(decoded, dict) else None
        return load if isinstance(load, int) else None

    async def completion(
        self, step: CallStep, request_id: str, on_output: OnOutput, *, stream: bool
    ) -> CallResult:
        """Run one generation. Cancelling it closes its connection."""
        headers = [(REQUEST_ID_HEADER, request_id), *rank_headers(step)]
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": list(step.prompt),
            "max_tokens": step.max_tokens,
            "stream": stream,
            "return_token_ids": True,
        }
        if step.kv_transfer_params is not None:
            body["kv_transfer_params"] = step.kv_transfer_params
        asked_for_rank = step.rank is not None or step.rank_text is not None
        reading = _Reading(on_output)
        try:
            async with self._client.stream(
                "POST", "/v1/completions", json=body, headers=headers
            ) as response:
                if response.status_code >= _ERROR or not stream:
                    await response.aread()
                    return _answered(
                        response.status_code, response.text, reading, explicit_rank=asked_for_rank
                    )
                await _read_events(response.aiter_lines(), reading)
        except self._httpx.TransportError as error:
            return CallResult("failed", reading.finish, self._lost(error), repr(error))
        return _streamed(reading, explicit_rank=asked_for_rank)

    def _lost(self, error: Exception) -> str:
        if isinstance(error, self._httpx.ConnectError):
            return CONNECTION_REFUSED
        if isinstance(error, self._httpx.TimeoutException):
            return "Timeout"
        return CONNECTION_LOST


async def _read_events(lines: AsyncIterator[str], reading: _Reading) -> None:
    """Read server-sent events to the end of the stream."""
    async for line in lines:
        if not line.startswith("data:"):
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            continue
        decoded = json.loads(data)
        if "error" in decoded:
            reading.failure = error_message(data)
        else:
            reading.choice(decoded)


def _answered(status: int, body: str, reading: _Reading, *, explicit_rank: bool) -> CallResult:
    if status != _OK:
        return _refused(status, error_message(body), reading, explicit_rank=explicit_rank)
    decoded = json.loads(body)
    reading.choice(decoded)
    return CallResult("finished", reading.finish, kv_transfer_params=reading.kv_transfer_params)


def _streamed(reading: _Reading, *, explicit_rank: bool) -> CallResult:
    if reading.failure is not None:
        return _refused(500, reading.failure, reading, explicit_rank=explicit_rank)
    if reading.finish is None:
        message = "the stream ended without a finish reason"
        return CallResult("failed", None, CONNECTION_LOST, message)
    return CallResult("finished", reading.finish, kv_transfer_params=reading.kv_transfer_params)


def _refused(status: int, message: str, reading: _Reading, *, explicit_rank: bool) -> CallResult:
    """Tell an output with finish reason *error* from a failure of the client.

    The first is an end like others to the engine-core client; HTTP hides it behind a fixed
    text (or, since 0.33, a 503 with the engine's message, which nothing else produces).
    """
    name = http_error_name(status, message, explicit_rank=explicit_rank)
    if message == ENGINE_ERROR_TEXT or name == f"HttpError{_RETRYABLE}":
        reading.on_output((), "error")
        return CallResult("finished", "error", name, message)
    return CallResult("failed", reading.finish, name, message)
