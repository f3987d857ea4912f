"""Which modules of vLLM are executed, which are stubbed, and where they are in a wheel."""

from __future__ import annotations

STUBBED_ROOTS = frozenset(
    {
        "vllm", "torch", "numpy", "cloudpickle", "psutil", "urllib3", "uvloop", "setproctitle",
        "ray", "transformers", "tokenizers", "prometheus_client", "PIL", "regex",
    }
)  # fmt: skip
"""Top-level packages of which nothing is imported but what follows, installed or not."""

COORDINATOR = "vllm.v1.engine.coordinator"
CORE_CLIENT = "vllm.v1.engine.core_client"
CORE = "vllm.v1.engine.core"
ASYNC_LLM = "vllm.v1.engine.async_llm"
OUTPUT_PROCESSOR = "vllm.v1.engine.output_processor"
ASYNC_UTILS = "vllm.utils.async_utils"
INPUT_PROCESSOR = "vllm.v1.engine.input_processor"
ENGINE = "vllm.v1.engine"
ENGINE_UTILS = "vllm.v1.engine.utils"
SAMPLING_PARAMS = "vllm.sampling_params"
PARALLEL_CONFIG = "vllm.config.parallel"
EXECUTOR = "vllm.v1.executor.abstract"
SCHEDULER_INTERFACE = "vllm.v1.core.sched.interface"

EXECUTED = frozenset(
    {
        "vllm.envs",
        "vllm.exceptions",
        "vllm.logprobs",
        "vllm.outputs",
        SAMPLING_PARAMS,
        "vllm.utils",
        ASYNC_UTILS,
        "vllm.utils.collection_utils",
        "vllm.utils.network_utils",
        ENGINE,
        "vllm.v1.engine.admission_control",
        ASYNC_LLM,
        COORDINATOR,
        CORE,
        CORE_CLIENT,
        EXECUTOR,
        PARALLEL_CONFIG,
        SCHEDULER_INTERFACE,
        "vllm.v1.engine.detokenizer",
        "vllm.v1.engine.exceptions",
        INPUT_PROCESSOR,
        "vllm.v1.engine.logprobs",
        OUTPUT_PROCESSOR,
        "vllm.v1.engine.parallel_sampling",
        ENGINE_UTILS,
        "vllm.v1.metrics.stats",
        "vllm.v1.pool.late_interaction",
        "vllm.v1.serial_utils",
        "vllm.v1.utils",
    }
)
"""Modules that come from the release's sources; every other one of vLLM's is a stub."""


def member_of(module: str, *, package: bool) -> str:
    """Return the wheel's member for a module."""
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if package else f"{path}.py"
