"""The fields of EngineCoreOutput: how the client of a release reads each one.

Source: vLLM ``vllm/v1/engine/__init__.py`` (EngineCoreOutput, EngineCoreEvent),
``vllm/outputs.py`` (RequestError), ``vllm/v1/metrics/stats.py`` (PrefillStats,
RequestSpecDecodeMetrics); Rust ``engine-core-client/src/protocol/output.rs``; each reader was
measured on the binaries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from client.protocol.codec_logprobs import read_logprobs, read_sampling_mask
from client.protocol.codec_msgpack import Where
from client.protocol.codec_tensors import read_tensor
from client.protocol.codec_values import (
    Reader,
    check_keys,
    optional,
    read_bool,
    read_float,
    read_int,
    read_json,
    read_list,
    read_opaque,
    read_row,
    read_struct,
    read_text,
    read_texts,
    read_u32s,
    read_u64,
    read_u64s,
    refuse,
)
from client.protocol.ids import U32_MAX
from client.protocol.messages import EngineCoreOutput, FinishReason, RequestError
from client.protocol.profiles import Profile

MESSAGE = "EngineCoreOutputs"
OUTPUT_REQUIRED = 2
"""Leading fields of EngineCoreOutput without a default."""

FrameReader = Callable[[Any, Where, Sequence[bytes], Profile], Any]
"""A check that may look into the message's frames."""


def _read_finish_reason(value: Any, where: Where) -> FinishReason:
    return FinishReason(read_int(value, where, 0, max(FinishReason)))


def _read_stop_reason(value: Any, where: Where) -> int | str:
    if type(value) is int and 0 <= value <= U32_MAX:
        return value
    if type(value) is str or type(value) is bytes:
        return read_text(value, where)
    raise refuse(where, "u32 token id or string", value)


def _read_event_type(value: Any, where: Where) -> int:
    return read_int(value, where, 1, 3)


_EVENT: dict[str, Reader] = {"type": _read_event_type, "timestamp": read_float}


def _read_events(value: Any, where: Where) -> tuple[Any, ...]:
    events = read_list(value, where)
    for event in events:
        values = event
        if type(event) is list:
            values = dict(zip(_EVENT, read_row(event, where, 2, 2), strict=True))
        check_keys(read_struct(values, where), where.message, "EngineCoreEvent", _EVENT, _EVENT)
    return tuple(events)


_PREFILL: dict[str, Reader] = dict.fromkeys(
    (
        "num_prompt_tokens",
        "num_computed_tokens",
        "num_cached_tokens",
        "num_local_cached_tokens",
        "num_external_cached_tokens",
        "num_cache_creation_tokens",
    ),
    read_int,
)


def _read_prefill_stats(value: Any, where: Where) -> Any:
    values = value
    if type(value) is list:
        row = read_row(value, where, 0, len(_PREFILL))
        values = dict(zip(_PREFILL, row, strict=False))
    if type(values) is not dict:
        raise refuse(where, "map", value)
    check_keys(values, where.message, "PrefillStats", _PREFILL, ())
    return value


_SPEC_DECODE: dict[str, Reader] = {
    "num_spec_tokens": read_u64,
    "histogram": read_u64s,
    "num_draft_tokens": read_u64,
    "per_step_accepted": read_u64s,
    "per_step_drafted": read_u64s,
}


def _read_spec_decode(value: Any, where: Where) -> Any:
    values = value
    if type(value) is list:
        row = read_row(value, where, 0, len(_SPEC_DECODE))
        values = dict(zip(_SPEC_DECODE, row, strict=False))
    if type(values) is not dict:
        raise refuse(where, "map", value)
    check_keys(values, where.message, "RequestSpecDecodeMetrics", _SPEC_DECODE, ())
    return value


_ERROR: dict[str, Reader] = {"code": read_text, "message": read_text, "retryable": read_bool}
_ERROR_REQUIRED = ("code", "message")


def _read_error(value: Any, where: Where) -> RequestError:
    values = value
    if type(value) is list:
        row = read_row(value, Where(where.message, "RequestError"), 2, len(_ERROR))
        values = dict(zip(_ERROR, row, strict=False))
    check_keys(read_struct(values, where), where.message, "RequestError", _ERROR, _ERROR_REQUIRED)
    return RequestError(
        code=read_text(values["code"], where),
        message=read_text(values["message"], where),
        retryable=values.get("retryable", False),
    )


READERS: dict[str, Reader] = {
    "request_id": read_text,
    "new_token_ids": read_u32s,
    "new_logprobs": read_opaque,
    "new_prompt_logprobs_tensors": read_opaque,
    "pooling_output": read_opaque,
    "finish_reason": optional(_read_finish_reason),
    "stop_reason": optional(_read_stop_reason),
    "events": optional(_read_events),
    "kv_transfer_params": read_json,
    "ec_transfer_params": read_json,
    "trace_headers": read_opaque,
    "prefill_stats": optional(_read_prefill_stats),
    "routed_experts": read_opaque,
    "num_nans_in_logits": read_int,
    "mm_cache_miss_hashes": optional(read_texts),
    "new_sampling_mask": read_opaque,
    "spec_decode_metrics": read_opaque,
    "prompt_token_id_logprobs": read_opaque,
    "error": optional(_read_error),
}
"""All fields, whichever release has them."""


def _read_any_tensor(value: Any, where: Where, frames: Sequence[bytes], profile: Profile) -> Any:
    return read_tensor(value, where, frames, dtype_is_form=profile.unknown_dtype_is_decode_error)


def _read_spec_decode_metrics(
    value: Any, where: Where, _frames: Sequence[bytes], _profile: Profile
) -> Any:
    return _read_spec_decode(value, where)


_ALWAYS_TYPED: dict[str, FrameReader] = {
    "new_logprobs": read_logprobs,
    "new_prompt_logprobs_tensors": read_logprobs,
}
_TYPED_LATER: dict[str, FrameReader] = {
    "routed_experts": _read_any_tensor,
    "new_sampling_mask": read_sampling_mask,
    "spec_decode_metrics": _read_spec_decode_metrics,
    "prompt_token_id_logprobs": _read_any_tensor,
}
_WHERE = {name: Where(MESSAGE, f"EngineCoreOutput.{name}") for name in READERS}
_ROW = Where(MESSAGE, "EngineCoreOutput")


def read_output(profile: Profile, value: Any, frames: Sequence[bytes]) -> EngineCoreOutput:
    """Read one row.

    Args:
        profile: field order, and how many trailing fields are taken.
        value: the decoded array.
        frames: the message's frames from the body on.

    Raises:
        DecodeError: fewer than two or too many elements, or a field is wrong.
        ExtValueDecodeError: a tensor cannot be resolved or does not fit.
    """
    row = read_row(value, _ROW, OUTPUT_REQUIRED, profile.output_fields_max)
    values: dict[str, Any] = {}
    for name, raw in zip(profile.output_field_names, row, strict=False):
        values[name] = READERS[name](raw, _WHERE[name])
    for name, read in _ALWAYS_TYPED.items():
        if values.get(name) is not None:
            values[name] = read(values[name], _WHERE[name], frames, profile)
    for name, read in _TYPED_LATER.items():
        if name in profile.typed_output_fields and values.get(name) is not None:
            values[name] = read(values[name], _WHERE[name], frames, profile)
    return EngineCoreOutput(**values)
