"""Command lines and environment of the binary: ``serve`` (handshake owner) and ``frontend``.

``frontend`` is what vLLM's own supervisor starts (bootstrapped): listening sockets are inherited,
and all options that the two share travel as one JSON object. So what is given to the process as
arguments becomes keys of that object there.

Source: ``--help`` of the binaries; protocol page, section 19.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from client.protocol.strict_json import loads
from harness.targets.vllm_rs.model_folder import LORA_FOLDER
from harness.targets.vllm_rs.releases import at_least

HOST = "127.0.0.1"
LogLevel = Literal["all", "debug", "info"]
"""``all`` adds the coordinator's line for each wave notice, of which a flood has very many."""
PROFILE_ROUTES_SINCE = "0.25.0"
PROFILER = {"profiler": "torch"}
SCALE_OUT_SINCE = "0.30.0"
"""First release that serves the raw generate route only when asked to."""
START_INDEX_SINCE = "0.24.0"
"""First release whose ``frontend`` can be told that its first engine is not rank 0."""
SIZE_SINCE = "0.28.0"
"""First release whose ``frontend`` can be told the size of the deployment."""
LISTENERS_SINCE = "0.32.0"
"""First release whose ``frontend`` inherits its data plane, and can serve gRPC."""
_QUIET = "tower_http=off,hyper=off,hyper_util=off,h2=off,tonic=off,tower=off"
"""Libraries whose debug lines tell nothing about the protocol."""
_QUIET_COORDINATOR = "vllm_engine_core_client::coordinator::inproc=info"
_LISTS = frozenset({"served_model_name", "lora_modules"})
"""Options of ``serve`` that take several values."""
_REMOVED = ("VLLM_DISABLE_REQUEST_ID_RANDOMIZATION", "VLLM_LOGGING_LEVEL", "RUST_BACKTRACE")
_REMOVED_PREFIXES = ("VLLM_", "OTEL_")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What varies between runs of a handshake owner. Times in seconds."""

    model: Path
    engines: int
    http_port: int
    grpc_port: int
    handshake_port: int
    ready_timeout_s: float | None = None
    shutdown_timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BootstrapOptions:
    """What varies between runs of a bootstrapped frontend. Times in seconds.

    Attributes:
        http, grpc: listening descriptors that the process inherits; ``grpc`` ≥ 0.32 only.
        input, output: the data plane: an address up to 0.31, a descriptor from 0.32.
        coordinator: front address of an external coordinator.
        data_parallel_size: of the deployment, ≥ 0.28 only.
    """

    model: Path
    engines: int
    http: int
    input: str | int
    output: str | int
    start_index: int = 0
    grpc: int | None = None
    coordinator: str | None = None
    data_parallel_size: int | None = None
    ready_timeout_s: float | None = None
    shutdown_timeout_s: float = 0.0


def serve_command(
    binary: Path, release: str, options: ServeOptions, arguments: Iterable[str] = ()
) -> list[str]:
    """Return the command; timeouts are rounded up to whole seconds, as the flags want them.

    ``arguments`` stand behind ours, as they are.
    """
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
    if at_least(release, PROFILE_ROUTES_SINCE):
        command += ["--profiler-config", json.dumps(PROFILER)]
    if at_least(release, SCALE_OUT_SINCE):
        command.append("--enable-scale-out")
    return [*command, *arguments]


def bootstrap_command(
    binary: Path, release: str, options: BootstrapOptions, arguments: Iterable[str] = ()
) -> list[str]:
    """Return the command of ``frontend``; ``arguments`` are added to its JSON object."""
    command = [str(binary), "frontend", "--listen-fd", str(options.http)]
    listeners = at_least(release, LISTENERS_SINCE)
    way = "listener-fd" if listeners else "address"
    command += [f"--input-{way}", str(options.input), f"--output-{way}", str(options.output)]
    if listeners and options.grpc is not None:
        command += ["--grpc-listen-fd", str(options.grpc)]
    if options.coordinator is not None:
        command += ["--coordinator-address", options.coordinator]
    if at_least(release, START_INDEX_SINCE):
        command += ["--engine-start-index", str(options.start_index)]
    command += ["--engine-count", str(options.engines)]
    if at_least(release, SIZE_SINCE) and options.data_parallel_size is not None:
        command += ["--data-parallel-size", str(options.data_parallel_size)]
    shared: dict[str, Any] = {"model_tag": str(options.model)}
    if options.ready_timeout_s is not None:
        shared["engine_ready_timeout_secs"] = math.ceil(options.ready_timeout_s)
    if options.shutdown_timeout_s > 0:
        shared["shutdown_timeout"] = math.ceil(options.shutdown_timeout_s)
    if at_least(release, PROFILE_ROUTES_SINCE):
        shared["profiler_config"] = PROFILER
    if at_least(release, SCALE_OUT_SINCE):
        shared["enable_scale_out"] = True
    shared.update(json_arguments(arguments))
    return [*command, "--args-json", json.dumps(shared)]


def json_arguments(arguments: Iterable[str]) -> dict[str, Any]:
    """Turn arguments of ``serve`` into keys of the JSON object that ``frontend`` takes.

    ``--enable-x`` becomes ``{"enable_x": true}``; ``--x 3`` and ``--x=3`` become ``{"x": 3}``. A
    value that is no JSON is a text. Options that take several values become lists.

    Raises:
        ValueError: a value without a name before it.
    """
    found: dict[str, Any] = {}
    name: str | None = None
    for word in arguments:
        if word.startswith("--"):
            flag, has_value, text = word[2:].partition("=")
            key = flag.replace("-", "_")
            found[key] = _value(text) if has_value else True
            name = None if has_value else key
        elif name is None:
            msg = f"argument {word!r} belongs to no option; write --option {word}"
            raise ValueError(msg)
        elif name in _LISTS:
            found[name] = [*(found[name] if isinstance(found[name], list) else []), word]
        else:
            found[name] = _value(word)
            name = None
    return {
        key: [value] if key in _LISTS and isinstance(value, str) else value
        for key, value in found.items()
    }


def _value(text: str) -> Any:
    try:
        return loads(text, lenient=True)
    except ValueError:
        return text


def process_environment(
    model: Path, inherited: Mapping[str, str], log_level: LogLevel = "debug"
) -> dict[str, str]:
    """Return the environment: the caller's without its own settings of vLLM, plus ours."""
    filters = {
        "all": f"debug,{_QUIET}",
        "debug": f"debug,{_QUIET_COORDINATOR},{_QUIET}",
        "info": f"info,{_QUIET}",
    }
    return {
        **dict(_kept(inherited)),
        "HF_HUB_OFFLINE": "1",
        "NO_COLOR": "1",
        "RUST_LOG": filters[log_level],
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_RUNTIME_LORA_ALLOWED_PATH_PREFIXES": str(model / LORA_FOLDER),
        "VLLM_SERVER_DEV_MODE": "1",
    }


def _kept(inherited: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in inherited.items():
        if name not in _REMOVED and not name.startswith(_REMOVED_PREFIXES):
            yield name, value


def current_environment() -> Mapping[str, str]:
    """Return our own environment."""
    return os.environ
