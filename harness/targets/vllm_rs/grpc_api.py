"""The gRPC side of the frontend: Generate and GenerateStream with explicit rank.

Source: vLLM ``rust/src/server/src/grpc``; the rank travels as metadata (#51178, #48033).
"""

from __future__ import annotations

from typing import Any

from harness.scenario.model import CallStep
from harness.targets.base import CallResult, OnOutput
from harness.targets.vllm_rs.client_errors import grpc_error_name
from harness.targets.vllm_rs.grpc_schema import FINISH_REASONS, load_grpc, messages, service
from harness.targets.vllm_rs.http_api import CONNECTION_LOST

RANK_METADATA = "x-data-parallel-rank"


def rank_metadata(step: CallStep) -> list[tuple[str, str]]:
    """Return the rank as metadata, texts exactly as given."""
    if step.rank_text is not None:
        return [(RANK_METADATA, text) for text in step.rank_text]
    return [] if step.rank is None else [(RANK_METADATA, str(step.rank))]


class GrpcApi:
    """Calls to one frontend. ``close`` when done."""

    def __init__(self, port: int, release: str, model: str) -> None:
        """Make a client for 127.0.0.1:``port``; nothing is sent yet."""
        self._grpc = load_grpc()
        self._model = model
        self._messages = messages()
        self._channel = self._grpc.aio.insecure_channel(
            f"127.0.0.1:{port}",
            options=[
                ("grpc.enable_http_proxy", 0),
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_retries", 0),
            ],
        )
        response = self._messages["GenerateResponse"].FromString
        name = service(release)
        self._unary = self._channel.unary_unary(
            f"/{name}/Generate", request_serializer=_serialize, response_deserializer=response
        )
        self._stream = self._channel.unary_stream(
            f"/{name}/GenerateStream", request_serializer=_serialize, response_deserializer=response
        )

    async def close(self) -> None:
        """Close the channel; open calls are cancelled."""
        await self._channel.close(None)

    async def generate(
        self, step: CallStep, request_id: str, on_output: OnOutput, *, stream: bool
    ) -> CallResult:
        """Run one generation. Cancelling it cancels the call (RST_STREAM)."""
        request = self._request(step, request_id)
        metadata = rank_metadata(step)
        finish: str | None = None
        try:
            if stream:
                call = self._stream(request, metadata=metadata)
                try:
                    async for response in call:
                        finish = _take(response, on_output) or finish
                finally:
                    call.cancel()
            else:
                finish = _take(await self._unary(request, metadata=metadata), on_output)
        except self._grpc.aio.AioRpcError as error:
            return _failed(error, finish)
        if finish is None:
            return CallResult(
                "failed", None, CONNECTION_LOST, "the call ended without a finish reason"
            )
        return CallResult("finished", finish)

    def _request(self, step: CallStep, request_id: str) -> Any:
        request = self._messages["GenerateRequest"](request_id=request_id, model=self._model)
        request.token_ids.ids.extend(step.prompt)
        request.stopping.max_new_tokens = step.max_tokens
        request.response.output_token_ids = True
        if step.kv_transfer_params is not None:
            request.kv.kv_transfer_params.update(step.kv_transfer_params)
        return request


def _failed(error: Any, finish: str | None) -> CallResult:
    code, details = error.code().name, error.details() or ""
    if code == "UNAVAILABLE":
        return CallResult("failed", finish, CONNECTION_LOST, details)
    return CallResult("failed", finish, grpc_error_name(code, details), details)


def _serialize(request: Any) -> bytes:
    data: bytes = request.SerializeToString()
    return data


def _take(response: Any, on_output: OnOutput) -> str | None:
    """Report the outputs of one message and return the finish reason, if any."""
    finish: str | None = None
    for output in response.outputs:
        if output.HasField("finish_info"):
            finish = FINISH_REASONS.get(output.finish_info.finish_reason)
        tokens = tuple(output.token_ids)
        if tokens or finish is not None:
            on_output(tokens, finish)
    return finish
