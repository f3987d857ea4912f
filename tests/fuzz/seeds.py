"""Valid messages as trees, drawn anew for each input: what the mutations start from."""

from __future__ import annotations

from random import Random  # noqa: TID251
from typing import Any

import msgpack

from client.protocol.profiles import Profile

RAW_VIEW = 3
INLINE_BELOW = 256
Frames = list[bytes]


def text(rng: Random) -> str:
    """A short string."""
    return rng.choice(("r", "chat", "cmpl-1", "é", "", "a" * 40))


def u32(rng: Random) -> int:
    """An unsigned number of 32 bits."""
    return rng.choice((0, 1, 7, 300, 2**16, 2**32 - 1))


def free(rng: Random, depth: int = 0) -> Any:
    """Any value that JSON has too."""
    roll = rng.randrange(9 if depth < 3 else 6)
    if roll < 6:
        return (None, True, u32(rng), 1.5, text(rng), -3)[roll]
    if roll == 6:
        return [free(rng, depth + 1) for _ in range(rng.randrange(3))]
    return {text(rng): free(rng, depth + 1) for _ in range(rng.randrange(3))}


def tensor(dtype: str, shape: list[int], data: bytes, aux: Frames) -> list[Any]:
    """A tensor: short ones inline, long ones as an aux frame."""
    if len(data) < INLINE_BELOW:
        return [dtype, shape, msgpack.ExtType(RAW_VIEW, data)]
    aux.append(data)
    return [dtype, shape, len(aux)]


def any_tensor(rng: Random, aux: Frames) -> list[Any]:
    """A tensor of any type and shape."""
    dtype, size = rng.choice(
        (("<i4", 4), ("float32", 4), ("int64", 8), ("bfloat16", 2), ("|u1", 1))
    )
    shape = rng.choice(([0], [1], [2, 3], [70], [1, 1, 5]))
    count = size
    for dimension in shape:
        count *= dimension
    return tensor(dtype, list(shape), b"\x01" * count, aux)


def logprobs(rng: Random, aux: Frames) -> list[Any]:
    """Ids, scores and ranks that fit together."""
    rows, columns = rng.choice((0, 1, 3, 40)), rng.choice((1, 2))
    ids = tensor(rng.choice(("<i4", "int32")), [rows, columns], b"\x07\0\0\0" * rows * columns, aux)
    scores = tensor("float32", [rows, columns], b"\0\0\x80\xbf" * rows * columns, aux)
    ranks = tensor("<i8", [rows], b"\x01\0\0\0\0\0\0\0" * rows, aux)
    return [ids, scores, ranks, *([None] if rng.random() < 0.5 else [])]


def mask(rng: Random, aux: Frames) -> list[Any]:
    """A sampling mask."""
    ids = tensor("<i4", [3], b"\x05\0\0\0" * 3, aux)
    offsets = tensor("<i4", [3], b"\0\0\0\0\x01\0\0\0\x03\0\0\0", aux)
    return rng.choice(([ids], [ids, None], [ids, offsets], [ids, offsets, None]))


def row(profile: Profile, rng: Random, aux: Frames, *, tensors: bool) -> list[Any]:
    """One EngineCoreOutput."""
    some = {
        "finish_reason": lambda: rng.randrange(5),
        "stop_reason": lambda: rng.choice((5, "stop", 0)),
        "events": lambda: rng.choice(([{"type": 1, "timestamp": 1.5}], [[2, 3]], [])),
        "kv_transfer_params": lambda: {"a": free(rng)},
        "ec_transfer_params": lambda: {"b": free(rng)},
        "trace_headers": lambda: {"t": "v"},
        "prefill_stats": lambda: rng.choice(({"num_prompt_tokens": 3}, [1, 2], {})),
        "mm_cache_miss_hashes": lambda: [text(rng)],
        "spec_decode_metrics": lambda: rng.choice(({"num_spec_tokens": 2}, [1, [2]])),
        "error": lambda: rng.choice(
            (
                {"code": "c", "message": "m", "retryable": True},
                ["c", "m"],
                {"code": "c", "message": ""},
            )
        ),
        "pooling_output": lambda: free(rng),
    }
    with_tensors = {
        "new_logprobs": lambda: logprobs(rng, aux),
        "new_prompt_logprobs_tensors": lambda: logprobs(rng, aux),
        "routed_experts": lambda: any_tensor(rng, aux),
        "new_sampling_mask": lambda: mask(rng, aux),
        "prompt_token_id_logprobs": lambda: any_tensor(rng, aux),
    }
    values: dict[str, Any] = {
        "request_id": text(rng),
        "new_token_ids": rng.choice(([], [1], [5, 70_000, 2**32 - 1], b"\x01\x02")),
        "num_nans_in_logits": u32(rng),
    }
    for name, make in some.items():
        if rng.random() < (0.15 if tensors else 0.35):
            values[name] = make()
    for name, make in with_tensors.items():
        if rng.random() < (0.6 if tensors else 0.05):
            values[name] = make()
    names = profile.output_field_names
    full = [values.get(name) for name in names]
    if rng.random() < 0.1:
        return full[: rng.randrange(2, len(full) + 1)]
    return full


def stats(profile: Profile, rng: Random) -> dict[str, Any]:
    """Scheduler statistics."""
    prefix = {
        "reset": False, "requests": 1, "queries": 2, "hits": 0, "preempted_requests": 0,
        "preempted_queries": 0, "preempted_hits": 2**63,
    }  # fmt: skip
    found: dict[str, Any] = {
        "num_running_reqs": u32(rng), "num_waiting_reqs": 2, "step_counter": 5, "current_wave": u32(rng),
        "kv_cache_usage": rng.choice((0.5, 0, 1)), "prefix_cache_stats": prefix,
        "kv_cache_eviction_events": [], "waiting_lora_adapters": {"a": 1}, "running_lora_adapters": {},
    }  # fmt: skip
    if rng.random() < 0.3:
        found["spec_decoding_stats"] = {
            "num_spec_tokens": 1, "num_drafts": 1, "num_draft_tokens": 1,
            "num_accepted_tokens": 1, "num_accepted_tokens_per_pos": [1, 2],
        }  # fmt: skip
        found["kv_cache_eviction_events"] = [
            {"lifetime_seconds": 1.5, "idle_seconds": 2, "reuse_gaps_seconds": [0.5]}
        ]
    if rng.random() < 0.3:
        found["cudagraph_stats"] = {
            "num_unpadded_tokens": 1, "num_padded_tokens": 2, "num_paddings": 1, "runtime_mode": "FULL"
        }  # fmt: skip
        found["perf_stats"] = {
            "num_flops_per_gpu": 1, "num_read_bytes_per_gpu": 2, "num_write_bytes_per_gpu": 3
        }  # fmt: skip
        found["something_new"] = free(rng)
    return found


def envelope(rng: Random) -> list[Any]:
    """One UtilityOutput."""
    call_id = rng.choice((0, 1, 5, -1, -2, 2**63))
    return rng.choice(
        (
            [call_id, None, [None, free(rng)]],
            [call_id, "no memory", None],
            [call_id],
            [call_id, None, []],
        )
    )


def outputs(profile: Profile, rng: Random, aux: Frames, *, kind: str = "") -> list[Any]:
    """One EngineCoreOutputs: mostly of one class."""
    kind = kind or rng.choice(
        ("rows", "rows", "rows", "stats", "utility", "complete", "start", "finished", "mixed")
    )
    found: list[Any] = [u32(rng), [], None, rng.choice((0.0, 1.5, 3)), None, None, None, None]
    if kind in ("rows", "tensors", "mixed"):
        found[1] = [
            row(profile, rng, aux, tensors=kind == "tensors") for _ in range(rng.choice((1, 1, 2)))
        ]
    if kind == "stats" or (kind in ("rows", "mixed") and rng.random() < 0.2):
        found[2] = stats(profile, rng)
    if kind in ("utility", "mixed"):
        found[4] = envelope(rng)
    if kind == "finished" or (kind == "rows" and rng.random() < 0.2):
        found[5] = [text(rng)]
    if kind == "complete":
        found[6] = u32(rng)
    if kind == "start":
        found[7] = u32(rng)
    if profile.outputs_fields > len(found):
        found.append(rng.choice((None, "v1")))
    return found


def request(profile: Profile, rng: Random, aux: Frames) -> list[Any]:
    """The body of ADD."""
    values: list[Any] = [
        text(rng),
        rng.choice((None, [1, 2, 3], [])),
        rng.choice((None, None, [{"data": any_tensor(rng, aux)}], [[any_tensor(rng, aux)], "x"])),
        rng.choice((None, {"temperature": 0.5, "max_tokens": 3, "stop_token_ids": [1], "extra_args": {"a": free(rng)}})),
        rng.choice((None, [1], "pool")),
        rng.choice((0.0, 17, 1.5e9)),
        rng.choice((None, ["name", 1, "path", None, False, False])),
        rng.choice((None, "salt")),
        rng.choice((None, 0, 3)),
        rng.choice((None, None, any_tensor(rng, aux))),
        rng.choice((None, [True, False])),
        rng.choice((0, 1)),
        u32(rng),
        rng.choice((0, -5, 3)),
        rng.choice((None, {"a": "b"})),
        False,
        rng.choice((None, "external")),
        rng.choice((None, True)),
        rng.choice((None, {"k": 1})),
        False,
        None,
        rng.choice((None, {"h": 1})),
    ]  # fmt: skip
    count = profile.request_fields if rng.random() < 0.8 else rng.randrange(9, 24)
    return [*values, None, None][:count]


def utility_call(rng: Random) -> list[Any]:
    """The body of UTILITY."""
    return [
        rng.choice((0, 1)),
        rng.choice((0, 5, -1, 2**63)),
        rng.choice(("is_sleeping", "x", "")),
        [free(rng)],
    ]


def ready(profile: Profile, rng: Random) -> dict[str, Any]:
    """A registration."""
    special: dict[str, Any] = {
        "dtype": rng.choice(("bfloat16", "float16", "float32")), "vllm_version": profile.release,
        "instance_id": "i", "supports_lora": False, "max_loras": 0, "enable_sleep_mode": True,
        "supports_draft_weight_updates": False, "dp_stats_address": rng.choice((None, "inproc://x")),
        "kv_cache_max_concurrency": 1.5, "kv_events_config": rng.choice((None, {"a": 1})),
        "weight_transfer_backend": None, "coordinator_input_address": None,
        "coordinator_output_address": None, "data_parallel_size": 2, "data_parallel_rank": 0,
    }  # fmt: skip
    return {key: special.get(key, 7) for key in profile.ready_keys}
