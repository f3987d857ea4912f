"""The HTTP side of the frontend: generations on every API, any other request, admin, load.

One connection per request, an ``Exchange``: a caller who leaves closes a connection of its own at
whatever moment that is, nothing is reused, and nothing is left to close. Token ids are asked for
(``return_token_ids``) instead of being guessed from text, where an API shows them.

Source: vLLM ``rust/src/server/src/routes``; bodies as measured on 0.22.0 … 0.33.0.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from client.aio import DeadlineExceeded, with_deadline
from client.protocol.strict_json import loads
from harness.scenario.model import CallStep, HttpStep
from harness.targets.base import (
    CallResult,
    OnOutput,
    RequestResult,
    TargetError,
    request_is_off,
)
from harness.targets.vllm_rs.client_errors import ENGINE_ERROR_TEXT, http_error_name
from harness.targets.vllm_rs.http_in_haste import (
    HttpAbortLine,
    open_abort_line,
    send_and_hang_up,
)
from harness.targets.vllm_rs.http_surfaces import (
    HTTP_SURFACES,
    STREAM,
    EventParser,
    HttpSurface,
    Reading,
    error_message,
    merged,
)
from harness.targets.vllm_rs.http_wire import (
    ConnectionFailed,
    Exchange,
    Request,
)
from harness.targets.vllm_rs.open_requests import OpenRequests

RANK_HEADER = "X-data-parallel-rank"
REQUEST_ID_HEADER = "X-Request-Id"
TIMED_OUT = "Timeout"
"""There was no whole answer in the time that the harness gave."""
STREAM_CUT = "StreamCut"
"""An answer that ended in order, but without what ends a whole one."""
STREAM_OVERRUN = "StreamOverrun"
"""Something came behind the end of a stream."""
_JSON = ("Content-Type", "application/json")
_PROBE_TIMEOUT_S = 5.0
_OK = 200
_SERVER_ERROR = 500
_RETRYABLE = 503
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"
WaitAtGate = Callable[[str], Awaitable[None]]


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
            return loads(self.body, lenient=True)
        except ValueError:
            return None


def rank_headers(step: CallStep) -> list[tuple[str, str]]:
    """Return the rank as headers: one for ``rank``, one for each text of ``rank_text``.

    Spaces round a value are no part of it in HTTP (RFC 9110, 5.5) and are not sent.
    """
    if step.rank_text is not None:
        return [(RANK_HEADER, text.strip(" \t")) for text in step.rank_text]
    return [] if step.rank is None else [(RANK_HEADER, str(step.rank))]


class HttpApi:
    """Requests to one frontend. Each closes its connection when it ends, however it ends.

    Attributes:
        open_calls: the requests whose end ``/load`` shows.
    """

    def __init__(self, address: str, model: str, wait_at: WaitAtGate | None = None) -> None:
        """Take an address, ``http://host:port`` or ``unix:path``; nothing is sent yet.

        ``wait_at``: returns when a named gate is open.
        """
        self._address = address
        self._model = model
        self._wait_at = wait_at
        self.open_calls = OpenRequests()

    async def request(
        self,
        verb: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Any = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send one request and return its answer; a lost connection is an answer too.

        ``timeout_s`` is for all of it: without one, hanging is a result, and callers bound their
        waits.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        request = (
            Request(verb, target)
            if body is None
            else Request(verb, target, (_JSON,), json.dumps(body).encode())
        )
        try:
            return await with_deadline(self._answer(request), timeout_s, name="frontend: request")
        except ConnectionFailed as error:
            return Answer(0, str(error), error.name)
        except DeadlineExceeded:
            return Answer(0, f"no answer within {timeout_s:g} s", TIMED_OUT)

    async def _answer(self, request: Request) -> Answer:
        async with self._exchange(request, None) as exchange:
            return Answer(await exchange.status(), await exchange.text())

    async def probe(self, path: str) -> Answer:
        """GET with a short timeout: health, load and the like answer at once."""
        return await self.request("GET", path, timeout_s=_PROBE_TIMEOUT_S)

    async def open_requests(self) -> int | None:
        """Return how many API requests the frontend is serving, ``None`` if it does not say."""
        decoded = (await self.probe("/load")).json()
        load = decoded.get("server_load") if isinstance(decoded, dict) else None
        return load if isinstance(load, int) else None

    # --- any request --------------------------------------------------------------------

    async def http(self, step: HttpStep) -> RequestResult:
        """Send any request. Cancelling it closes its connection."""
        body = step.text.encode() * step.repeat if step.text is not None else None
        headers = list(step.headers.items())
        if step.body is not None:
            body = json.dumps(step.body).encode()
            if not any(name.lower() == "content-type" for name in step.headers):
                headers.append(_JSON)
        target = quote(step.path, safe=_PATH_SAFE)
        if step.query:
            target += "?" + urlencode(list(step.query.items()), doseq=True)
        behind = (step.behind or "").encode()
        request = Request(step.verb, target, tuple(headers), body, step.send, behind)
        async with AsyncExitStack() as stack:
            if step.send != "nothing":
                for _ in range(step.connections):
                    stack.enter_context(self.open_calls.request(step.path))
            try:
                for _ in range(step.connections - 1):
                    await stack.enter_async_context(self._exchange(request, None))
                async with self._exchange(request, step.read) as exchange:
                    status, text = await exchange.status(), await exchange.text()
                    if step.again:
                        # A server decides on the connection right behind its answer: it has, when
                        # another connection was served in the meantime.
                        await self.probe("/health")
                        if await exchange.again():
                            status, text = await exchange.status(), await exchange.text()
            except ConnectionFailed as error:
                return RequestResult("failed", error=error.name, text=str(error))
        return RequestResult("finished", status, Answer(status, text).json(), text)

    def _exchange(self, request: Request, gate: str | None) -> Exchange:
        return Exchange(self._address, request, None if gate is None else self._waiting(gate))

    def _waiting(self, gate: str) -> Callable[[], Awaitable[None]]:
        async def wait() -> None:
            if self._wait_at is None:
                msg = f"nobody can open gate {gate!r} here"
                raise TargetError(msg)
            with self.open_calls.not_reading():
                await self._wait_at(gate)

        return wait

    # --- generations --------------------------------------------------------------------

    def _generation(self, step: CallStep, surface: str) -> Request:
        api = HTTP_SURFACES[surface.removesuffix(STREAM)]
        body = merged(
            api.body(step, self._model, stream=surface.endswith(STREAM)),
            step.body,
        )
        headers = (
            _JSON,
            (REQUEST_ID_HEADER, step.request_id or step.id),
            *rank_headers(step),
            *step.headers.items(),
        )
        return Request("POST", api.path, headers, json.dumps(body).encode())

    async def hurry(
        self, calls: Sequence[CallStep], surface: str, at_once: int, spread_s: float
    ) -> None:
        """Send the requests of callers who hang up; see ``http_in_haste``."""
        requests = [self._generation(step, surface) for step in calls]
        await send_and_hang_up(self._address, requests, at_once, spread_s)

    async def abort_line(self) -> HttpAbortLine:
        """Open a connection for aborts."""
        return await open_abort_line(self._address)

    async def generate(self, step: CallStep, surface: str, on_output: OnOutput) -> CallResult:
        """Run one generation on a surface. Cancelling it closes its connection."""
        api = HTTP_SURFACES[surface.removesuffix(STREAM)]
        stream = surface.endswith(STREAM)
        request = self._generation(step, surface)
        asked_for_rank = step.rank is not None or step.rank_text is not None
        reading = Reading(on_output)
        with self.open_calls.request(api.path):
            try:
                async with self._exchange(request, step.read) as exchange:
                    request_is_off()
                    status = await exchange.status()
                    if status != _OK:
                        text = await exchange.text()
                        reading.last = Answer(status, text).json()
                        return _refused(status, error_message(text), reading, asked_for_rank)
                    if not stream:
                        return _answered(await exchange.text(), api, reading)
                    await _read_events(exchange, api, reading)
            except ConnectionFailed as error:
                return _result("failed", reading, error.name, str(error), None)
        return _streamed(reading, asked_for_rank)


async def _read_events(exchange: Exchange, api: HttpSurface, reading: Reading) -> None:
    """Read server-sent events to the end of the stream."""
    parser = EventParser()
    while (data := await exchange.data()) is not None:
        for event in parser.feed(data):
            api.event(event, reading)


def _result(
    outcome: str, reading: Reading, error: str | None, message: str, status: int | None
) -> CallResult:
    return CallResult(
        outcome,
        reading.finish,
        error,
        message,
        kv_transfer_params=reading.kv_transfer_params,
        status=status,
        text=reading.text,
        body=reading.last,
    )


def _answered(text: str, api: HttpSurface, reading: Reading) -> CallResult:
    with suppress(ValueError):
        reading.last = loads(text, lenient=True)
    if isinstance(reading.last, dict):
        api.answer(reading.last, reading)
    if reading.failure is not None:
        return _result("failed", reading, "AnswerFailed", reading.failure, _OK)
    if reading.finish is None:
        message = f"an answer without a finish reason: {text[:200]}"
        return _result("failed", reading, STREAM_CUT, message, _OK)
    return _result("finished", reading, None, "", _OK)


def _streamed(reading: Reading, asked_for_rank: bool) -> CallResult:
    if reading.overrun:
        message = "the stream went on after its end"
        return _result("failed", reading, STREAM_OVERRUN, message, _OK)
    if not reading.over:
        message = "the stream ended without its terminal event"
        return _result("failed", reading, STREAM_CUT, message, _OK)
    if reading.failure is not None:
        code = reading.failure_code or _SERVER_ERROR
        return _refused(code, reading.failure, reading, asked_for_rank, status=_OK)
    if reading.finish is None:
        message = "the stream ended without a finish reason"
        return _result("failed", reading, STREAM_CUT, message, _OK)
    return _result("finished", reading, None, "", _OK)


def _refused(
    code: int,
    message: str,
    reading: Reading,
    asked_for_rank: bool,
    status: int | None = None,
) -> CallResult:
    """Tell an output with finish reason *error* from a failure of the client.

    The first is an end like others to the engine-core client; HTTP hides it behind a fixed
    text (or, since 0.33, a 503 with the engine's message, which nothing else produces).
    ``status``: of the answer, where an event of its stream says ``code``.
    """
    shown = code if status is None else status
    name = http_error_name(code, message, explicit_rank=asked_for_rank)
    if message == ENGINE_ERROR_TEXT or name == f"HttpError{_RETRYABLE}":
        reading.piece(finish="error")
        return _result("finished", reading, name, message, shown)
    return _result("failed", reading, name, message, shown)
