"""Scheduler statistics: a map of which the client needs some keys.

A missing or wrong one is fatal for the whole client, so the check is part of the protocol.
Unknown keys are fine.

Source: vLLM ``vllm/v1/metrics/stats.py`` (SchedulerStats, PrefixCacheStats), Rust
``engine-core-client/src/protocol/stats.rs``; measured on the binaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client.protocol.codec_msgpack import Where
from client.protocol.codec_values import (
    Reader,
    check_keys,
    optional,
    read_bool,
    read_float,
    read_list,
    read_struct,
    read_text,
    read_u64,
    read_u64s,
)
from client.protocol.profiles import Profile

MESSAGE = "EngineCoreOutputs"


def _struct(name: str, readers: Mapping[str, Reader]) -> Reader:
    """Make a check for a map all of whose keys are needed."""

    def read(value: Any, where: Where) -> Any:
        check_keys(read_struct(value, where), where.message, name, readers, tuple(readers))
        return value

    return read


def _read_floats(value: Any, where: Where) -> Any:
    for item in read_list(value, where):
        read_float(item, where)
    return value


def _read_counts(value: Any, where: Where) -> Any:
    for item in read_struct(value, where).values():
        read_u64(item, where)
    return value


_PREFIX_CACHE = _struct(
    "PrefixCacheStats",
    {
        "reset": read_bool,
        "requests": read_u64,
        "queries": read_u64,
        "hits": read_u64,
        "preempted_requests": read_u64,
        "preempted_queries": read_u64,
        "preempted_hits": read_u64,
    },
)
_EVICTION = _struct(
    "KVCacheEvictionEvent",
    {
        "lifetime_seconds": read_float,
        "idle_seconds": read_float,
        "reuse_gaps_seconds": _read_floats,
    },
)


def _read_evictions(value: Any, where: Where) -> Any:
    for event in read_list(value, where):
        _EVICTION(event, where)
    return value


_SPEC_DECODING = _struct(
    "SpecDecodingStats",
    {
        "num_spec_tokens": read_u64,
        "num_drafts": read_u64,
        "num_draft_tokens": read_u64,
        "num_accepted_tokens": read_u64,
        "num_accepted_tokens_per_pos": read_u64s,
    },
)
_CUDAGRAPH = _struct(
    "CUDAGraphStat",
    {
        "num_unpadded_tokens": read_u64,
        "num_padded_tokens": read_u64,
        "num_paddings": read_u64,
        "runtime_mode": read_text,
    },
)
_PERF = _struct(
    "PerfStats",
    {
        "num_flops_per_gpu": read_u64,
        "num_read_bytes_per_gpu": read_u64,
        "num_write_bytes_per_gpu": read_u64,
    },
)

_READERS: dict[str, Reader] = {
    "num_running_reqs": read_u64,
    "num_waiting_reqs": read_u64,
    "num_skipped_waiting_reqs": read_u64,
    "step_counter": read_u64,
    "current_wave": read_u64,
    "kv_cache_usage": read_float,
    "prefix_cache_stats": _PREFIX_CACHE,
    "connector_prefix_cache_stats": optional(_PREFIX_CACHE),
    "kv_cache_eviction_events": _read_evictions,
    "spec_decoding_stats": optional(_SPEC_DECODING),
    "kv_connector_stats": optional(read_struct),
    "cudagraph_stats": optional(_CUDAGRAPH),
    "perf_stats": optional(_PERF),
}
# Looked at only while they were required; the client dropped them afterwards.
_LORA_READERS: dict[str, Reader] = {
    "waiting_lora_adapters": _read_counts,
    "running_lora_adapters": _read_counts,
}


def read_stats(value: Any, profile: Profile) -> Mapping[str, Any]:
    """Check scheduler stats; the map is returned as it came.

    Raises:
        DecodeError: not a map, a required key is missing, or a known one has another type.
    """
    stats = read_struct(value, Where(MESSAGE, "EngineCoreOutputs.scheduler_stats"))
    check_keys(stats, MESSAGE, "SchedulerStats", _READERS, profile.stats_required)
    for key, read in _LORA_READERS.items():
        if key in profile.stats_required:
            read(stats[key], Where(MESSAGE, f"SchedulerStats.{key}"))
    return stats
