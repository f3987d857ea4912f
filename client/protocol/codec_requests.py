"""Frontend → engine: ADD, ABORT, UTILITY, START_DP_WAVE.

Encoders write every field of their release, as the Rust client does. Decoders are as lenient as
the Python engine: extra trailing fields of ADD are ignored, defaults fill what is missing.

Sources: vLLM ``vllm/v1/engine/__init__.py`` (EngineCoreRequest), ``vllm/v1/engine/core.py``
(input threads); Rust ``engine-core-client/src/protocol/request.rs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from client.protocol.codec_errors import DecodeError, EncodeError
from client.protocol.codec_kept import Table, is_fixed, key_of
from client.protocol.codec_msgpack import BodyPacker, Where, refuse_deep, unpack
from client.protocol.codec_tensors import read_tensor, resolve_nested
from client.protocol.codec_values import (
    Reader,
    optional,
    read_bool,
    read_bools,
    read_float,
    read_int64,
    read_ints,
    read_list,
    read_map,
    read_opaque,
    read_row,
    read_str,
    read_strs,
)
from client.protocol.ids import CallId, RequestId, Wave
from client.protocol.messages import (
    Abort,
    Add,
    EngineCoreRequest,
    EngineInput,
    RequestType,
    StartDpWave,
    UtilityCall,
)
from client.protocol.profiles import Profile

REQUEST_REQUIRED = 9
"""Leading fields of EngineCoreRequest without a default in the Python struct."""
# These parts of sampling_params are free-form; their floats keep 64 bits.
_FLOAT64_PARAMS = ("extra_args", "structured_outputs")
USUAL_NAMES = (
    *("temperature", "top_p", "top_k", "max_tokens", "min_tokens", "min_p"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty"),
    *("stop_token_ids", "_all_stop_token_ids", "_eos_token_id"),
    *("routed_experts_prompt_start", "watermarking", "chat_template_kwargs"),
)
"""Names in the maps of a plain request of the Rust client. That they stand here keeps them: the
library interns the names of a map, so that each request would make all of them and let them go
again, until the interpreter's table of names is full of gaps and is made anew, 2 MiB at a time."""
_BODY_FRAMES_MIN = 2
# ``.value`` of an enum is a call into Python, twice.
_ADD, _ABORT = RequestType.ADD.value, RequestType.ABORT.value
_UTILITY, _START_DP_WAVE = RequestType.UTILITY.value, RequestType.START_DP_WAVE.value
_INPUT = "EngineInput"


_READERS: dict[str, Reader] = {
    "request_id": read_str,
    "prompt_token_ids": optional(read_ints),
    "mm_features": optional(read_list),
    "sampling_params": optional(read_map),
    "pooling_params": optional(read_opaque),
    "arrival_time": read_float,
    "lora_request": optional(read_list),
    "cache_salt": optional(read_str),
    "data_parallel_rank": optional(read_int64),
    "prompt_embeds": read_opaque,
    "prompt_is_token_ids": optional(read_bools),
    "client_index": read_int64,
    "current_wave": read_int64,
    "priority": read_int64,
    "trace_headers": optional(read_map),
    "resumable": read_bool,
    "external_req_id": optional(read_str),
    "reasoning_ended": optional(read_bool),
    "reasoning_parser_kwargs": optional(read_map),
    "abort_immediately": read_bool,
    "session_id": optional(read_str),
    "kv_hints": optional(read_map),
}
_NAME = "EngineCoreRequest"
_WHERE = {name: Where(_NAME, f"{_NAME}.{name}") for name in _READERS}
_ROW = Where(_NAME, _NAME)
_ARRIVAL = EngineCoreRequest.__struct_fields__.index("arrival_time")
_NO_FLOATS = frozenset({int, str, bool, type(None)})
_DEFAULTS = {f.name: f.default for f in msgspec.structs.fields(EngineCoreRequest)}
_INPUTS: Table[EngineInput] = Table()


def encode_add(
    packer: BodyPacker, profile: Profile, request: EngineCoreRequest, aux: Sequence[bytes]
) -> list[bytes]:
    """Encode ADD as ``[type, body, *aux]``.

    Raises:
        EncodeError: a field is set that the release has not, or a value has no msgpack form.
    """
    packer.begin(aux)
    for absent in tuple(_DEFAULTS)[profile.request_fields :]:
        if getattr(request, absent) != _DEFAULTS[absent]:
            raise EncodeError(_NAME, f"release {profile.release} has no field {absent}")
    params = request.sampling_params
    if params is None or all(type(param) in _NO_FLOATS for param in params.values()):
        # Nothing has to be of 32 bits: one call instead of one for each field.
        row = [getattr(request, name) for name in profile.request_field_names]
        row[_ARRIVAL] = float(request.arrival_time)
        return [_ADD, packer.pack(row, _NAME), *packer.aux]
    parts = [packer.array_header(profile.request_fields)]
    for field_name in profile.request_field_names:
        value = getattr(request, field_name)
        if field_name == "sampling_params" and value is not None:
            parts.append(packer.map_header(len(value)))
            for key, param in value.items():
                parts.append(packer.pack(key, _NAME))
                single = key not in _FLOAT64_PARAMS
                parts.append(packer.pack(param, _NAME, single_float=single))
            continue
        if field_name == "arrival_time":
            value = float(value)
        parts.append(packer.pack(value, _NAME))
    body = b"".join(parts)
    refuse_deep(body, _NAME)
    return [_ADD, body, *packer.aux]


def encode_abort(packer: BodyPacker, request_ids: Sequence[RequestId]) -> list[bytes]:
    """Encode ABORT as ``[type, body]``."""
    return [_ABORT, packer.pack(list(request_ids), "Abort")]


def encode_utility(packer: BodyPacker, call: UtilityCall) -> list[bytes]:
    """Encode UTILITY as ``[type, body, *aux]``; ``args`` is always an array."""
    packer.begin()
    row = [call.client_index, call.call_id, call.method, list(call.args)]
    return [_UTILITY, packer.pack(row, "UtilityCall"), *packer.aux]


def encode_start_wave(packer: BodyPacker, message: StartDpWave) -> list[bytes]:
    """Encode START_DP_WAVE as ``[type, body]``."""
    row = [message.wave, message.exclude_engine_index]
    return [_START_DP_WAVE, packer.pack(row, "StartDpWave")]


def decode_engine_input(frames: Sequence[bytes]) -> EngineInput:
    """Decode what reaches an engine after startup.

    Args:
        frames: type, body and aux frames; no identity.

    Raises:
        DecodeError: unknown type, missing body, or a body of another shape.
    """
    key = key_of(frames)
    kept = _INPUTS.get(key)
    if kept is not None:
        return kept
    decoded = _decode_input(frames)
    if key is not None and is_fixed(decoded):
        _INPUTS.keep(key, decoded, sum(map(len, frames)))
    return decoded


def _decode_input(frames: Sequence[bytes]) -> EngineInput:
    if len(frames) < _BODY_FRAMES_MIN:
        raise DecodeError(_INPUT, "frames", f"expected type and body, got {len(frames)}")
    kind = bytes(frames[0])
    body = frames[1:]
    if kind == _ADD:
        return _decode_add(body)
    if kind == _ABORT:
        ids = read_strs(unpack(body[0], "Abort"), Where("Abort", "Abort.request_ids"))
        return Abort(request_ids=tuple([RequestId(item) for item in ids]))
    if kind == _UTILITY:
        return _decode_utility(body[0])
    if kind == _START_DP_WAVE:
        return _decode_start_wave(body)
    raise DecodeError(_INPUT, "type", f"unknown request type {kind[:8].hex() or 'empty'}")


def _decode_add(frames: Sequence[bytes]) -> Add:
    row = read_row(unpack(frames[0], _NAME), _ROW, REQUEST_REQUIRED, None)
    values: dict[str, Any] = {}
    for (name, read), raw in zip(_READERS.items(), row, strict=False):
        values[name] = read(raw, _WHERE[name])
    embeds, features = values.get("prompt_embeds"), values["mm_features"]
    if embeds is not None:
        values["prompt_embeds"] = read_tensor(embeds, _WHERE["prompt_embeds"], frames)
    if features is not None:
        values["mm_features"] = resolve_nested(features, _WHERE["mm_features"], frames)
    return Add(request=EngineCoreRequest(**values), aux=tuple([bytes(f) for f in frames[1:]]))


def _decode_utility(body: bytes) -> UtilityCall:
    name = "UtilityCall"
    row = read_row(unpack(body, name), Where(name, name), 4, 4)
    return UtilityCall(
        client_index=read_int64(row[0], Where(name, "UtilityCall.client_index")),
        call_id=CallId(read_int64(row[1], Where(name, "UtilityCall.call_id"))),
        method=read_str(row[2], Where(name, "UtilityCall.method")),
        args=read_list(row[3], Where(name, "UtilityCall.args")),
    )


def _decode_start_wave(frames: Sequence[bytes]) -> StartDpWave:
    name = "StartDpWave"
    if len(frames) != 1:
        raise DecodeError(name, "frames", f"expected type and body, got {len(frames) + 1}")
    row = read_row(unpack(frames[0], name), Where(name, name), 2, 2)
    exclude = row[1]
    if exclude is not None:
        exclude = read_int64(exclude, Where(name, "StartDpWave.exclude_engine_index"))
    wave = read_int64(row[0], Where(name, "StartDpWave.wave"))
    return StartDpWave(wave=Wave(wave), exclude_engine_index=exclude)
