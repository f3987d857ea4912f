"""vLLM's published field lists as msgspec structs, independent of our codec.

Each list was written down from ``vllm/v1/engine/__init__.py`` of that release. Types that are no
wire matter (sampling parameters, tensors, statistics) are free-form here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec

RELEASES = ("0.22.0", "0.25.0", "0.29.0", "0.33.0")


class Finish(IntEnum):
    STOP = 0
    LENGTH = 1
    ABORT = 2
    ERROR = 3
    REPETITION = 4


class Result:
    """Stands for the wrapper of utility results; goes through the hooks."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Event(msgspec.Struct):
    type: int
    timestamp: float


class Error(msgspec.Struct):
    code: str
    message: str
    retryable: bool


UtilityOutput = msgspec.defstruct(
    "UtilityOutput",
    [("call_id", int), ("failure_message", str | None, None), ("result", Result | None, None)],
    array_like=True,
)

_REQUEST_22: list[Any] = [
    ("request_id", str),
    ("prompt_token_ids", list[int] | None),
    ("mm_features", list[Any] | None),
    ("sampling_params", dict[str, Any] | None),
    ("pooling_params", Any),
    ("arrival_time", float),
    ("lora_request", list[Any] | None),
    ("cache_salt", str | None),
    ("data_parallel_rank", int | None),
    ("prompt_embeds", Any, None),
    ("prompt_is_token_ids", list[bool] | None, None),
    ("client_index", int, 0),
    ("current_wave", int, 0),
    ("priority", int, 0),
    ("trace_headers", dict[str, str] | None, None),
    ("resumable", bool, False),
    ("external_req_id", str | None, None),
    ("reasoning_ended", bool | None, None),
    ("reasoning_parser_kwargs", dict[str, Any] | None, None),
    ("abort_immediately", bool, False),
]
_SESSION = ("session_id", str | None, None)
_KV_HINTS = ("kv_hints", dict[str, Any] | None, None)

_OUTPUT_HEAD: list[Any] = [
    ("request_id", str),
    ("new_token_ids", list[int]),
    ("new_logprobs", list[Any] | None, None),
    ("new_prompt_logprobs_tensors", list[Any] | None, None),
    ("pooling_output", Any, None),
    ("finish_reason", Finish | None, None),
    ("stop_reason", int | str | None, None),
    ("events", list[Event] | None, None),
    ("kv_transfer_params", dict[str, Any] | None, None),
]
_EC_TRANSFER = ("ec_transfer_params", dict[str, Any] | None, None)
_OUTPUT_TAIL: list[Any] = [
    ("trace_headers", dict[str, str] | None, None),
    ("prefill_stats", dict[str, int] | None, None),
    ("routed_experts", Any, None),
    ("num_nans_in_logits", int, 0),
]
_OUTPUT_29: list[Any] = [
    ("mm_cache_miss_hashes", list[str] | None, None),
    ("new_sampling_mask", list[Any] | None, None),
    ("spec_decode_metrics", dict[str, Any] | None, None),
]
_OUTPUT_33: list[Any] = [
    ("prompt_token_id_logprobs", Any, None),
    ("error", Error | None, None),
]

_REQUESTS = {
    "0.22.0": _REQUEST_22,
    "0.25.0": _REQUEST_22,
    "0.29.0": [*_REQUEST_22, _SESSION],
    "0.33.0": [*_REQUEST_22, _SESSION, _KV_HINTS],
}
_OUTPUTS = {
    "0.22.0": [*_OUTPUT_HEAD, *_OUTPUT_TAIL],
    "0.25.0": [*_OUTPUT_HEAD, *_OUTPUT_TAIL],
    "0.29.0": [*_OUTPUT_HEAD, _EC_TRANSFER, *_OUTPUT_TAIL, *_OUTPUT_29],
    "0.33.0": [*_OUTPUT_HEAD, _EC_TRANSFER, *_OUTPUT_TAIL, *_OUTPUT_29, *_OUTPUT_33],
}


@dataclass(frozen=True)
class Structs:
    """The structs of one release, with vLLM's own way of encoding them."""

    request: Any
    output: Any
    outputs: Any

    def encode(self, value: Any) -> bytes:
        return msgspec.msgpack.encode(value, enc_hook=_encode_hook)

    def decode(self, body: bytes, struct: Any) -> Any:
        return msgspec.msgpack.decode(body, type=struct, dec_hook=_decode_hook)


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Result):
        return (None, value.value)
    raise NotImplementedError(type(value))


def _decode_hook(kind: type, value: Any) -> Any:
    if kind is Result:
        _type_info, inner = value
        return Result(inner)
    return value


def structs_for(release: str) -> Structs:
    output = msgspec.defstruct(
        "EngineCoreOutput", _OUTPUTS[release], array_like=True, omit_defaults=True
    )
    envelope: list[Any] = [
        ("engine_index", int, 0),
        ("outputs", list[output], msgspec.field(default_factory=list)),
        ("scheduler_stats", dict[str, Any] | None, None),
        ("timestamp", float, 0.0),
        ("utility_output", UtilityOutput | None, None),
        ("finished_requests", set[str] | None, None),
        ("wave_complete", int | None, None),
        ("start_wave", int | None, None),
    ]
    if release == "0.33.0":
        envelope.append(("weight_version", str | None, None))
    return Structs(
        request=msgspec.defstruct(
            "EngineCoreRequest", _REQUESTS[release], array_like=True, omit_defaults=True
        ),
        output=output,
        outputs=msgspec.defstruct(
            "EngineCoreOutputs", envelope, array_like=True, omit_defaults=True
        ),
    )
