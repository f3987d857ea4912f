"""gRPC ``Generate`` and ``GenerateStream``: requests in, outputs out, ranks in metadata.

The rank rule of 0.28 is kept in every release: before, the real frontend does not look at the
metadata, which is one of its known faults. A generation that an engine ends with *error* is an
error here in every release too; the real one shows it as an aborted success up to 0.29.

Source: protocol page, sections 7.3 and 18.3; statuses and texts as measured.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from google.protobuf import json_format

from client.engine_client import EngineClient
from client.errors import ClientError, InvalidDataParallelRank, InvalidRankMetadata
from client.protocol.messages import EngineCoreOutput, FinishReason
from client.rank_metadata import RANK_METADATA_KEY
from harness.reference_frontend.adapters import Adapters
from harness.reference_frontend.answers import Text
from harness.reference_frontend.generation import Generation
from harness.reference_frontend.grpc_messages import messages
from harness.reference_frontend.metrics import Metrics
from harness.reference_frontend.options import ServeSettings
from harness.reference_frontend.requests import Ask, check_prompt, sampling_params
from harness.reference_frontend.texts import Refusal, client_error_text

ENGINE_ERROR = "engine failed during generation"
_FINISH = {FinishReason.LENGTH: 1, FinishReason.STOP: 2}
_ABORTED = 3
"""Number of every other reason."""


class Status(Exception):  # noqa: N818  (an answer, not a fault of ours)
    """Ends a call with a status that is not OK."""

    def __init__(self, code: Any, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(text)


class Generate:
    """The two methods of one server."""

    def __init__(
        self,
        settings: ServeSettings,
        client: EngineClient,
        generation: Generation,
        adapters: Adapters,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._client = client
        self._profile = settings.profile
        self._generation = generation
        self._adapters = adapters
        self._metrics = metrics
        self._messages = messages()

    async def unary(self, request: Any, context: Any) -> Any:
        """Return all outputs in one message. Raises ``Status``."""
        whole = None
        async for response in self._responses(request, context, merged=True):
            whole = response
        return whole

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Yield the prompt's size with the first output, then each output. Raises ``Status``."""
        async for response in self._responses(request, context, merged=False):
            yield response

    async def _responses(self, request: Any, context: Any, *, merged: bool) -> AsyncIterator[Any]:
        ask = self._ask(request, context.invocation_metadata())
        shape = _Shape(self._messages, request, ask.prompt)
        try:
            async with self._generation.stream(ask) as outputs:
                if merged:
                    taken = [output async for output in outputs]
                    yield self._merged(shape, taken)
                else:
                    first = True
                    async for output in outputs:
                        _check(output)
                        if first:
                            yield shape.prompt_info()
                        first = False
                        yield shape.response([output])
                reason = shape.reason or "unknown"
                self._metrics.served(outputs.rank, len(ask.prompt), shape.count, reason)
        except InvalidDataParallelRank as error:
            text = f"engine-core error: {client_error_text(error, self._profile)}"
            raise Status(grpc.StatusCode.INVALID_ARGUMENT, text) from error
        except ClientError as error:
            text = f"engine-core error: {client_error_text(error, self._profile)}"
            raise Status(grpc.StatusCode.INTERNAL, text) from error

    @staticmethod
    def _merged(shape: _Shape, outputs: Sequence[EngineCoreOutput]) -> Any:
        _check(outputs[-1])
        response = shape.response(outputs)
        response.prompt_info.CopyFrom(shape.prompt_info().prompt_info)
        return response

    def _ask(self, request: Any, metadata: Any) -> Ask:
        """Read a request. Raises ``Status``."""
        model = request.model
        adapter = self._adapters.get(model)
        if model and model not in self._settings.names and adapter is None:
            raise Status(grpc.StatusCode.NOT_FOUND, f"model `{model}` not found")
        if request.WhichOneof("prompt") is None:
            raise Status(grpc.StatusCode.INVALID_ARGUMENT, "prompt is required")
        if request.stopping.stop_strings or request.sampling.num_sequences > 1:
            text = "the reference frontend carries out neither stop strings nor several sequences"
            raise Status(grpc.StatusCode.UNIMPLEMENTED, text)
        texts = [value for key, value in metadata or () if key == RANK_METADATA_KEY]
        external_id = self._generation.external_id(request.request_id, "")
        prompt = tuple(request.token_ids.ids) or tuple(request.text.encode())
        try:
            rank = self._client.components.rank_texts().metadata(texts or None)
            check_prompt(prompt, external_id, self._settings.vocabulary, self._profile)
        except (InvalidRankMetadata, Refusal) as error:
            raise Status(grpc.StatusCode.INVALID_ARGUMENT, _text(error)) from error
        return Ask(
            external_id=external_id,
            prompt=prompt,
            sampling=sampling_params(
                self._profile,
                max_tokens=self._max_tokens(request, len(prompt)),
                temperature=0.0,
                given=_given(request),
            ),
            rank=rank,
            priority=request.priority,
            lora=None if adapter is None else adapter.wire,
        )

    def _max_tokens(self, request: Any, prompt: int) -> int:
        """Return the limit asked for; 0 means as many as the model has room for."""
        longest = self._client.max_model_len()
        asked: int = request.stopping.max_new_tokens
        if longest is None:
            return asked or 1
        return max(min(asked or longest, longest - prompt), 1)


class _Shape:
    """Builds the responses to one request."""

    def __init__(self, kinds: dict[str, Any], request: Any, prompt: Sequence[int]) -> None:
        self._kinds = kinds
        self._options = request.response
        self._prompt = prompt
        self._text = Text()
        self.count = 0
        self.reason: str | None = None

    def prompt_info(self) -> Any:
        response = self._kinds["GenerateResponse"]()
        response.prompt_info.num_prompt_tokens = len(self._prompt)
        if self._options.prompt_token_ids:
            response.prompt_info.token_ids.extend(self._prompt)
        return response

    def response(self, outputs: Sequence[EngineCoreOutput]) -> Any:
        response = self._kinds["GenerateResponse"]()
        tokens = [token for output in outputs for token in output.new_token_ids]
        last = outputs[-1]
        ended = last.finish_reason is not None
        self.count += len(tokens)
        shown = response.outputs
        shown.num_tokens = len(tokens)
        if self._options.output_text or not self._options.HasField("output_text"):
            shown.text = self._text.add(tokens, last=ended)
        if self._options.output_token_ids:
            shown.token_ids.extend(tokens)
        if last.finish_reason is not None:
            self.reason = last.finish_reason.name.lower()
            info = shown.finish_info
            info.num_output_tokens = self.count
            info.finish_reason = _FINISH.get(last.finish_reason, _ABORTED)
            if isinstance(last.stop_reason, int):
                info.stop_token_id = last.stop_reason
            elif last.stop_reason is not None:
                info.stop_string = last.stop_reason
        return response


def _check(output: EngineCoreOutput) -> None:
    if output.finish_reason is FinishReason.ERROR:
        raise Status(grpc.StatusCode.INTERNAL, ENGINE_ERROR)


def _given(request: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "min_tokens": request.stopping.min_new_tokens,
        "stop_token_ids": list(request.stopping.stop_token_ids),
        "top_k": request.sampling.top_k,
        "min_p": request.sampling.min_p,
    }
    if request.sampling.top_p:
        found["top_p"] = request.sampling.top_p
    if request.HasField("temperature"):
        found["temperature"] = request.temperature
    if request.sampling.HasField("seed"):
        found["seed"] = request.sampling.seed
    if request.kv.HasField("kv_transfer_params"):
        found["kv_transfer_params"] = json_format.MessageToDict(request.kv.kv_transfer_params)
    return found


def _text(error: Exception) -> str:
    return error.message if isinstance(error, Refusal) else str(error)


Method = Callable[[Any, Any], Any]
