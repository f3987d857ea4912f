"""Table of the frontend's metrics: families, kinds, labels, and the release that has them first.

A file that names none of these is refused before it runs, since a misspelt sample would read as
one that never counted. No family has gone again up to 0.33.0, and every release declares all of
its families at once, also those that have no sample yet (measured on all 15 releases).

Source: ``/metrics`` of the released binaries, at rest and after requests on every surface.
``tests/vllm_rs/test_metric_families.py`` compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MODEL_LABEL = "model_name"
"""Left out in samples: a run has one model, whose name differs from machine to machine."""
ENGINE_LABEL = "engine"
BUCKET_LABEL = "le"
_UNSEEN = "?"
"""Labels of a family that never had a sample with mock engines, so they are not known."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family. ``labels``: without the model's, sorted; ``None``: not known."""

    name: str
    kind: str
    labels: tuple[str, ...] | None
    since: str

    @property
    def samples(self) -> tuple[str, ...]:
        """Names of its samples."""
        if self.kind == "histogram":
            return tuple(self.name + suffix for suffix in ("_bucket", "_count", "_sum"))
        return (f"{self.name}_total",) if self.kind == "counter" else (self.name,)

    def labels_of(self, sample: str) -> tuple[str, ...] | None:
        """Labels of one of its samples, sorted; ``None``: not known."""
        if self.labels is None or not sample.endswith("_bucket"):
            return self.labels
        return tuple(sorted((*self.labels, BUCKET_LABEL)))


def _families(since: str, *lines: str) -> dict[str, Family]:
    """Read ``name kind label…``, one line a family."""
    found = {}
    for line in lines:
        name, kind, *labels = line.split()
        known = None if labels == [_UNSEEN] else tuple(sorted(labels))
        found[name] = Family(name, kind, known, since)
    return found


FAMILIES: Mapping[str, Family] = {
    **_families(
        "0.22.0",
        "vllm:num_requests_running gauge engine",
        "vllm:num_requests_waiting gauge engine",
        "vllm:num_requests_waiting_by_reason gauge engine reason",
        "vllm:kv_cache_usage_perc gauge engine",
        "vllm:prefix_cache_queries counter engine",
        "vllm:prefix_cache_hits counter engine",
        "vllm:external_prefix_cache_queries counter engine",
        "vllm:external_prefix_cache_hits counter engine",
        "vllm:spec_decode_num_drafts counter engine",
        "vllm:spec_decode_num_draft_tokens counter engine",
        "vllm:spec_decode_num_accepted_tokens counter engine",
        "vllm:spec_decode_num_accepted_tokens_per_pos counter engine position",
        "vllm:estimated_flops_per_gpu counter engine",
        "vllm:estimated_read_bytes_per_gpu counter engine",
        "vllm:estimated_write_bytes_per_gpu counter engine",
        "vllm:kv_block_lifetime_seconds histogram engine",
        "vllm:kv_block_idle_before_evict_seconds histogram engine",
        "vllm:kv_block_reuse_gap_seconds histogram engine",
        "vllm:num_preemptions counter engine",
        "vllm:prompt_tokens counter engine",
        "vllm:prompt_tokens_by_source counter engine source",
        "vllm:prompt_tokens_cached counter engine",
        "vllm:generation_tokens counter engine",
        "vllm:request_success counter engine finished_reason",
        "vllm:request_prompt_tokens histogram engine",
        "vllm:request_generation_tokens histogram engine",
        "vllm:request_max_num_generation_tokens histogram engine",
        "vllm:request_params_max_tokens histogram engine",
        "vllm:request_params_n histogram engine",
        "vllm:request_prefill_kv_computed_tokens histogram engine",
        "vllm:time_to_first_token_seconds histogram engine",
        "vllm:inter_token_latency_seconds histogram engine",
        "vllm:e2e_request_latency_seconds histogram engine",
        "vllm:request_queue_time_seconds histogram engine",
        "vllm:request_prefill_time_seconds histogram engine",
        "vllm:request_decode_time_seconds histogram engine",
        "vllm:request_inference_time_seconds histogram engine",
        "vllm:request_time_per_output_token_seconds histogram engine",
        "http_requests counter handler method status",
        "http_request_duration_seconds histogram handler method",
        "http_request_duration_highr_seconds histogram",
    ),
    **_families(
        "0.24.0",
        "vllm:lora_requests_info gauge ?",
    ),
    **_families(
        "0.30.0",
        "vllm:mooncake_store_operation_time_seconds histogram ?",
        "vllm:mooncake_store_operation counter ?",
        "vllm:mooncake_store_operation_keys counter ?",
        "vllm:mooncake_store_operation_bytes counter ?",
        "vllm:mooncake_store_operation_failed_keys counter ?",
        "vllm:nixl_xfer_time_seconds histogram engine",
        "vllm:nixl_post_time_seconds histogram engine",
        "vllm:nixl_bytes_transferred histogram engine",
        "vllm:nixl_num_descriptors histogram engine",
        "vllm:nixl_num_failed_transfers counter engine",
        "vllm:nixl_num_failed_notifications counter engine",
        "vllm:nixl_num_kv_expired_reqs counter engine",
        "vllm:iteration_tokens_total histogram engine",
    ),
    **_families(
        "0.31.0",
        "vllm:request_num_preemptions histogram engine",
    ),
    **_families(
        "0.32.0",
        "vllm:prompt_tokens_cached_by_source counter engine source",
        "vllm:corrupted_requests counter engine",
        "vllm:rl_weight_update_operation_duration_seconds histogram operation",
        "vllm:rl_weight_update_operations_in_flight gauge operation",
        "vllm:sleep_mode_operation_duration_seconds histogram operation",
        "vllm:sleep_mode_operations_in_flight gauge operation",
    ),
    **_families(
        "0.33.0",
        "vllm:mooncake_xfer_time_seconds histogram engine",
        "vllm:mooncake_bytes_transferred histogram engine",
        "vllm:mooncake_num_descriptors histogram engine",
        "vllm:mooncake_num_failed_transfers counter engine",
        "vllm:mooncake_num_failed_recvs counter engine",
        "vllm:mooncake_num_kv_expired_reqs counter engine",
    ),
}
"""By name."""

SAMPLES: Mapping[str, Family] = {
    sample: family for family in FAMILIES.values() for sample in family.samples
}
"""The family of each name of a sample."""

_FINISHES = ("abort", "error", "length", "repetition", "stop")
LABEL_VALUES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("http_requests", "status"): ("2xx", "3xx", "4xx", "5xx"),
    ("vllm:num_requests_waiting_by_reason", "reason"): ("capacity", "deferred"),
    ("vllm:prompt_tokens_by_source", "source"): (
        "external_kv_transfer",
        "local_cache_hit",
        "local_compute",
    ),
    ("vllm:prompt_tokens_cached_by_source", "source"): (
        "device",
        "disk",
        "external_unspecified",
        "host",
        "p2p",
    ),
    ("vllm:request_success", "finished_reason"): _FINISHES,
}
"""Family and label → all values that it can have, where that is known."""


def family_of(sample: str) -> Family | None:
    """Return the family of a sample, given with or without labels; ``None``: no known one."""
    return SAMPLES.get(sample.partition("{")[0])
