"""Stand-ins for the few functions outside vLLM's judged classes that these really call.

They decide nothing that is judged: logging, the name of a process, how much memory there is, the
parts of an address. Runs in child processes only.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

LogSink = Callable[[str, str, str], None]
"""Takes level, logger's name and text."""
_sink: LogSink = lambda _level, _name, _text: None  # noqa: E731


def send_logs_to(sink: LogSink) -> None:
    """Hand every line that vLLM's code logs to ``sink``."""
    global _sink
    _sink = sink


class Logger:
    """What ``init_logger`` returns: the levels, each also with ``_once``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        level = name.removesuffix("_once")
        if level not in ("debug", "info", "warning", "error", "exception", "critical"):
            raise AttributeError(name)

        def log(text: Any, *args: Any, **_options: Any) -> None:
            known = tuple(arg for arg in args)
            _sink(level, self._name, str(text) % known if known else str(text))

        return log

    def isEnabledFor(self, _level: int) -> bool:  # noqa: N802 - the name that is called
        """Everything is told."""
        return True


def _logger() -> Mapping[str, Any]:
    def nothing(*_args: Any, **_options: Any) -> None:
        pass

    return {
        "init_logger": Logger,
        "configure_logging": nothing,
        "configure_logging_if_needed": nothing,
        "set_vllm_process_name": nothing,
        "logging": logging,
    }


def _psutil() -> Mapping[str, Any]:
    def virtual_memory() -> Any:
        page = os.sysconf("SC_PAGE_SIZE")
        return SimpleNamespace(
            total=page * os.sysconf("SC_PHYS_PAGES"),
            available=page * os.sysconf("SC_AVPHYS_PAGES"),
        )

    return {"virtual_memory": virtual_memory}


def _system_utils() -> Mapping[str, Any]:
    def nothing(*_args: Any, **_options: Any) -> None:
        pass

    return {
        "set_process_title": nothing,
        "decorate_logs": nothing,
        "kill_process_tree": nothing,
        "set_env_var": nothing,
        "get_mp_context": lambda: multiprocessing.get_context("fork"),
    }


def _urllib3() -> Mapping[str, Any]:
    return {"parse_url": urlsplit}


def _tokenizers() -> Mapping[str, Any]:
    # Asked for at import time, to choose a detokenizer; no scenario has a tokenizer.
    return {"__version__": "0.22.0"}


def _platform_utils() -> Mapping[str, Any]:
    return {"is_pin_memory_available": lambda: False}


def _distributed() -> Mapping[str, Any]:
    # Engines agree on ports through it; the mock engines need none.
    def create_tcp_store(*_args: Any, **_options: Any) -> Any:
        return SimpleNamespace(port=1)

    return {"create_tcp_store": create_tcp_store}


def _elastic_ep() -> Mapping[str, Any]:
    # Nothing here ever scales a deployment.
    return {"get_elastic_ep_rank_retired": lambda: False}


MODULES: Mapping[str, Callable[[], Mapping[str, Any]]] = {
    "vllm.logger": _logger,
    "vllm.utils.system_utils": _system_utils,
    "vllm.utils.platform_utils": _platform_utils,
    "vllm.distributed.utils": _distributed,
    "vllm.entrypoints.serve.elastic_ep.middleware": _elastic_ep,
    "psutil": _psutil,
    "urllib3.util": _urllib3,
    "tokenizers": _tokenizers,
}
