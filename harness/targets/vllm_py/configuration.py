"""The few settings of vLLM's configuration that its DP clients read. Runs in child processes only.

Plain objects: asking one for a setting that is not here raises ``AttributeError`` and ends the
run as a fault of the harness; nothing is made up on the way.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

MODEL_LENGTH = 4096


class MissingSettingError(AttributeError):
    """vLLM's code asks for a setting that is not here: a gap of the harness, no fault of vLLM's."""


class Settings(SimpleNamespace):
    """Some settings; asking for another one is an error that can be told from vLLM's own."""

    def __getattr__(self, name: str) -> NoReturn:
        msg = f"the harness has no setting {name!r} for vLLM"
        raise MissingSettingError(msg)


def make_config(*, engines: int, moe: bool, streaming_interval: int = 1) -> Any:
    """Return what stands for ``VllmConfig``: internal load balancing over local engines."""
    parallel = Settings(
        data_parallel_size=engines,
        data_parallel_size_local=engines,
        data_parallel_rank=0,
        data_parallel_index=0,
        data_parallel_rank_local=None,
        data_parallel_master_ip="127.0.0.1",
        data_parallel_master_port=0,
        _data_parallel_master_port_list=[],
        _coord_store_port=0,
        data_parallel_rpc_port=0,
        data_parallel_backend="mp",
        data_parallel_hybrid_lb=False,
        data_parallel_external_lb=False,
        local_engines_only=False,
        enable_elastic_ep=False,
        enable_fault_tolerance=False,
        # Of the engines' READY, which the mock engines leave away.
        compute_hash=lambda: None,
        eplb_config=Settings(num_redundant_experts=0),
        nnodes=1,
        nnodes_within_dp=1,
        node_rank_within_dp=0,
        node_rank=0,
    )
    model = Settings(
        multimodal_config=None,
        is_moe=moe,
        max_model_len=MODEL_LENGTH,
        io_processor_plugin=None,
        skip_tokenizer_init=True,
    )
    return Settings(
        parallel_config=parallel,
        model_config=model,
        cache_config=Settings(
            num_gpu_blocks=0,
            block_size=16,
            mamba_block_size=None,
            kv_sharing_fast_prefill=False,
            effective_attention_block_size=None,
        ),
        scheduler_config=Settings(
            stream_interval=streaming_interval, max_num_queued_reqs=None, max_num_queued_tokens=None
        ),
        observability_config=Settings(otlp_traces_endpoint=None),
        profiler_config=Settings(
            profiler=None, should_profile_frontend=False, torch_profiler_activities=()
        ),
        logging_config=None,
        shutdown_timeout=0,
        needs_dp_coordinator=engines > 1,
    )
