"""The command line of ``serve`` and what it comes to.

Names are those of ``vllm-rs serve``; ``--release`` and ``--mutant`` are ours. Environment
variables with a meaning: ``VLLM_SERVER_DEV_MODE``, ``VLLM_ALLOW_RUNTIME_LORA_UPDATING``,
``VLLM_RUNTIME_LORA_ALLOWED_PATH_PREFIXES``, ``VLLM_ENGINE_READY_TIMEOUT_S``, ``RUST_LOG``.

Source: protocol page, section 19.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from client.config import READY_TIMEOUT_S
from client.protocol.ids import RANKS_MAX
from client.protocol.profiles import NEWEST, RELEASES, Profile, profile_for
from client.protocol.strict_json import loads
from harness.loopback import exposures_of
from harness.reading import NotRegularError, TooLargeError, read_regular
from harness.reports.annotations import defused
from harness.reports.visible import visible
from harness.shortened import shortened

PORT_MAX = (1 << 16) - 1
CONFIG_BYTES_MAX = 16 << 20
"""Largest configuration of a model; real ones have some kilobytes."""
_A_MODEL = "give a folder with a config.json, as a model has"
_EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What a server is started with. Times in seconds.

    Attributes:
        profile: the release that is imitated.
        model: as named on the command line.
        names: what callers may call the model; the first one is shown.
        moe: whether the model's configuration counts experts.
        vocabulary: its vocabulary size, ``None`` if it does not say.
        grpc_port: ``None``: no gRPC.
        mutant: id of a mutant whose parts the client is built from.
        dev_mode: admin routes are there.
        lora_prefixes: folders below which adapters may lie; ``None``: no LoRA routes.
        profiler: profile routes are there.
        log_filter: directives as in ``RUST_LOG``.
    """

    profile: Profile
    model: str
    names: tuple[str, ...]
    moe: bool
    vocabulary: int | None
    host: str
    port: int
    grpc_port: int | None
    engine_count: int
    handshake_host: str
    handshake_port: int
    ready_timeout_s: float
    shutdown_timeout_s: float
    mutant: str | None
    dev_mode: bool
    lora_prefixes: tuple[str, ...] | None
    profiler: bool
    log_filter: str

    @property
    def in_process_coordinator(self) -> bool:
        """A coordinator is there for MoE models with several engines only."""
        return self.moe and self.engine_count > 1


def model_config(model: str) -> dict[str, Any]:
    """Read ``config.json`` of a model folder.

    Raises:
        ValueError: it is not there or no JSON object; the message says which file.
    """
    path = Path(model, "config.json")
    try:
        config = loads(read_regular(path, CONFIG_BYTES_MAX))
    except FileNotFoundError as error:
        msg = f"there is no config.json in the model folder {model}; {_A_MODEL}"
        raise ValueError(msg) from error
    except NotADirectoryError as error:
        msg = f"the model {model} is no folder; {_A_MODEL}"
        raise ValueError(msg) from error
    except NotRegularError as error:
        msg = f"{path} is no regular file; {_A_MODEL}"
        raise ValueError(msg) from error
    except TooLargeError as error:
        msg = f"{path} is larger than {CONFIG_BYTES_MAX:,} bytes; {_A_MODEL}"
        raise ValueError(msg) from error
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise ValueError(msg) from error
    except ValueError as error:
        msg = f"{path} is no JSON: {error}"
        raise ValueError(msg) from error
    if not isinstance(config, dict):
        msg = f"{path} holds no JSON object"
        raise ValueError(msg)
    return config


def is_moe(config: Mapping[str, Any]) -> bool:
    """Whether some expert count is above zero; the architecture's name plays no part."""
    counts = (config.get(key) for key in _EXPERT_KEYS)
    return any(isinstance(count, int) and count > 0 for count in counts)


def _is_on(value: str | None) -> bool:
    """Read a switch of the environment that must be an integer other than zero."""
    try:
        return value is not None and int(value) != 0
    except ValueError:
        return False


def _ready_timeout(value: str | None) -> float:
    """Seconds that engines have to be ready."""
    try:
        return READY_TIMEOUT_S if value is None else float(value)
    except ValueError as error:
        msg = f"VLLM_ENGINE_READY_TIMEOUT_S={shortened(value or '', 100)} is no number of seconds"
        raise ValueError(msg) from error


def _lora_prefixes(environment: Mapping[str, str]) -> tuple[str, ...] | None:
    if environment.get("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "").lower() not in ("1", "true"):
        return None
    named = environment.get("VLLM_RUNTIME_LORA_ALLOWED_PATH_PREFIXES", "")
    return tuple(each for each in named.split(",") if each)


def settings_of(flags: Mapping[str, Any], environment: Mapping[str, str]) -> ServeSettings:
    """Turn options and environment into settings.

    Raises:
        ValueError: the model folder cannot be used, or a value of the environment is no number.
    """
    model = flags["model"]
    config = model_config(model)
    vocabulary = config.get("vocab_size")
    ready = flags["engine_ready_timeout_secs"]
    if ready is None:
        ready = _ready_timeout(environment.get("VLLM_ENGINE_READY_TIMEOUT_S"))
    return ServeSettings(
        profile=profile_for(flags["release"]),
        model=model,
        names=tuple(flags["served_model_name"]) or (model,),
        moe=is_moe(config),
        vocabulary=vocabulary if isinstance(vocabulary, int) else None,
        host=flags["host"],
        port=flags["port"],
        grpc_port=flags["grpc_port"],
        engine_count=flags["data_parallel_size"],
        handshake_host=flags["data_parallel_address"],
        handshake_port=flags["data_parallel_rpc_port"],
        ready_timeout_s=ready,
        shutdown_timeout_s=flags["shutdown_timeout"],
        mutant=flags["mutant"],
        dev_mode=_is_on(environment.get("VLLM_SERVER_DEV_MODE")),
        lora_prefixes=_lora_prefixes(environment),
        profiler=bool(flags["profiler_config"]),
        log_filter=environment.get("RUST_LOG", "info"),
    )


def _check_mutant(
    _context: click.Context, _option: click.Parameter, wanted: str | None
) -> str | None:
    if wanted is not None:
        from harness.mutants import UnknownMutantError, find_mutant

        try:
            find_mutant(wanted)
        except UnknownMutantError as error:
            raise click.BadParameter(str(error)) from error
    return wanted


def _check_local(_context: click.Context, _option: click.Parameter, local: int) -> int:
    if local != 0:
        msg = "must be 0: this frontend starts no engines (see `wavecheck engine`)"
        raise click.BadParameter(msg)
    return local


def _check_profiler(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        config = loads(text)
    except ValueError as error:
        msg = f"is no JSON: {error}"
        raise click.BadParameter(msg) from error
    if not isinstance(config, dict) or not config.get("profiler"):
        msg = "must be a JSON object with a 'profiler'"
        raise click.BadParameter(msg)
    return config


_PORT = click.IntRange(0, PORT_MAX)


def exposures(flags: Mapping[str, Any]) -> list[str]:
    """Say which listeners others can reach: nothing here asks who somebody is."""
    named = (("--host", flags["host"]), ("--data-parallel-address", flags["data_parallel_address"]))
    return exposures_of([str(word) for pair in named for word in pair])


@click.command("serve")
@click.argument("model", metavar="MODEL")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where HTTP and gRPC listen.")
@click.option("--port", type=_PORT, default=8000, show_default=True, help="HTTP port.")
@click.option("--grpc-port", type=_PORT, help="gRPC port; without it there is no gRPC.")
@click.option(
    "--data-parallel-size",
    type=click.IntRange(1, RANKS_MAX),
    default=1,
    show_default=True,
    help="How many engines join.",
)
@click.option(
    "--data-parallel-size-local",
    type=int,
    default=0,
    show_default=True,
    callback=_check_local,
    help="Must be 0: the engines are somebody else's.",
)
@click.option(
    "--data-parallel-address",
    default="127.0.0.1",
    show_default=True,
    help="Address on which engines reach us.",
)
@click.option(
    "--data-parallel-rpc-port",
    type=_PORT,
    default=29550,
    show_default=True,
    help="Port on which engines say HELLO.",
)
@click.option(
    "--engine-ready-timeout-secs",
    type=click.FloatRange(min=0, min_open=True),
    help="Timeout of each receive during startup. Default: 600.",
)
@click.option(
    "--shutdown-timeout",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="How long open requests may go on after SIGTERM, in seconds.",
)
@click.option("--served-model-name", multiple=True, help="What callers call the model.")
@click.option("--profiler-config", callback=_check_profiler, help="JSON; opens the profile routes.")
@click.option(
    "--enable-scale-out",
    is_flag=True,
    expose_value=False,
    help="Accepted as by the real one; the routes that it opens there do not exist here.",
)
@click.option(
    "--release",
    metavar="V",
    type=click.Choice(RELEASES),
    default=NEWEST,
    show_default=True,
    help="Release of the real frontend that is imitated.",
)
@click.option("--mutant", metavar="ID", callback=_check_mutant, help="A known bug to carry.")
def serve_command(**flags: Any) -> None:
    """Serve MODEL, a folder with a config.json, through engines that join.

    The options are those of `vllm-rs serve`; --release and --mutant are our own.
    """
    try:
        settings = settings_of(flags, os.environ)
    except ValueError as error:
        # As the real frontend: a model that cannot be loaded is a failed start, no wrong usage.
        click.echo(defused(visible(f"error: {error}")), err=True)
        sys.exit(1)
    try:
        from harness.reference_frontend.server import run
    except ImportError as error:
        text = f"error: serving needs {error.name}: pip install wavecheck[frontend]"
        click.echo(text, err=True)
        sys.exit(1)
    for text in exposures(flags):
        click.echo(defused(visible(text)), err=True)
    sys.exit(run(settings))
