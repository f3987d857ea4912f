"""The gRPC side of the frontend: generations with explicit rank, and any other call.

Source: vLLM ``rust/src/server/src/grpc``; the rank travels as metadata (#51178, #48033).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from client.aio import turn
from harness.scenario.model import CallStep, GrpcStep
from harness.targets.base import (
    CallResult,
    OnOutput,
    RequestResult,
    TargetError,
    request_is_off,
)
from harness.targets.vllm_rs.client_errors import GRPC_ENGINE_ERROR, grpc_error_name
from harness.targets.vllm_rs.grpc_messages import (
    FINISH_REASONS,
    VLLM,
    full_name,
    method_named,
)
from harness.targets.vllm_rs.grpc_schema import load_grpc, messages, service
from harness.targets.vllm_rs.http_wire import CONNECTION_LOST, CONNECTION_REFUSED

RANK_METADATA = "x-data-parallel-rank"
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # That of a Unix socket would be its path, which the server's HTTP/2 refuses.
    ("grpc.default_authority", "localhost"),
)
_SLOW_OPTIONS = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1_024))
"""For callers who do not read: the library must not read ahead for them."""
_RETRYABLE = "UNAVAILABLE"
"""Status of an engine's retryable error (≥ 0.33), and of the library's own failures."""
_LIBRARY_WORDS = re.compile(r"Stream removed|Socket closed|GOAWAY|recvmsg:|Connection reset")
_PROBE = f"/{VLLM}.Wavecheck/Probe"
_PROBE_TIMEOUT_S = 5.0
WaitAtGate = Callable[[str], Awaitable[None]]


def rank_metadata(step: CallStep) -> list[tuple[str, str]]:
    """Return the rank as metadata, texts exactly as given."""
    if step.rank_text is not None:
        return [(RANK_METADATA, text) for text in step.rank_text]
    return [] if step.rank is None else [(RANK_METADATA, str(step.rank))]


class GrpcApi:
    """Calls to one frontend. ``close`` when done."""

    def __init__(
        self, address: str, release: str, model: str, wait_at: WaitAtGate | None = None
    ) -> None:
        """Make a client for ``host:port`` or ``unix:path``; nothing is sent yet.

        ``wait_at``: returns when a named gate is open.
        """
        self._grpc = load_grpc()
        self._address = address
        self._service = service(release)
        self._model = model
        self._wait_at = wait_at
        self._messages = messages()
        self._channel = self._open()
        self._slow: Any = None

    def _open(self, *more: tuple[str, int]) -> Any:
        return self._grpc.aio.insecure_channel(self._address, options=[*_OPTIONS, *more])

    async def close(self) -> None:
        """Close the channels; open calls are cancelled."""
        await self._channel.close(None)
        if self._slow is not None:
            await self._slow.close(None)

    async def settled(self) -> None:
        """Return once the server has read all that was sent on the connection before.

        A call to a method that does not exist is answered by the server's router, behind the
        frames that came first, such as those of callers who left.
        """
        call = self._channel.unary_unary(_PROBE)(b"", timeout=_PROBE_TIMEOUT_S)
        with suppress(self._grpc.aio.AioRpcError):
            await call

    # --- any call -----------------------------------------------------------------------

    async def call(self, step: GrpcStep) -> RequestResult:
        """Make any call. Cancelling it cancels the call (RST_STREAM).

        The messages of a stream are collected; its result is there when the stream has ended.
        """
        name = full_name(step.method)
        method = method_named(step.method)
        path = "/" + name.replace(f"{VLLM}.Inference/", f"{self._service}/")
        metadata = list(step.metadata.items())
        if method is None:
            if step.request:
                msg = f"{step.id}: the fields of {name} are unknown, so its request must be empty"
                raise TargetError(msg)
            wire = bytes.fromhex(step.wire or "")
            call = self._channel.unary_unary(path)(wire, metadata=metadata)
            return await self._finish(_one(call, None))
        decode = self._messages[method.response].FromString
        kind = self._channel.unary_stream if method.stream else self._channel.unary_unary
        request = bytes.fromhex(step.wire or "")
        if step.wire is None:
            request = _serialize(self._parse(step.id, method.request, step.request))
        call = kind(path, response_deserializer=decode)(request, metadata=metadata)
        return await self._finish(_all(call) if method.stream else _one(call, _to_dict))

    async def _finish(self, answer: Awaitable[Any]) -> RequestResult:
        try:
            body = await answer
        except self._grpc.aio.AioRpcError as error:
            code, details = error.code().name, error.details() or ""
            if (lost := _lost(error)) is not None:
                return RequestResult("failed", None, None, details, lost)
            return RequestResult("finished", code, None, details)
        text = "" if body is None else json.dumps(body)
        return RequestResult("finished", "OK", body, text)

    def _parse(self, what: str, kind: str, fields: Mapping[str, Any]) -> Any:
        from google.protobuf import json_format

        message = self._messages[kind]()
        try:
            json_format.ParseDict(dict(fields), message)
        except json_format.ParseError as error:
            msg = f"{what}: no {kind} can be made of {dict(fields)!r}: {error}"
            raise TargetError(msg) from error
        return message

    # --- generations --------------------------------------------------------------------

    async def generate(
        self, step: CallStep, request_id: str, on_output: OnOutput, *, stream: bool
    ) -> CallResult:
        """Run one generation. Cancelling it cancels the call (RST_STREAM)."""
        request = self._request(step, request_id)
        metadata = [*rank_metadata(step), *((k.lower(), v) for k, v in step.headers.items())]
        channel = self._channel if step.read is None else self._slow_channel()
        kind = channel.unary_stream if stream else channel.unary_unary
        call = kind(
            f"/{self._service}/{'GenerateStream' if stream else 'Generate'}",
            request_serializer=_serialize,
            response_deserializer=self._messages[f"{VLLM}.GenerateResponse"].FromString,
        )(request, metadata=metadata)
        reading = _Reading(on_output)
        try:
            await turn()  # the library's task takes the request over
            request_is_off()
            await self._gate(step.read)
            if stream:
                async for response in call:
                    reading.take(response)
            else:
                reading.take(await call)
        except self._grpc.aio.AioRpcError as error:
            return _failed(error, reading)
        finally:
            call.cancel()
        if reading.finish is None:
            message = "the call ended without a finish reason"
            return reading.result("failed", CONNECTION_LOST, message, "OK")
        return reading.result("finished", None, "", "OK")

    def _slow_channel(self) -> Any:
        if self._slow is None:
            self._slow = self._open(*_SLOW_OPTIONS)
        return self._slow

    async def _gate(self, name: str | None) -> None:
        if name is None:
            return
        if self._wait_at is None:
            msg = f"nobody can open gate {name!r} here"
            raise TargetError(msg)
        await self._wait_at(name)

    def _request(self, step: CallStep, request_id: str) -> Any:
        fields: dict[str, Any] = {
            "request_id": request_id,
            "model": self._model,
            "token_ids": {"ids": list(step.prompt)},
            "stopping": {"max_new_tokens": step.max_tokens, "stop_strings": list(step.stop)},
            "response": {"output_token_ids": True},
        }
        if step.kv_transfer_params is not None:
            fields["kv"] = {"kv_transfer_params": step.kv_transfer_params}
        request = self._parse(step.id, f"{VLLM}.GenerateRequest", fields)
        if step.body:
            request.MergeFrom(self._parse(step.id, f"{VLLM}.GenerateRequest", step.body))
        return request


class _Reading:
    """What was read of one generation so far."""

    def __init__(self, on_output: OnOutput) -> None:
        self._on_output = on_output
        self.finish: str | None = None
        self.text = ""
        self.kv: Mapping[str, Any] | None = None
        self.last: Any = None

    def take(self, response: Any) -> None:
        """Report the outputs of one message."""
        self.last = response
        for output in response.outputs:
            finish = None
            if output.HasField("finish_info"):
                info = output.finish_info
                finish = self.finish = FINISH_REASONS.get(info.finish_reason)
                if info.HasField("kv_transfer_params"):
                    self.kv = _to_dict(info.kv_transfer_params)
            tokens = tuple(output.token_ids)
            self.text += output.text
            if tokens or output.text or finish is not None:
                self._on_output(tokens, finish, output.text)

    def end(self, finish: str) -> None:
        """Report an end without an output of its own."""
        self.finish = finish
        self._on_output((), finish)

    def result(self, outcome: str, error: str | None, message: str, status: str) -> CallResult:
        """Return the result with all that was read."""
        return CallResult(
            outcome,
            self.finish,
            error,
            message,
            kv_transfer_params=self.kv,
            status=status,
            text=self.text,
            body=None if self.last is None else _to_dict(self.last),
        )


async def _one(call: Any, decode: Callable[[Any], Any] | None) -> Any:
    try:
        response = await call
        return None if decode is None else decode(response)
    finally:
        call.cancel()


async def _all(call: Any) -> Any:
    found = []
    try:
        async for response in call:
            found.append(_to_dict(response))
    finally:
        call.cancel()
    return found


def _failed(error: Any, reading: _Reading) -> CallResult:
    """Tell an output with finish reason *error* from a failure, as over HTTP."""
    code, details = error.code().name, error.details() or ""
    if (lost := _lost(error)) is not None:
        return reading.result("failed", lost, details, code)
    name = grpc_error_name(code, details)
    if details == GRPC_ENGINE_ERROR or code == _RETRYABLE:
        reading.end("error")
        return reading.result("finished", name, details, code)
    return reading.result("failed", name, details, code)


def _lost(error: Any) -> str | None:
    """Name what became of the connection, ``None`` if the server itself gave this status.

    A server's status comes with metadata: behind it, or, in a stream, at its beginning; then
    only the library's own words tell that the connection broke later.
    """
    details = error.details() or ""
    if error.code().name != _RETRYABLE or error.trailing_metadata():
        return None
    if error.initial_metadata() and _LIBRARY_WORDS.match(details) is None:
        return None
    return CONNECTION_REFUSED if details.startswith("failed to connect") else CONNECTION_LOST


def _serialize(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return data


def _to_dict(message: Any) -> Any:
    """Return a message as JSON values, zeros included, under the names of the schema."""
    from google.protobuf import json_format

    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
