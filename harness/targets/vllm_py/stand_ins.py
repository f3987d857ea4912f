"""What stands round AsyncLLM: no engines are started, no prompt is read, nothing is rendered.

``prepare`` puts these stand-ins into vLLM's modules, after it has proven the judged classes. Runs
in child processes only.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

from harness.targets.vllm_py.loader import Loaded
from harness.targets.vllm_py.members import (
    ASYNC_LLM,
    ASYNC_UTILS,
    COORDINATOR,
    CORE_CLIENT,
    ENGINE_UTILS,
    INPUT_PROCESSOR,
    OUTPUT_PROCESSOR,
)

JUDGED = (
    (ASYNC_LLM, "AsyncLLM"),
    (OUTPUT_PROCESSOR, "OutputProcessor"),
    (CORE_CLIENT, "AsyncMPClient"),
    (CORE_CLIENT, "DPAsyncMPClient"),
    (CORE_CLIENT, "DPLBAsyncMPClient"),
    (COORDINATOR, "DPCoordinatorProc"),
)


class Renderer:
    """Stands for vLLM's renderer: there is neither tokenizer nor multi-modal cache."""

    tokenizer = None
    mm_processor_cache = None

    def start_mm_warmup_in_background(self) -> None:
        """Nothing to warm up."""

    async def clear_mm_cache_async(self) -> None:
        """Nothing to clear."""

    def stat_mm_cache(self) -> None:
        """Nothing to count."""

    def shutdown(self) -> None:
        """Nothing to end."""


class Says(Protocol):
    """Where a stand-in tells the harness something."""

    def say(self, **values: Any) -> None:
        """Write one line."""


def prepare(loaded: Loaded, pipe: Says) -> Any:
    """Put our stand-ins into vLLM's modules and return the class AsyncLLM, proven."""
    for module, name in JUDGED:
        proof = loaded.prove(loaded.get(module, name))
        pipe.say(proof=proof.name, file=proof.file, sha256=proof.sha256)
    utils = loaded.module(ENGINE_UTILS)
    inputs = loaded.module(INPUT_PROCESSOR).InputProcessor

    class Engines:
        """The engine manager: the harness has the engines."""

        def __init__(self, *_args: Any, handshake_address: str, **_kwargs: Any) -> None:
            pipe.say(handshake=handshake_address)

        def shutdown(self, timeout: float | None = None) -> None:
            pass

        def close(self) -> None:
            pass

        def sentinels(self) -> list[Any]:
            return []

        def finished_procs(self) -> dict[str, int]:
            return {}

        def monitor_engine_liveness(self) -> None:
            threading.Event().wait()

    class Inputs:
        """The input processor: ids only."""

        def __init__(self, *_args: Any) -> None:
            self.renderer = Renderer()

        assign_request_id = staticmethod(inputs.assign_request_id)

        def resolve_watermarking(self, _params: Any) -> None:
            return None

        def apply_watermarking(self, _params: Any, _watermarking: Any) -> None:
            pass

    utils.CoreEngineProcManager = Engines  # type: ignore[attr-defined]
    loaded.module(CORE_CLIENT).CoreEngineProcManager = Engines  # type: ignore[attr-defined]
    llm = loaded.module(ASYNC_LLM)
    llm.InputProcessor = Inputs  # type: ignore[attr-defined]
    llm.renderer_from_config = lambda _config: Renderer()  # type: ignore[attr-defined]
    llm.load_stat_logger_plugin_factories = list  # type: ignore[attr-defined]
    for name in ("maybe_register_config_serialize_by_value", "shutdown_prometheus"):
        setattr(llm, name, lambda: None)
    llm.cancel_task_threadsafe = loaded.module(ASYNC_UTILS).cancel_task_threadsafe  # type: ignore[attr-defined]
    return llm.AsyncLLM
