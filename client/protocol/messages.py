"""Each message of the protocol as a frozen struct, in wire order.

Sources: vLLM ``vllm/v1/engine/__init__.py`` (EngineCoreRequest, EngineCoreOutput,
EngineCoreOutputs, UtilityOutput), ``vllm/v1/engine/utils.py`` (handshake),
``vllm/v1/engine/coordinator.py`` (publishes); Rust ``engine-core-client/src/protocol/``.
Which fields a release has is decided by ``profiles``, never here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from client.protocol.ids import CallId, Identity, RequestId, Wave

WAVE_ZERO = Wave(0)


class RequestType(enum.Enum):
    """First frame of everything that reaches an engine after startup."""

    ADD = b"\x00"
    ABORT = b"\x01"
    START_DP_WAVE = b"\x02"
    UTILITY = b"\x03"


class FinishReason(enum.IntEnum):
    """Why a request ended; anything else on the wire is a decode error."""

    STOP = 0
    LENGTH = 1
    ABORT = 2
    ERROR = 3
    REPETITION = 4


ENGINE_CORE_DEAD = b"ENGINE_CORE_DEAD"
"""Sentinel frame of a dying engine."""
READY_GATE = b"READY"
"""Frame with which the coordinator opens the startup gate; not msgpack."""
SCALE_MESSAGE = "SCALE_ELASTIC_EP"
"""Name of the message that tells an external coordinator how many engines there are."""
SUBSCRIBE_ALL = b"\x01"
UNSUBSCRIBE_ALL = b"\x00"


# --- startup -------------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True):
    """Engine → handshake socket: ``{"status":"HELLO","local":…,"headless":…}``."""

    local: bool = True
    headless: bool = False


class Init(msgspec.Struct, frozen=True):
    """Handshake socket → engine: where to connect."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    coordinator_input: str | None = None
    coordinator_output: str | None = None
    frontend_stats_publish_address: str | None = None
    parallel_config: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Ready(msgspec.Struct, frozen=True):
    """Engine → handshake socket: ``{"status":"READY",…}``; extra keys are kept, unused."""

    local: bool = True
    headless: bool = False
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ReadyResponse(msgspec.Struct, frozen=True):
    """Registration body: a map; ``values`` holds its keys as sent, checked by the profile.

    ``values`` is empty for the empty registration that ≤ 0.22.1 accepts.
    """

    values: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def get(self, key: str) -> Any:
        """Return one value, ``None`` when the key is absent."""
        return self.values.get(key)


# --- frontend → engine ---------------------------------------------------------------------


class EngineCoreRequest(msgspec.Struct, frozen=True):
    """Body of ADD; 20, 21 (≥ 0.28) or 22 (≥ 0.31) elements on the wire."""

    request_id: RequestId
    prompt_token_ids: Sequence[int] | None = None
    mm_features: Sequence[Any] | None = None
    sampling_params: Mapping[str, Any] | None = None
    pooling_params: Sequence[Any] | None = None
    arrival_time: float = 0.0
    lora_request: Sequence[Any] | None = None
    cache_salt: str | None = None
    data_parallel_rank: int | None = None
    prompt_embeds: Any = None
    prompt_is_token_ids: Sequence[bool] | None = None
    client_index: int = 0
    current_wave: Wave = WAVE_ZERO
    priority: int = 0
    trace_headers: Mapping[str, str] | None = None
    resumable: bool = False
    external_req_id: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: Mapping[str, Any] | None = None
    abort_immediately: bool = False
    session_id: str | None = None
    kv_hints: Mapping[str, Any] | None = None


class Tensor(msgspec.Struct, frozen=True):
    """``[dtype, shape, data]``; ``data`` is inlined (ext type 3) or an aux frame, by size."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Add(msgspec.Struct, frozen=True):
    """Decoded ADD. ``aux`` holds the frames behind the body, as received."""

    request: EngineCoreRequest
    aux: tuple[bytes, ...] = ()


class Abort(msgspec.Struct, frozen=True):
    """Withdraw requests by internal id."""

    request_ids: tuple[RequestId, ...]


class UtilityCall(msgspec.Struct, frozen=True):
    """``[client_index, call_id, method, args]``; ``args`` is always an array."""

    client_index: int
    call_id: CallId
    method: str
    args: Sequence[Any] = ()


class StartDpWave(msgspec.Struct, frozen=True):
    """``[wave, exclude_engine_index | nil]``, on the coordinator socket."""

    wave: Wave
    exclude_engine_index: int | None


EngineInput = Add | Abort | UtilityCall | StartDpWave
"""What an engine can be told after startup."""


# --- engine → frontend or coordinator -------------------------------------------------------


class RequestError(msgspec.Struct, frozen=True):
    """``error`` of an output (≥ 0.33)."""

    code: str
    message: str
    retryable: bool


class EngineCoreOutput(msgspec.Struct, frozen=True):
    """Result of one step for one request; 13 … 19 elements on the wire."""

    request_id: RequestId
    new_token_ids: Sequence[int]
    new_logprobs: Any = None
    new_prompt_logprobs_tensors: Any = None
    pooling_output: Any = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    events: Sequence[Any] | None = None
    kv_transfer_params: Mapping[str, Any] | None = None
    ec_transfer_params: Mapping[str, Any] | None = None
    trace_headers: Mapping[str, str] | None = None
    prefill_stats: Mapping[str, Any] | None = None
    routed_experts: Any = None
    num_nans_in_logits: int = 0
    mm_cache_miss_hashes: Any = None
    new_sampling_mask: Any = None
    spec_decode_metrics: Any = None
    prompt_token_id_logprobs: Any = None
    error: RequestError | None = None


class UtilityOutput(msgspec.Struct, frozen=True):
    """``[call_id, failure_message | nil, result | nil]``; result = ``[type_info, value]``.

    ``value`` is the unwrapped result; a missing envelope reads as nil.
    """

    call_id: CallId
    failure_message: str | None = None
    value: Any = None


class EngineCoreOutputs(msgspec.Struct, frozen=True):
    """Output frame 0; 8 elements, 9 since 0.32."""

    engine_index: int = 0
    outputs: tuple[EngineCoreOutput, ...] = ()
    scheduler_stats: Mapping[str, Any] | None = None
    timestamp: float = 0.0
    utility_output: UtilityOutput | None = None
    finished_requests: tuple[RequestId, ...] | None = None
    wave_complete: Wave | None = None
    start_wave: Wave | None = None
    weight_version: str | None = None


# Closed set of kinds that `codec.classify` sorts EngineCoreOutputs into (protocol page, 5.1).


class RequestBatch(msgspec.Struct, frozen=True):
    """Outputs, stats or finished ids."""

    engine_index: int
    outputs: tuple[EngineCoreOutput, ...]
    scheduler_stats: Mapping[str, Any] | None
    finished_requests: tuple[RequestId, ...] | None


class UtilityReply(msgspec.Struct, frozen=True):
    """One utility output and nothing else."""

    engine_index: int
    output: UtilityOutput


class WaveComplete(msgspec.Struct, frozen=True):
    """All ranks finished ``wave``."""

    engine_index: int
    wave: Wave


class StartWave(msgspec.Struct, frozen=True):
    """An engine asks that ``wave`` be started."""

    engine_index: int
    wave: Wave


class EngineDead(msgspec.Struct, frozen=True):
    """The sentinel."""


class Unclassified(msgspec.Struct, frozen=True):
    """Any other combination, all-empty included; fails closed."""

    raw: EngineCoreOutputs


OutputKind = RequestBatch | UtilityReply | WaveComplete | StartWave | EngineDead | Unclassified


# --- external coordinator -------------------------------------------------------------------


class CoordinatorPublish(msgspec.Struct, frozen=True):
    """External coordinator → frontends: ``[counts | nil, wave, running]``, one frame."""

    counts: Sequence[Sequence[float]] | None
    current_wave: Wave
    engines_running: bool


class FirstRequestNotice(msgspec.Struct, frozen=True):
    """Frontend → external coordinator (≤ 0.32): ``[exclude_engine_index, wave]``."""

    exclude_engine_index: int
    wave: Wave


class ConnectedEngine(msgspec.Struct, frozen=True):
    """One engine after startup."""

    identity: Identity
    ready: ReadyResponse
