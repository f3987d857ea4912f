"""Tables of the frontend's gRPC interface: messages, enumerations and methods.

The binary has no reflection and the wheels carry no schema, so these are facts of the wire.
Numbers of fields were seen to work on the releases that ``since`` names; what none of our steps
needs (media, candidate tokens) is left out, and protobuf keeps unknown fields of answers.

Source: vLLM ``rust/proto``; releases by asking each binary for each method.
"""

from __future__ import annotations

from dataclasses import dataclass

VLLM = "vllm"
HEALTH = "grpc.health.v1"
SERVICES_SPLIT_SINCE = "0.27.0"
"""``vllm.Generate`` became ``vllm.Inference`` and ``vllm.Control``."""
FINISH_REASONS = {1: "length", 2: "stop", 3: "abort"}
"""Numbers of ``finish_reason``; 0 = not finished."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: ``kind`` is a scalar type, a message or enumeration of the tables, or ``Struct``.

    ``label``: ``""``, ``optional`` (presence is tracked), ``repeated``, or ``oneof <name>``.
    """

    number: int
    name: str
    kind: str
    label: str = ""


def _fields(*lines: str) -> tuple[Field, ...]:
    """Read ``number name kind [label …]``, one line a field."""
    parts = (line.split(maxsplit=3) for line in lines)
    return tuple(Field(int(p[0]), p[1], p[2], p[3] if len(p) > 3 else "") for p in parts)


_GENERATE = {
    "TokenIds": _fields("1 ids uint32 repeated"),
    "RandomSampling": _fields(
        "1 num_sequences uint32",
        "2 top_k uint32",
        "3 top_p float",
        "4 min_p float",
        "5 seed int64 optional",
    ),
    "DecodingParameters": _fields(
        "1 presence_penalty float",
        "2 frequency_penalty float",
        "3 repetition_penalty float",
        "5 allowed_token_ids uint32 repeated",
        "6 json string oneof structured_output",
        "7 regex string oneof structured_output",
        "9 grammar string oneof structured_output",
        "10 json_object bool oneof structured_output",
        "11 structural_tag string oneof structured_output",
    ),
    "StoppingCriteria": _fields(
        "1 max_new_tokens uint32",
        "2 min_new_tokens uint32",
        "3 stop_token_ids uint32 repeated",
        "4 stop_strings string repeated",
        "5 include_stop_strings bool",
        "6 ignore_eos bool",
    ),
    "ResponseOptions": _fields(
        "1 prompt_token_ids bool",
        "2 prompt_logprobs bool",
        "4 output_text bool optional",
        "5 output_token_ids bool",
        "6 output_logprobs bool",
        "8 skip_special_tokens bool optional",
    ),
    "KVCacheParameters": _fields(
        "1 bypass_prefix_cache bool",
        "2 cache_salt string",
        "3 kv_transfer_params Struct",
        "4 ec_transfer_params Struct",
    ),
    "GenerateRequest": _fields(
        "1 request_id string",
        "2 model string",
        "3 text string oneof prompt",
        "4 token_ids TokenIds oneof prompt",
        "5 temperature float optional",
        "6 sampling RandomSampling",
        "7 decoding DecodingParameters",
        "8 stopping StoppingCriteria",
        "9 response ResponseOptions",
        "10 kv KVCacheParameters",
        "11 truncate_prompt_tokens uint32",
        "12 priority int32",
        "13 session_id string optional",
        "15 lora_name string",
    ),
    "PromptInfo": _fields("1 num_prompt_tokens uint32", "2 token_ids uint32 repeated"),
    "FinishInfo": _fields(
        "1 num_output_tokens uint32",
        "2 finish_reason FinishReason",
        "3 stop_token_id uint32 oneof stop_reason",
        "4 eos_token_id uint32 oneof stop_reason",
        "5 stop_string string oneof stop_reason",
        "6 kv_transfer_params Struct",
        "8 ec_transfer_params Struct",
    ),
    "SequenceOutput": _fields(
        "1 index uint32",
        "2 text string",
        "3 num_tokens uint32",
        "4 token_ids uint32 repeated",
        "5 logprobs float repeated",
        "6 ranks uint32 repeated",
        "8 finish_info FinishInfo optional",
    ),
    # `repeated` reads a single message too
    "GenerateResponse": _fields(
        "1 prompt_info PromptInfo optional", "2 outputs SequenceOutput repeated"
    ),
}
_CONTROL = {
    "ParallelismInfo": _fields(
        "1 tensor_parallel_size uint32",
        "2 pipeline_parallel_size uint32",
        "3 data_parallel_size uint32",
        "4 data_parallel_rank uint32",
        "5 decode_context_parallel_size uint32",
        "6 world_size uint64",
        "7 data_parallel_size_local uint32",
    ),
    "RlCapabilities": _fields(
        "1 weight_transfer_enabled bool",
        "2 weight_transfer_backend string",
        "3 sleep_mode_enabled bool",
        "4 draft_weight_updates_enabled bool",
    ),
    "ServerInfo": _fields(
        "1 engine_version string",
        "2 api_version string",
        "3 instance_id string",
        "4 parallelism ParallelismInfo",
        "5 max_model_len uint32",
        "6 kv_block_size uint32",
        "7 total_kv_blocks uint64",
        "8 max_running_requests uint64",
        "9 max_batched_tokens uint64",
        "10 max_loras uint32",
        "11 rl_capabilities RlCapabilities",
        "14 effective_attention_block_size uint64 optional",
    ),
    "ModelInfo": _fields(
        "1 model_id string",
        "2 served_model_name string",
        "3 served_model_aliases string repeated",
        "20 supports_text_input bool",
        "21 supports_token_ids_input bool",
        "22 supports_lora bool",
        "23 supports_multimodal bool",
        "24 reasoning_parser string",
        "25 tool_call_parser string",
    ),
    "AbortRequest": _fields("1 request_ids string repeated"),
    "LoraAdapter": _fields("1 lora_id int64", "2 lora_name string", "3 source_path string"),
    "LoadLoraRequest": _fields("1 lora_name string", "2 source_path string"),
    "LoadLoraResponse": _fields("1 adapter LoraAdapter"),
    "UnloadLoraRequest": _fields("1 lora_name string"),
    "UnloadLoraResponse": _fields("1 adapter LoraAdapter"),
    "ListLorasResponse": _fields("1 adapters LoraAdapter repeated"),
    "PauseGenerationRequest": _fields("1 mode PauseMode", "2 clear_cache bool optional"),
    "IsPausedResponse": _fields("1 paused bool"),
    "SleepRequest": _fields("1 level uint32 optional", "2 mode PauseMode"),
    "WakeUpRequest": _fields("1 tags string repeated"),
    "IsSleepingResponse": _fields("1 sleeping bool"),
    "InitWeightTransferEngineRequest": _fields("1 init_info_json bytes"),
    "UpdateWeightsRequest": _fields("1 update_info_json bytes"),
    "FinishWeightUpdateRequest": _fields("1 weight_version string optional"),
    "UpdateWeightVersionRequest": _fields("1 weight_version string"),
    "GetWeightVersionResponse": _fields("1 weight_version string"),
    "KvEventSource": _fields(
        "1 transport string",
        "2 endpoint string",
        "3 topic string",
        "4 replay_endpoint string",
        "5 data_parallel_rank uint32 optional",
        "6 encoding string",
        "7 schema_version uint32",
        "8 buffer_steps uint32",
        "9 hwm uint32",
        "10 max_queue_size uint32",
    ),
    "GetKvEventSourcesResponse": _fields("1 sources KvEventSource repeated"),
    "Empty": (),
}
MESSAGES: dict[str, dict[str, tuple[Field, ...]]] = {
    VLLM: {**_GENERATE, **_CONTROL},
    HEALTH: {
        "HealthCheckRequest": _fields("1 service string"),
        "HealthCheckResponse": _fields("1 status ServingStatus"),
    },
}
"""Package → message → fields. A message must come after those that it contains."""
ENUMS: dict[str, dict[str, tuple[str, ...]]] = {
    VLLM: {
        "FinishReason": ("NOT_FINISHED", "LENGTH", "STOP", "ABORTED"),
        "PauseMode": (
            "PAUSE_MODE_UNSPECIFIED",
            "PAUSE_MODE_ABORT",
            "PAUSE_MODE_WAIT",
            "PAUSE_MODE_KEEP",
        ),
    },
    HEALTH: {"ServingStatus": ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")},
}
"""Package → enumeration → names, numbered from 0."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method: full names of its messages; ``since``: the first release that has it."""

    request: str
    response: str
    since: str
    stream: bool = False


def _methods(since: str, *lines: str) -> dict[str, Method]:
    """Read ``Service/Method request response``, one line a method of package ``vllm``."""
    found = {}
    for line in lines:
        name, request, response = line.split()
        found[f"{VLLM}.{name}"] = Method(f"{VLLM}.{request}", f"{VLLM}.{response}", since)
    return found


METHODS: dict[str, Method] = {
    **_methods("0.22.0", "Inference/Generate GenerateRequest GenerateResponse"),
    f"{VLLM}.Inference/GenerateStream": Method(
        f"{VLLM}.GenerateRequest", f"{VLLM}.GenerateResponse", "0.22.0", stream=True
    ),
    **_methods(
        "0.27.0",
        "Control/GetServerInfo Empty ServerInfo",
        "Control/GetModelInfo Empty ModelInfo",
        "Control/Abort AbortRequest Empty",
        "Control/GetKvEventSources Empty GetKvEventSourcesResponse",
    ),
    **_methods(
        "0.28.0",
        "Control/PauseGeneration PauseGenerationRequest Empty",
        "Control/ResumeGeneration Empty Empty",
        "Control/IsPaused Empty IsPausedResponse",
        "Control/Sleep SleepRequest Empty",
        "Control/WakeUp WakeUpRequest Empty",
        "Control/IsSleeping Empty IsSleepingResponse",
        "Control/InitWeightTransferEngine InitWeightTransferEngineRequest Empty",
        "Control/StartWeightUpdate Empty Empty",
        "Control/StartDraftWeightUpdate Empty Empty",
        "Control/UpdateWeights UpdateWeightsRequest Empty",
        "Control/FinishWeightUpdate FinishWeightUpdateRequest Empty",
        "Control/UpdateWeightVersion UpdateWeightVersionRequest Empty",
        "Control/GetWeightVersion Empty GetWeightVersionResponse",
    ),
    **_methods(
        "0.29.0",
        "Control/LoadLora LoadLoraRequest LoadLoraResponse",
        "Control/UnloadLora UnloadLoraRequest UnloadLoraResponse",
        "Control/ListLoras Empty ListLorasResponse",
    ),
    **_methods("0.32.0", "Control/Shutdown Empty Empty"),
    f"{HEALTH}.Health/Check": Method(
        f"{HEALTH}.HealthCheckRequest", f"{HEALTH}.HealthCheckResponse", "0.27.0"
    ),
    f"{HEALTH}.Health/Watch": Method(
        f"{HEALTH}.HealthCheckRequest", f"{HEALTH}.HealthCheckResponse", "0.27.0", stream=True
    ),
}
"""By full name; ``vllm.Inference`` is called ``vllm.Generate`` up to 0.26."""


def full_name(method: str) -> str:
    """Return the full name of a method; the package is ``vllm`` unless it is named."""
    service, _, _name = method.partition("/")
    return method if "." in service else f"{VLLM}.{method}"


def short_name(full: str) -> str:
    """Return a full name as scenarios write it: without the package ``vllm``."""
    return full.removeprefix(f"{VLLM}.")


def method_named(method: str) -> Method | None:
    """Return the method that a scenario names, by its name of any release; ``None``: there is none."""
    name = full_name(method).replace(f"{VLLM}.Generate/", f"{VLLM}.Inference/")
    return METHODS.get(name)
