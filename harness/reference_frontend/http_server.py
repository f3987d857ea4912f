"""The HTTP side, on aiohttp's bare server: a table of routes, completions, streams.

A caller who closes the connection cancels the task that serves it (``handler_cancellation``), as
dropping a future does in the real frontend; everything else follows from that.
"""

from __future__ import annotations

import logging
import socket
import traceback
from collections.abc import Iterable
from typing import Any

from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from client.engine_client import EngineClient
from client.errors import ClientError
from client.output_stream import OutputStream
from harness.reference_frontend.adapters import Adapters
from harness.reference_frontend.admin import AdminRoute
from harness.reference_frontend.answers import Answer, engine_refusal, finish_text
from harness.reference_frontend.call import Call, Reply, compact, json_reply
from harness.reference_frontend.clock import now
from harness.reference_frontend.generation import Generation
from harness.reference_frontend.load import Load
from harness.reference_frontend.log import Bare, Log
from harness.reference_frontend.metrics import Metrics
from harness.reference_frontend.options import ServeSettings
from harness.reference_frontend.requests import (
    Ask,
    CompletionRequest,
    check_prompt,
    read_completion,
    sampling_params,
    unknown_model,
)
from harness.reference_frontend.texts import (
    BAD_REQUEST,
    INTERNAL_TEXT,
    NOT_FOUND,
    SERVER_ERROR,
    Refusal,
    client_error_text,
    error_body,
    since,
    submission_refused,
)

COMPLETIONS = "/v1/completions"
PREFIX = "cmpl-"
BODY_BYTES_MAX = 32 << 20
_METHOD_NOT_ALLOWED = 405
_SILENT = logging.getLogger("wavecheck.http")
"""aiohttp would write a traceback for each head that is no HTTP; its caller is told with a 400."""
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False
_DONE = b"data: [DONE]\n\n"


class HttpServer:
    """Serves HTTP for one client."""

    def __init__(
        self,
        settings: ServeSettings,
        client: EngineClient,
        generation: Generation,
        adapters: Adapters,
        load: Load,
        metrics: Metrics,
        routes: Iterable[AdminRoute],
        log: Log,
    ) -> None:
        """``routes``: of all releases; those that this server has are chosen here."""
        self._settings = settings
        self._profile = settings.profile
        self._client = client
        self._generation = generation
        self._adapters = adapters
        self._load = load
        self._metrics = metrics
        self._log = log
        self._routes = self._chosen(routes)
        self._server = web.Server(
            self._serve,
            request_factory=self._request,
            handler_cancellation=True,
            access_log=None,
            logger=_SILENT,
        )
        self._runner = web.ServerRunner(self._server, shutdown_timeout=1.0)
        self._site: web.SockSite | None = None

    def _chosen(self, routes: Iterable[AdminRoute]) -> dict[str, dict[str, AdminRoute]]:
        settings = self._settings
        is_open = {
            "always": True,
            "dev": settings.dev_mode,
            "lora": settings.lora_prefixes is not None,
            "profiler": settings.profiler,
        }
        found: dict[str, dict[str, AdminRoute]] = {}
        for route in routes:
            if is_open[route.opened_by] and since(self._profile, route.since):
                found.setdefault(route.path, {})[route.verb] = route
        return found

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> Any:
        return web.BaseRequest(
            message,
            payload,
            protocol,
            writer,
            task,
            task.get_loop(),
            client_max_size=BODY_BYTES_MAX,
        )

    # --- life ---

    async def start(self, bound: socket.socket) -> None:
        """Listen on a socket that is bound. Raises ``OSError`` if that cannot be."""
        await self._runner.setup()
        self._site = web.SockSite(self._runner, bound)
        await self._site.start()

    async def stop_listening(self) -> None:
        """Take no new connection; requests under way go on."""
        if self._site is not None:
            await self._site.stop()
            self._site = None

    def cut(self) -> None:
        """Close all connections at once, whatever is under way on them."""
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    async def close(self) -> None:
        """End; answers that are complete are still written."""
        await self._runner.cleanup()

    # --- one request ---

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        with self._load.call():
            try:
                return await self._answer(request)
            except Refusal as refusal:
                return _response(json_reply(error_body(self._profile, refusal), refusal.status))
            except web.HTTPException as error:  # aiohttp's own: a body that is too large
                return _response(Reply(error.status, (error.text or "").encode()))
            except RequestPayloadError as error:  # a body that is not encoded as its head says
                unread = Refusal(BAD_REQUEST, f"Failed to read the request body: {error}")
                return _response(json_reply(error_body(self._profile, unread), unread.status))
            except Exception as error:  # noqa: BLE001 - a fault of ours is shown, never hidden
                self._fault(error)
                body = error_body(self._profile, Refusal(SERVER_ERROR, INTERNAL_TEXT))
                return _response(json_reply(body, SERVER_ERROR))

    def _fault(self, error: Exception) -> None:
        shown = "".join(traceback.format_exception(error))
        self._log("error", "a request failed by a fault of this frontend", error=Bare(shown))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, verb = request.path, request.method
        if path == COMPLETIONS:
            if verb != "POST":
                return _response(Reply(_METHOD_NOT_ALLOWED, headers={"Allow": "POST"}))
            with self._load.generation():
                return await self._complete(await _call(request), request)
        verbs = self._routes.get(path)
        if verbs is None:
            return _response(Reply(NOT_FOUND))
        if verb not in verbs:
            return _response(Reply(_METHOD_NOT_ALLOWED, headers={"Allow": ", ".join(verbs)}))
        return _response(await verbs[verb].handler(await _call(request)))

    # --- completions ---

    async def _complete(self, call: Call, request: web.BaseRequest) -> web.StreamResponse:
        wanted = read_completion(call.json(), self._profile)
        lora = self._lora(wanted.model)
        given = call.header("x-request-id") or wanted.request_id
        external_id = self._generation.external_id(given, PREFIX)
        check_prompt(wanted.prompt, external_id, self._settings.vocabulary, self._profile)
        ask = Ask(
            external_id=external_id,
            prompt=wanted.prompt,
            sampling=sampling_params(
                self._profile,
                max_tokens=self._within_model(wanted),
                temperature=1.0,
                given=wanted.extra,
            ),
            rank=self._client.components.rank_texts().header(
                call.headers.get("x-data-parallel-rank")
            ),
            priority=wanted.priority,
            lora=lora,
        )
        answer = Answer(
            profile=self._profile,
            request_id=external_id,
            model=wanted.model or self._settings.names[0],
            prompt=wanted.prompt,
            created=int(now()),
            return_ids=wanted.return_ids,
        )
        taken = False
        try:
            async with self._generation.stream(ask) as outputs:
                taken = True
                if wanted.stream:
                    usage = wanted.include_usage
                    return await self._stream(request, answer, outputs, include_usage=usage)
                return _response(await self._whole(answer, outputs))
        except ClientError as error:
            if not taken:
                raise submission_refused(error, self._profile) from error
            text = client_error_text(error, self._profile)
            text = f"completion stream failed: engine-core error: {text}"
            raise Refusal(SERVER_ERROR, text) from error

    def _lora(self, model: str | None) -> Any:
        if model is None or model in self._settings.names:
            return None
        adapter = self._adapters.get(model)
        if adapter is None:
            raise unknown_model(model)
        return adapter.wire

    def _within_model(self, wanted: CompletionRequest) -> int:
        longest = self._client.max_model_len()
        if longest is None:
            return wanted.max_tokens
        return max(min(wanted.max_tokens, longest - len(wanted.prompt)), 1)

    async def _whole(self, answer: Answer, outputs: OutputStream) -> Reply:
        last = None
        async for output in outputs:
            answer.tokens += output.new_token_ids
            last = output
        assert last is not None  # a stream ends with an error or an output
        self._count(answer, outputs, finish_text(last.finish_reason, self._profile))
        if (refusal := engine_refusal(last)) is not None:
            raise refusal
        return json_reply(answer.whole(last))

    async def _stream(
        self,
        request: web.BaseRequest,
        answer: Answer,
        outputs: OutputStream,
        *,
        include_usage: bool,
    ) -> web.StreamResponse:
        """Write server-sent events; an error in mid-stream is an event too."""
        response = web.StreamResponse(headers={"Cache-Control": "no-cache"})
        response.content_type = "text/event-stream"
        await response.prepare(request)
        first = True
        try:
            async for output in outputs:
                chunks = [] if not first else [answer.first_chunk()]
                first = False
                refusal = engine_refusal(output)
                if output.new_token_ids:
                    chunks.append(answer.chunk(output))
                if refusal is not None:
                    chunks.append(error_body(self._profile, refusal))
                elif output.finish_reason is not None:
                    chunks.append(answer.last_chunk(output))
                    chunks += [answer.usage_chunk()] if include_usage else []
                if output.finish_reason is not None:
                    self._count(answer, outputs, finish_text(output.finish_reason, self._profile))
                await response.write(b"".join(map(_event, chunks)))
        except ClientError as error:
            text = f"engine-core error: {client_error_text(error, self._profile)}"
            failed = error_body(self._profile, Refusal(SERVER_ERROR, text))
            await response.write(_event(failed))
        await response.write(_DONE)
        await response.write_eof()
        return response

    def _count(self, answer: Answer, outputs: OutputStream, reason: str | None) -> None:
        self._metrics.served(
            outputs.rank, len(answer.prompt), len(answer.tokens), reason or "unknown"
        )


def _event(value: Any) -> bytes:
    return b"data: " + compact(value) + b"\n\n"


async def _call(request: web.BaseRequest) -> Call:
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        headers.setdefault(name.lower(), []).append(value)
    return Call(request.path, tuple(request.query.items()), headers, await request.read())


def _response(reply: Reply) -> web.Response:
    response = web.Response(status=reply.status, body=reply.body or None, headers=reply.headers)
    if reply.content_type is not None:
        response.headers["Content-Type"] = reply.content_type
    elif not reply.body:
        response.headers.pop("Content-Type", None)
    return response
