"""Hypothesis strategies for every message of a release."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from client.protocol.messages import (
    CoordinatorPublish,
    EngineCoreOutput,
    EngineCoreOutputs,
    EngineCoreRequest,
    FinishReason,
    FirstRequestNotice,
    Hello,
    Init,
    Ready,
    ReadyResponse,
    RequestError,
    StartDpWave,
    Tensor,
    UtilityCall,
    UtilityOutput,
)
from client.protocol.profiles import Profile

U32 = st.integers(0, 2**32 - 1)
INT64 = st.integers(-(2**63), 2**64 - 1)
TEXT = st.text(max_size=8)
FLOAT = st.floats(allow_nan=False)
SCALAR = st.none() | st.booleans() | INT64 | FLOAT | TEXT
FREE = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=4,
)
MAP = st.dictionaries(TEXT, FREE, max_size=3)
TOKENS = st.lists(U32, max_size=4).map(tuple)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def tensors(draw: st.DrawFn, dtype: str | None = None, shape: tuple[int, ...] | None = None):
    dtype = dtype or draw(st.sampled_from(["<i4", "float32", "int64", "bfloat16", "|u1"]))
    sizes = {"<i4": 4, "<f4": 4, "float32": 4, "int64": 8, "bfloat16": 2, "|u1": 1}
    if shape is None:
        shape = draw(st.sampled_from([(0,), (1,), (2, 3), (70,), (300,)]))
    count = sizes[dtype]
    for dimension in shape:
        count *= dimension
    return Tensor(
        dtype=dtype, shape=shape, data=bytes([1]) + b"\x00" * (count - 1) if count else b""
    )


@st.composite
def logprobs(draw: st.DrawFn):
    rows, columns = draw(st.integers(0, 40)), draw(st.integers(1, 3))
    ids = Tensor("<i4", (rows, columns), b"\x07\x00\x00\x00" * (rows * columns))
    scores = Tensor("float32", (rows, columns), b"\x00\x00\x80\xbf" * (rows * columns))
    ranks = Tensor(
        "int64", (rows,), b"\x01" + b"\x00" * 7 if rows == 1 else (b"\x01" + b"\x00" * 7) * rows
    )
    return draw(st.sampled_from([(ids, scores, ranks), (ids, scores, ranks, None)]))


@st.composite
def requests(draw: st.DrawFn, profile: Profile):
    values = {
        "request_id": draw(TEXT),
        "prompt_token_ids": draw(maybe(TOKENS)),
        "mm_features": draw(
            maybe(st.lists(st.fixed_dictionaries({"data": tensors()}), max_size=2))
        ),
        "sampling_params": draw(
            maybe(
                st.fixed_dictionaries(
                    {"temperature": st.floats(0, 2, width=32), "stop_token_ids": st.lists(U32)},
                    optional={"extra_args": MAP, "logit_bias": st.dictionaries(U32, U32)},
                )
            )
        ),
        "pooling_params": draw(maybe(st.lists(FREE, max_size=3))),
        "arrival_time": draw(FLOAT),
        "lora_request": draw(maybe(st.lists(SCALAR, max_size=7))),
        "cache_salt": draw(maybe(TEXT)),
        "data_parallel_rank": draw(maybe(INT64)),
        "prompt_embeds": draw(maybe(tensors())),
        "prompt_is_token_ids": draw(maybe(st.lists(st.booleans(), max_size=3).map(tuple))),
        "client_index": draw(U32),
        "current_wave": draw(U32),
        "priority": draw(st.integers(-5, 5)),
        "trace_headers": draw(maybe(st.dictionaries(TEXT, TEXT, max_size=2))),
        "resumable": draw(st.booleans()),
        "external_req_id": draw(maybe(TEXT)),
        "reasoning_ended": draw(maybe(st.booleans())),
        "reasoning_parser_kwargs": draw(maybe(MAP)),
        "abort_immediately": draw(st.booleans()),
        "session_id": draw(maybe(TEXT)),
        "kv_hints": draw(maybe(MAP)),
    }
    return EngineCoreRequest(**{name: values[name] for name in profile.request_field_names})


@st.composite
def rows(draw: st.DrawFn, profile: Profile):
    values = {
        "request_id": TEXT,
        "new_token_ids": TOKENS,
        "new_logprobs": maybe(logprobs()),
        "new_prompt_logprobs_tensors": maybe(logprobs()),
        "pooling_output": maybe(FREE),
        "finish_reason": maybe(st.sampled_from(FinishReason)),
        "stop_reason": maybe(U32 | TEXT),
        "events": maybe(
            st.lists(
                st.fixed_dictionaries({"type": st.integers(1, 3), "timestamp": FLOAT}), max_size=2
            ).map(tuple)
        ),
        "kv_transfer_params": maybe(MAP),
        "ec_transfer_params": maybe(MAP),
        "trace_headers": maybe(MAP),
        "prefill_stats": maybe(st.fixed_dictionaries({}, optional={"num_prompt_tokens": U32})),
        "routed_experts": maybe(tensors())
        if "routed_experts" in profile.typed_output_fields
        else maybe(FREE),
        "num_nans_in_logits": U32,
        "mm_cache_miss_hashes": maybe(st.lists(TEXT, max_size=2).map(tuple)),
        "new_sampling_mask": maybe(tensors("<i4", (3,)).map(lambda tensor: (tensor, None))),
        "spec_decode_metrics": maybe(st.fixed_dictionaries({"num_spec_tokens": U32})),
        "prompt_token_id_logprobs": maybe(tensors("<f4")),
        "error": maybe(st.builds(RequestError, code=TEXT, message=TEXT, retryable=st.booleans())),
    }
    if "new_sampling_mask" not in profile.typed_output_fields:
        values["new_sampling_mask"] = values["spec_decode_metrics"] = maybe(FREE)
    return EngineCoreOutput(**{name: draw(values[name]) for name in profile.output_field_names})


def stats() -> st.SearchStrategy[dict[str, Any]]:
    count = st.integers(0, 2**63)
    prefix = dict.fromkeys(("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits"), count)  # fmt: skip
    return st.fixed_dictionaries(
        {
            "num_running_reqs": count,
            "num_waiting_reqs": count,
            "step_counter": count,
            "current_wave": count,
            "kv_cache_usage": FLOAT,
            "prefix_cache_stats": st.fixed_dictionaries({"reset": st.booleans(), **prefix}),
            "kv_cache_eviction_events": st.just([]),
            "waiting_lora_adapters": st.dictionaries(TEXT, count, max_size=2),
            "running_lora_adapters": st.just({}),
        },
        optional={"something_new": FREE},
    )


def outputs(profile: Profile) -> st.SearchStrategy[EngineCoreOutputs]:
    reply = st.builds(
        UtilityOutput, call_id=INT64, failure_message=st.none(), value=FREE
    ) | st.builds(UtilityOutput, call_id=INT64, failure_message=TEXT, value=st.none())
    version = maybe(TEXT) if profile.outputs_fields > 8 else st.none()
    return st.builds(
        EngineCoreOutputs,
        engine_index=U32,
        outputs=st.lists(rows(profile), max_size=2).map(tuple),
        scheduler_stats=maybe(stats()),
        timestamp=FLOAT,
        utility_output=maybe(reply),
        finished_requests=maybe(st.lists(TEXT, max_size=2).map(tuple)),
        wave_complete=maybe(U32),
        start_wave=maybe(U32),
        weight_version=version,
    )


ADDRESS = maybe(TEXT)
HELLOS = st.builds(Hello, local=st.booleans(), headless=st.booleans())
READYS = st.builds(
    Ready,
    local=st.booleans(),
    headless=st.booleans(),
    extra=st.dictionaries(TEXT.filter(lambda k: k not in ("status", "local", "headless")), FREE, max_size=2),
)  # fmt: skip
INITS = st.builds(
    Init,
    inputs=st.lists(TEXT, max_size=2).map(tuple),
    outputs=st.lists(TEXT, max_size=2).map(tuple),
    coordinator_input=ADDRESS,
    coordinator_output=ADDRESS,
    frontend_stats_publish_address=ADDRESS,
    parallel_config=MAP,
)
UTILITIES = st.builds(
    UtilityCall, client_index=U32, call_id=INT64, method=TEXT, args=st.lists(FREE, max_size=3)
)
WAVES = st.builds(StartDpWave, wave=U32, exclude_engine_index=maybe(U32))
PUBLISHES = st.builds(
    CoordinatorPublish,
    counts=maybe(st.lists(st.lists(U32 | FLOAT, min_size=2, max_size=3), max_size=3)),
    current_wave=U32,
    engines_running=st.booleans(),
)
NOTICES = st.builds(FirstRequestNotice, exclude_engine_index=U32, wave=U32)


def ready_values(profile: Profile) -> dict[str, Any]:
    """A registration that every release takes, with the keys of this one."""
    values: dict[str, Any] = dict.fromkeys(profile.ready_keys, 7)
    special = {
        "dtype": "bfloat16",
        "vllm_version": profile.release,
        "instance_id": "i",
        "supports_lora": True,
        "enable_sleep_mode": True,
        "supports_draft_weight_updates": False,
        "dp_stats_address": None,
        "kv_cache_max_concurrency": 1.5,
        "kv_events_config": None,
        "weight_transfer_backend": None,
        "coordinator_input_address": None,
        "coordinator_output_address": None,
    }
    return {key: special.get(key, value) for key, value in values.items()}


def ready_response(profile: Profile) -> ReadyResponse:
    return ReadyResponse(values=ready_values(profile))
