"""What a mock engine says of itself when it registers.

Source: vLLM ``v1/engine/core.py`` (EngineCoreReadyResponse); which keys a release has is in
``client.protocol.profiles``.
"""

from __future__ import annotations

from typing import Any

from client.protocol.codec_kept import Kept
from client.protocol.messages import ReadyResponse
from client.protocol.profiles import Profile
from mock_engines.behaviours.model import Join

BLOCK_SIZE = 16
NUM_GPU_BLOCKS = 1024
MAX_LORAS = 8


_DEFAULTS: Kept[dict[str, Any]] = Kept()


def default_values(profile: Profile, *, rank: int, data_parallel_size: int) -> dict[str, Any]:
    """Build the ready response of a well-behaved engine, keys in the release's order.

    A dense engine behaves as if it were alone and reports a ``data_parallel_size`` of 1
    (vLLM #51178), so the caller decides.
    """
    table, key = _DEFAULTS.table(profile), (rank, data_parallel_size)
    if (kept := table.get(key)) is not None:
        return dict(kept)
    known: dict[str, Any] = {
        "max_model_len": 4096,
        "num_gpu_blocks": NUM_GPU_BLOCKS,
        "block_size": BLOCK_SIZE,
        "dp_stats_address": None,
        "dtype": "bfloat16",
        "vllm_version": profile.release,
        "world_size": 1,
        "data_parallel_size": data_parallel_size,
        "tensor_parallel_size": 1,
        "pipeline_parallel_size": 1,
        "decode_context_parallel_size": 1,
        "data_parallel_rank": rank,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 8192,
        "instance_id": f"mock-{rank}",
        "supports_lora": True,
        "max_loras": MAX_LORAS,
        "mamba_block_size": None,
        "kv_cache_size_tokens": BLOCK_SIZE * NUM_GPU_BLOCKS,
        "kv_cache_max_concurrency": 4.0,
        "kv_events_config": None,
        "weight_transfer_backend": "nccl",
        "enable_sleep_mode": True,
        "supports_draft_weight_updates": False,
        "effective_attention_block_size": BLOCK_SIZE,
        "coord_store_port": 0,
        "coordinator_input_address": None,
        "coordinator_output_address": None,
    }
    values = {key: known.get(key) for key in profile.ready_keys}
    table.keep(key, values)
    return dict(values)


def ready_response(
    profile: Profile, join: Join, *, rank: int, data_parallel_size: int
) -> ReadyResponse:
    """Build the response of this engine: the default, changed as its ``join`` says."""
    values = default_values(profile, rank=rank, data_parallel_size=data_parallel_size)
    values.update(join.ready)
    for key in join.ready_without:
        values.pop(key, None)
    return ReadyResponse(values)
