"""The one table of what differs between vLLM releases.

Every release from 0.22.0 to 0.33.0 is one ``Profile``; no other module compares versions.
A profile holds *documented* differences. Faults that a release had and that were fixed upstream
(rewinding coordinator, fail-fast fan-out, leaked waiters, rank aliasing, first-engine-only
aggregation) are no part of it: they live on as mutants.

Sources: vLLM ``vllm/v1/engine/__init__.py`` of each release (field lists), Rust
``rust/src/engine-core-client/src/`` and the released binaries (strictness, section 20 of the
protocol page has the summary).
"""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

from client.protocol.messages import EngineCoreRequest

RELEASES: tuple[str, ...] = (
    "0.22.0",
    "0.22.1",
    "0.23.0",
    "0.24.0",
    "0.25.0",
    "0.25.1",
    "0.26.0",
    "0.27.0",
    "0.27.1",
    "0.28.0",
    "0.29.0",
    "0.30.0",
    "0.31.0",
    "0.32.0",
    "0.33.0",
)
"""All known releases, oldest first."""
NEWEST = RELEASES[-1]

Since = tuple[tuple[str, str], ...]
"""Pairs (name, release since which it exists), in wire order."""

# EngineCoreOutput in wire order. A field of a later release may sit in the middle:
# ec_transfer_params moved everything behind it by one place.
_OUTPUT_FIELDS: Since = (
    ("request_id", "0.22"),
    ("new_token_ids", "0.22"),
    ("new_logprobs", "0.22"),
    ("new_prompt_logprobs_tensors", "0.22"),
    ("pooling_output", "0.22"),
    ("finish_reason", "0.22"),
    ("stop_reason", "0.22"),
    ("events", "0.22"),
    ("kv_transfer_params", "0.22"),
    ("ec_transfer_params", "0.26"),
    ("trace_headers", "0.22"),
    ("prefill_stats", "0.22"),
    ("routed_experts", "0.22"),
    ("num_nans_in_logits", "0.22"),
    ("mm_cache_miss_hashes", "0.28"),
    ("new_sampling_mask", "0.28"),
    ("spec_decode_metrics", "0.29"),
    ("prompt_token_id_logprobs", "0.31"),
    ("error", "0.33"),
)

# Free-form for the Rust client until it learned to use them (measured on the binaries).
_TYPED_OUTPUT_FIELDS: Since = (
    ("new_sampling_mask", "0.31"),
    ("spec_decode_metrics", "0.31"),
    ("prompt_token_id_logprobs", "0.31"),
    ("routed_experts", "0.33"),
)

_READY_KEYS: Since = (
    ("max_model_len", "0.22"),
    ("num_gpu_blocks", "0.22"),
    ("block_size", "0.23"),
    ("dp_stats_address", "0.22"),
    ("dtype", "0.22"),
    ("vllm_version", "0.23"),
    ("world_size", "0.24"),
    ("data_parallel_size", "0.24"),
    ("tensor_parallel_size", "0.27"),
    ("pipeline_parallel_size", "0.27"),
    ("decode_context_parallel_size", "0.27"),
    ("data_parallel_rank", "0.27"),
    ("max_num_seqs", "0.27"),
    ("max_num_batched_tokens", "0.27"),
    ("instance_id", "0.27"),
    ("supports_lora", "0.29"),
    ("max_loras", "0.29"),
    ("mamba_block_size", "0.29"),
    ("kv_cache_size_tokens", "0.24"),
    ("kv_cache_max_concurrency", "0.24"),
    ("kv_events_config", "0.27"),
    ("weight_transfer_backend", "0.28"),
    ("enable_sleep_mode", "0.28"),
    ("supports_draft_weight_updates", "0.28"),
    ("effective_attention_block_size", "0.31"),
    ("coord_store_port", "0.33"),
    ("coordinator_input_address", "0.33"),
    ("coordinator_output_address", "0.33"),
)

# What the Rust decoder misses when it is absent; later than the key itself for some.
_READY_REQUIRED: Since = (
    ("max_model_len", "0.22"),
    ("num_gpu_blocks", "0.22"),
    ("dtype", "0.23"),
    ("vllm_version", "0.23"),
    ("block_size", "0.24"),
    ("world_size", "0.24"),
    ("data_parallel_size", "0.24"),
    ("tensor_parallel_size", "0.27"),
    ("pipeline_parallel_size", "0.27"),
    ("decode_context_parallel_size", "0.27"),
    ("data_parallel_rank", "0.27"),
    ("max_num_seqs", "0.27"),
    ("max_num_batched_tokens", "0.27"),
    ("instance_id", "0.27"),
    ("supports_lora", "0.29"),
    ("max_loras", "0.29"),
)

# The first two groups hold in every profile: before 0.23 the client took the first engine's
# value, which was the fault of PR #43429 and is kept as a mutant.
_CONSENSUS_METHODS: Since = (
    ("is_sleeping", "0.22"),
    ("is_scheduler_paused", "0.22"),
    ("get_weight_version", "0.22"),
)
_AND_METHODS: Since = (
    ("reset_prefix_cache", "0.22"),
    ("add_lora", "0.22"),
    ("remove_lora", "0.22"),
    ("wake_up", "0.31"),
)

_STATS_REQUIRED = (
    "num_running_reqs",
    "num_waiting_reqs",
    "step_counter",
    "current_wave",
    "kv_cache_usage",
    "prefix_cache_stats",
    "kv_cache_eviction_events",
)
_STATS_LORA = ("waiting_lora_adapters", "running_lora_adapters")


class UnknownReleaseError(ValueError):
    """There is no profile for this release; the message lists the known ones."""

    def __init__(self, release: str) -> None:
        self.release = release
        super().__init__(f"unknown release {release!r}; known: {', '.join(RELEASES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one release does on the wire and in the client.

    Attributes:
        release: e.g. ``"0.33.0"``.
        version: the same, comparable.
        request_fields: elements of EngineCoreRequest on the wire.
        request_field_names: their names, in wire order.
        output_fields: elements of EngineCoreOutput that an engine sends.
        output_field_names: their names, in wire order.
        output_fields_max: longest row that the client decodes; ``None`` = any.
        outputs_fields: elements of EngineCoreOutputs that an engine sends.
        outputs_fields_max: longest envelope that the client decodes.
        has_ec_transfer: ``ec_transfer_params`` is at index 9 and moves what follows.
        logprobs_tuple_max: longest logprobs tuple that the client decodes; ``None`` = any.
        logprobs_rank_min: lowest token rank that the client takes in logprobs.
        typed_output_fields: fields that the client decodes in full; they are opaque before.
        unknown_dtype_is_decode_error: a tensor of an unknown dtype fails as ``Decode``; before
            0.30 as ``ExtValueDecode``.
        two_byte_identity_required: an identity of another length is fatal.
        unclassified_is_decode_error: an output of no class fails in the decoder already.
        ready_keys: keys of the ready response that engines send, in order.
        ready_required: keys that the client must find in it.
        empty_registration_accepted: a registration without body is taken.
        stats_required: keys that scheduler stats must have.
        checks_lora_consistency: ready responses must agree about LoRA.
        frontend_starts_waves: the client tells its coordinator of a first request (≤ 0.32).
        engine_starts_current_wave: an idle engine starts the current wave itself (0.33).
        waiting_weight: factor of waiting requests in the routing score.
        rank_checked_u16: an explicit rank is looked up among the connected ones.
        config_validated: topology rules are checked before any socket work.
        config_error_wrapped: such an error is an ``InvalidClientConfig``.
        publish_counts_fields: numbers for each engine in a coordinator publish.
        consensus_methods: utility methods on whose value all engines must agree.
        and_methods: utility methods whose booleans are joined by AND.
        pause_method: utility method behind the client's ``pause``.
        wake_up_returns_bool: ``wake_up`` is answered with bool, not nil.
        groups_aborts: one ABORT frame for each engine, not for each request.
        lora_request_fields: elements of a LoRA request array.
        external_coordinator_start_index: bootstrapped ranks may start above 0.
        external_coordinator_marks_running: the coordinator process sets running on a first
            request by itself.
        late_subscriber_hears_waves: a subscription after startup is served.
        request_error_field: an output can carry ``error``.
        outbound_aux_frames: the client moves large tensors of ADD to aux frames.
        refuses_second_profile: profiling is not started twice, and its call carries iteration
            numbers.
        gate_counts_messages: the startup gate counts subscriptions, not engines.
    """

    release: str
    version: Version
    request_fields: int
    request_field_names: tuple[str, ...]
    output_fields: int
    output_field_names: tuple[str, ...]
    output_fields_max: int | None
    outputs_fields: int
    outputs_fields_max: int
    has_ec_transfer: bool
    logprobs_tuple_max: int | None
    logprobs_rank_min: int
    typed_output_fields: frozenset[str]
    unknown_dtype_is_decode_error: bool
    two_byte_identity_required: bool
    unclassified_is_decode_error: bool
    ready_keys: tuple[str, ...]
    ready_required: frozenset[str]
    empty_registration_accepted: bool
    stats_required: tuple[str, ...]
    checks_lora_consistency: bool
    frontend_starts_waves: bool
    engine_starts_current_wave: bool
    waiting_weight: int
    rank_checked_u16: bool
    config_validated: bool
    config_error_wrapped: bool
    publish_counts_fields: int
    consensus_methods: frozenset[str]
    and_methods: frozenset[str]
    pause_method: str
    wake_up_returns_bool: bool
    groups_aborts: bool
    lora_request_fields: int
    external_coordinator_start_index: bool
    external_coordinator_marks_running: bool
    late_subscriber_hears_waves: bool
    request_error_field: bool
    outbound_aux_frames: bool
    refuses_second_profile: bool
    gate_counts_messages: bool = True


def _names(table: Since, version: Version) -> tuple[str, ...]:
    return tuple(name for name, since in table if version >= Version(since))


def _build(release: str) -> Profile:
    version = Version(release)

    def since(bound: str) -> bool:
        return version >= Version(bound)

    request_fields = 20 + since("0.28") + since("0.31")
    output_names = _names(_OUTPUT_FIELDS, version)
    outputs_fields = 9 if since("0.32") else 8
    return Profile(
        release=release,
        version=version,
        request_fields=request_fields,
        request_field_names=EngineCoreRequest.__struct_fields__[:request_fields],
        output_fields=len(output_names),
        output_field_names=output_names,
        output_fields_max=None if since("0.31") else len(output_names),
        outputs_fields=outputs_fields,
        outputs_fields_max=outputs_fields,
        has_ec_transfer=since("0.26"),
        logprobs_tuple_max=None if since("0.29") else 4,
        logprobs_rank_min=0 if since("0.31") else 1,
        typed_output_fields=frozenset(_names(_TYPED_OUTPUT_FIELDS, version)),
        unknown_dtype_is_decode_error=since("0.30"),
        two_byte_identity_required=since("0.25"),
        unclassified_is_decode_error=since("0.25"),
        ready_keys=_names(_READY_KEYS, version),
        ready_required=frozenset(_names(_READY_REQUIRED, version)),
        empty_registration_accepted=not since("0.23"),
        stats_required=_STATS_REQUIRED + (() if since("0.24") else _STATS_LORA),
        checks_lora_consistency=since("0.29"),
        frontend_starts_waves=not since("0.33"),
        engine_starts_current_wave=since("0.33"),
        waiting_weight=0 if since("0.27") else 3,
        rank_checked_u16=since("0.28"),
        config_validated=since("0.28"),
        config_error_wrapped=since("0.29"),
        publish_counts_fields=3 if since("0.27") else 2,
        consensus_methods=frozenset(_names(_CONSENSUS_METHODS, version)),
        and_methods=frozenset(_names(_AND_METHODS, version)),
        pause_method="pause_generation" if since("0.33") else "pause_scheduler",
        wake_up_returns_bool=since("0.31"),
        groups_aborts=since("0.24"),
        lora_request_fields=6 if since("0.33") else 7,
        external_coordinator_start_index=since("0.24"),
        external_coordinator_marks_running=not since("0.29"),
        late_subscriber_hears_waves=since("0.32"),
        request_error_field=since("0.33"),
        outbound_aux_frames=since("0.27"),
        refuses_second_profile=since("0.32"),
    )


PROFILES: dict[str, Profile] = {release: _build(release) for release in RELEASES}
"""All profiles by release, oldest first."""


def profile_for(release: str) -> Profile:
    """Return the profile of a release.

    Raises:
        UnknownReleaseError: the release is not one of ``RELEASES``.
    """
    try:
        return PROFILES[release]
    except KeyError:
        raise UnknownReleaseError(release) from None
