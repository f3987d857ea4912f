"""The command line and environment of the binary in handshake-owner mode.

Source: page on the real frontend; protocol page, section 19.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.targets.vllm_rs.model_folder import LORA_FOLDER
from harness.targets.vllm_rs.releases import at_least

HOST = "127.0.0.1"
LogLevel = Literal["all", "debug", "info"]
"""``all`` adds the coordinator's line for each wave notice, of which a flood has very many."""
_PROFILE_ROUTES_SINCE = "0.25.0"
_QUIET = "tower_http=off,hyper=off,hyper_util=off,h2=off,tonic=off,tower=off"
"""Libraries whose debug lines tell nothing about the protocol."""
_QUIET_COORDINATOR = "vllm_engine_core_client::coordinator=info"
_REMOVED = ("VLLM_DISABLE_REQUEST_ID_RANDOMIZATION", "VLLM_LOGGING_LEVEL", "RUST_BACKTRACE")
_REMOVED_PREFIXES = ("VLLM_", "OTEL_")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What varies between runs. Times in seconds."""

    model: Path
    engines: int
    http_port: int
    grpc_port: int
    handshake_port: int
    ready_timeout_s: float | None = None
    shutdown_timeout_s: float = 0.0
    log_level: LogLevel = "debug"


def serve_command(binary: Path, release: str, options: ServeOptions) -> list[str]:
    """Return the command; timeouts are rounded up to whole seconds, as the flags want them."""
    command = [
        *(str(binary), "serve", str(options.model)),
        *("--host", HOST, "--port", str(options.http_port)),
        *("--grpc-port", str(options.grpc_port)),
        *("--data-parallel-size", str(options.engines), "--data-parallel-size-local", "0"),
        *("--data-parallel-address", HOST),
        *("--data-parallel-rpc-port", str(options.handshake_port)),
    ]
    if options.ready_timeout_s is not None:
        seconds = str(math.ceil(options.ready_timeout_s))
        command += ["--engine-ready-timeout-secs", seconds]
    if options.shutdown_timeout_s > 0:
        command += ["--shutdown-timeout", str(math.ceil(options.shutdown_timeout_s))]
    if at_least(release, _PROFILE_ROUTES_SINCE):
        command += ["--profiler-config", '{"profiler":"torch"}']
    return command


def serve_environment(options: ServeOptions, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment: the caller's without its own settings of vLLM, plus ours."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name not in _REMOVED and not name.startswith(_REMOVED_PREFIXES)
    }
    filters = {
        "all": f"debug,{_QUIET}",
        "debug": f"debug,{_QUIET_COORDINATOR},{_QUIET}",
        "info": f"info,{_QUIET}",
    }
    return {
        **kept,
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "RUST_LOG": filters[options.log_level],
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_RUNTIME_LORA_ALLOWED_PATH_PREFIXES": str(options.model / LORA_FOLDER),
        "VLLM_SERVER_DEV_MODE": "1",
    }


def current_environment() -> Mapping[str, str]:
    """Return our own environment."""
    return os.environ
