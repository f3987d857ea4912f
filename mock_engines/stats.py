"""The scheduler stats map, complete enough for every release's decoder.

Source: vLLM ``v1/metrics/stats.py``; the Rust client refuses a map that lacks one of the
required keys, those of ``prefix_cache_stats`` included, and ignores keys that it does not know.
"""

from __future__ import annotations

from typing import Any

_PREFIX_CACHE_KEYS = (
    "requests",
    "queries",
    "hits",
    "preempted_requests",
    "preempted_queries",
    "preempted_hits",
)


def scheduler_stats(*, running: int, waiting: int, wave: int, step_counter: int) -> dict[str, Any]:
    """Build the stats of one step: request counts, the engine's wave and its step in it."""
    return {
        "num_running_reqs": running,
        "num_waiting_reqs": waiting,
        "num_skipped_waiting_reqs": 0,
        "step_counter": step_counter,
        "current_wave": wave,
        "kv_cache_usage": 0.0,
        "prefix_cache_stats": {"reset": False, **dict.fromkeys(_PREFIX_CACHE_KEYS, 0)},
        "connector_prefix_cache_stats": None,
        "kv_cache_eviction_events": [],
        "spec_decoding_stats": None,
        "kv_connector_stats": None,
        "waiting_lora_adapters": {},
        "running_lora_adapters": {},
        "cudagraph_stats": None,
        "perf_stats": None,
    }
