"""Startup messages and the external coordinator's messages.

Startup bodies are msgpack maps; unknown keys are ignored.

Sources: vLLM ``vllm/v1/engine/utils.py``, ``vllm/v1/engine/core.py`` (handshake, ready
response), ``vllm/v1/engine/coordinator.py`` (publishes); Rust
``engine-core-client/src/protocol/handshake.rs``, ``coordinator/external.rs``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from client.protocol.codec_errors import DecodeError, HandshakeStatusError
from client.protocol.codec_kept import KEPT_MAX, SHORT_BYTES, Kept
from client.protocol.codec_msgpack import BodyPacker, Where, unpack
from client.protocol.codec_values import (
    Reader,
    check_keys,
    optional,
    read_bool,
    read_float,
    read_int,
    read_int64,
    read_list,
    read_map,
    read_row,
    read_str,
    read_strs,
    read_struct,
    read_text,
    read_u64,
    refuse,
    shown,
)
from client.protocol.ids import Wave
from client.protocol.messages import (
    CoordinatorPublish,
    FirstRequestNotice,
    Hello,
    Init,
    Ready,
    ReadyResponse,
)
from client.protocol.profiles import Profile

HANDSHAKE = "ReadyMessage"
"""One name for HELLO and READY, as in the Rust client."""
READY_RESPONSE = "EngineCoreReadyResponse"
PUBLISH = "CoordinatorPublish"
NOTICE = "FirstRequestNotice"
DTYPES = ("float16", "bfloat16", "float32")
_KNOWN_READY_KEYS = ("status", "local", "headless")
_PUBLISH_ELEMENTS = 3
_NOTICE_ELEMENTS = 2


# --- handshake -----------------------------------------------------------------------------


def encode_hello(packer: BodyPacker, hello: Hello) -> bytes:
    """Encode HELLO."""
    body = {"status": "HELLO", "local": hello.local, "headless": hello.headless}
    return packer.pack(body, HANDSHAKE)


def encode_ready(packer: BodyPacker, ready: Ready) -> bytes:
    """Encode the handshake's READY, extra keys behind the known ones."""
    body = {"status": "READY", "local": ready.local, "headless": ready.headless, **ready.extra}
    return packer.pack(body, HANDSHAKE)


def decode_hello_or_ready(body: bytes) -> Hello | Ready:
    """Decode what an engine says on the handshake socket.

    Raises:
        HandshakeStatusError: ``status`` is missing, nil or some other string.
        DecodeError: no map, or a known key of another type.
    """
    return (_greeting if len(body) > SHORT_BYTES else _kept_greeting)(body)


def _greeting(body: bytes) -> Hello | Ready:
    values = read_struct(unpack(body, HANDSHAKE, trailing=True), Where(HANDSHAKE, HANDSHAKE))
    where = Where(HANDSHAKE, "ReadyMessage.status")
    status = optional(read_text)(values.get("status"), where)
    local = _flag(values, "local", default=True)
    headless = _flag(values, "headless", default=False)
    if status == "HELLO":
        return Hello(local=local, headless=headless)
    if status == "READY":
        extra = {key: item for key, item in values.items() if key not in _KNOWN_READY_KEYS}
        return Ready(local=local, headless=headless, extra=extra)
    raise HandshakeStatusError(
        where.message, where.field, f"unexpected handshake status {shown(status)}"
    )


_kept_greeting = functools.lru_cache(maxsize=KEPT_MAX)(_greeting)


def _flag(values: Mapping[Any, Any], key: str, *, default: bool) -> bool:
    value = values.get(key)
    return default if value is None else read_bool(value, Where(HANDSHAKE, f"{HANDSHAKE}.{key}"))


def encode_init(packer: BodyPacker, init: Init) -> bytes:
    """Encode INIT."""
    addresses = {
        "inputs": list(init.inputs),
        "outputs": list(init.outputs),
        "coordinator_input": init.coordinator_input,
        "coordinator_output": init.coordinator_output,
        "frontend_stats_publish_address": init.frontend_stats_publish_address,
    }
    body = {"addresses": addresses, "parallel_config": init.parallel_config}
    return packer.pack(body, "Init")


def decode_init(body: bytes) -> Init:
    """Decode INIT.

    Raises:
        DecodeError: no such map, or an address of another type.
    """
    return (_init if len(body) > SHORT_BYTES else _kept_init)(body)


def _init(body: bytes) -> Init:
    values = read_map(unpack(body, "Init"), Where("Init", "Init"))
    where = Where("Init", "Init.addresses")
    addresses = read_map(values.get("addresses"), where)
    texts: dict[str, str | None] = {
        key: optional(read_str)(addresses.get(key), Where("Init", f"Init.{key}"))
        for key in ("coordinator_input", "coordinator_output", "frontend_stats_publish_address")
    }
    config = values.get("parallel_config")
    return Init(
        inputs=read_strs(addresses.get("inputs"), Where("Init", "Init.inputs")),
        outputs=read_strs(addresses.get("outputs"), Where("Init", "Init.outputs")),
        **texts,
        parallel_config=read_map(config, Where("Init", "Init.parallel_config")),
    )


_kept_init = functools.lru_cache(maxsize=KEPT_MAX)(_init)


# --- registration --------------------------------------------------------------------------


def _read_dtype(value: Any, where: Where) -> str:
    if read_str(value, where) not in DTYPES:
        raise refuse(where, f"one of {', '.join(DTYPES)}", value)
    return str(value)


# Never absent when the release knows them, so never looked at before it requires them.
_REQUIRED_READERS: dict[str, Reader] = {
    "max_model_len": read_u64,
    "num_gpu_blocks": read_u64,
    "block_size": read_u64,
    "vllm_version": read_text,
    "world_size": read_u64,
    "data_parallel_size": read_u64,
    "tensor_parallel_size": read_int,
    "pipeline_parallel_size": read_int,
    "decode_context_parallel_size": read_int,
    "data_parallel_rank": read_int,
    "max_num_seqs": read_u64,
    "max_num_batched_tokens": read_u64,
    "instance_id": read_text,
    "supports_lora": read_bool,
    "max_loras": read_u64,
}
_OPTIONAL_READERS: dict[str, Reader] = {
    "dp_stats_address": optional(read_text),
    "kv_cache_size_tokens": optional(read_u64),
    "kv_cache_max_concurrency": optional(read_float),
    "kv_events_config": optional(read_struct),
    "weight_transfer_backend": optional(read_text),
    "enable_sleep_mode": read_bool,
    "supports_draft_weight_updates": read_bool,
    "effective_attention_block_size": optional(read_u64),
}


def encode_ready_response(packer: BodyPacker, response: ReadyResponse) -> bytes:
    """Encode a registration body from its values, in their order; empty values: no bytes."""
    if not response.values:
        return b""
    return packer.pack(response.values, READY_RESPONSE)


def decode_ready_response(profile: Profile, body: bytes) -> ReadyResponse:
    """Decode a registration body.

    Raises:
        DecodeError: empty (≥ 0.23), no map, a key that the release needs is missing, or a known
            value has another type.
    """
    table = _RESPONSES.table(profile)
    response = table.get(body)
    if response is None:
        response = _decode_response(profile, body)
        table.keep(body, response, len(body))
    return response


_RESPONSES: Kept[ReadyResponse] = Kept()


def _decode_response(profile: Profile, body: bytes) -> ReadyResponse:
    if not body:
        if profile.empty_registration_accepted:
            return ReadyResponse()
        raise DecodeError(READY_RESPONSE, "body", "got empty payload")
    values = read_struct(
        unpack(body, READY_RESPONSE, trailing=True), Where(READY_RESPONSE, READY_RESPONSE)
    )
    required = profile.ready_required
    check_keys(
        values, READY_RESPONSE, READY_RESPONSE, {}, [k for k in profile.ready_keys if k in required]
    )
    readers = {key: read for key, read in _REQUIRED_READERS.items() if key in required}
    readers |= {key: read for key, read in _OPTIONAL_READERS.items() if key in profile.ready_keys}
    readers["dtype"] = _read_dtype if "dtype" in required else optional(_read_dtype)
    check_keys(values, READY_RESPONSE, READY_RESPONSE, readers, ())
    return ReadyResponse(values=values)


# --- external coordinator ------------------------------------------------------------------


def encode_publish(packer: BodyPacker, publish: CoordinatorPublish) -> bytes:
    """Encode a publish: one frame ``[counts | nil, wave, running]``."""
    row = [publish.counts, publish.current_wave, publish.engines_running]
    return packer.pack(row, PUBLISH)


def decode_publish(body: bytes) -> CoordinatorPublish:
    """Decode a publish. Counts are not looked at; bytes behind the tuple are ignored.

    Raises:
        DecodeError: no 3-tuple, wave not u32, or running not a bool.
    """
    row = read_row(unpack(body, PUBLISH, trailing=True), Where(PUBLISH, PUBLISH), 3, 3)
    counts = row[0] if type(row[0]) is list else None
    return CoordinatorPublish(
        counts=counts,
        current_wave=Wave(read_int(row[1], Where(PUBLISH, f"{PUBLISH}.current_wave"))),
        engines_running=read_bool(row[2], Where(PUBLISH, f"{PUBLISH}.engines_running")),
    )


def encode_first_request(packer: BodyPacker, notice: FirstRequestNotice) -> bytes:
    """Encode the notice of a first request (≤ 0.32): ``[exclude_engine_index, wave]``."""
    return packer.pack([notice.exclude_engine_index, notice.wave], NOTICE)


def decode_first_request(body: bytes) -> FirstRequestNotice:
    """Decode the notice of a first request.

    Raises:
        DecodeError: no 2-tuple of integers (e.g. a scale message).
    """
    row = read_list(unpack(body, NOTICE), Where(NOTICE, NOTICE))
    if len(row) != _NOTICE_ELEMENTS:
        reason = f"invalid length {len(row)}, expected {_NOTICE_ELEMENTS} elements"
        raise DecodeError(NOTICE, NOTICE, reason)
    exclude = read_int64(row[0], Where(NOTICE, f"{NOTICE}.exclude_engine_index"))
    wave = read_u64(row[1], Where(NOTICE, f"{NOTICE}.wave"))
    return FirstRequestNotice(exclude_engine_index=exclude, wave=Wave(wave))
