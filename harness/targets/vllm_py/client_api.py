"""The reference client's method names in terms of vLLM's Python DP client."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.scenario.model import UtilityStep
from harness.targets.vllm_py.members import CORE_CLIENT, member_of

METHODS: dict[str, tuple[str, ...]] = {
    "is_sleeping": ("is_sleeping_async",),
    "is_paused": ("is_scheduler_paused_async",),
    "sleep": ("sleep_async",),
    "wake_up": ("wake_up_async",),
    "pause": ("pause_generation_async", "pause_scheduler_async"),
    "resume": ("resume_scheduler_async",),
    "reset_prefix_cache": ("reset_prefix_cache_async",),
    "reset_mm_cache": ("reset_mm_cache_async",),
    "reset_encoder_cache": ("reset_encoder_cache_async",),
    "release_kv_cache_memory": ("release_kv_cache_memory_async",),
    "remove_lora": ("remove_lora_async",),
    "pin_lora": ("pin_lora_async",),
    "list_loras": ("list_loras_async",),
    "collective_rpc": ("collective_rpc_async",),
    "profile": ("profile_async",),
    "get_weight_version": ("get_weight_version_async",),
    "set_weight_version": ("set_weight_version_async",),
}
"""Name in a scenario → names of the client's method, the newest first."""
_CLASSES = frozenset({"MPClient", "AsyncMPClient", "DPAsyncMPClient", "DPLBAsyncMPClient"})
_BY_VIA = {"raw": "call_utility_all_async", "consensus": "call_utility_consensus_async"}
ERRORS = {
    "EngineDeadError": "EngineCoreDead",
    "Exception": "UtilityCallFailed",
}
"""Class in vLLM → the class of ours that means the same."""
_DIFFERENT = "Engines returned different"


@cache
def methods_of(folder: Path) -> frozenset[str]:
    """Return the methods that the DP client of these sources has itself."""
    text = (folder / member_of(CORE_CLIENT, package=False)).read_text(encoding="utf-8")
    return frozenset(_methods(ast.parse(text)))


def _methods(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in _CLASSES:
            for item in node.body:
                if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield item.name


def call_of(step: UtilityStep, methods: frozenset[str]) -> dict[str, Any]:
    """Return which method of the DP client a step calls.

    Raises:
        LookupError: this release has none.
    """
    if step.unencodable:
        msg = "there is no value that the codec of vLLM cannot encode in a line of JSON"
        raise LookupError(msg)
    if step.via != "method":
        name = _first([_BY_VIA[step.via]], methods, f"via {step.via}")
        return {"method": name, "plain": step.method, "args": list(step.args)}
    name = _first(METHODS.get(step.method, ()), methods, step.method)
    return {"method": name, "plain": None, "args": list(step.args)}


def _first(names: Sequence[str], methods: frozenset[str], what: str) -> str:
    for name in names:
        if name in methods:
            return name
    msg = f"vLLM's Python DP client of this release has no method for {what}"
    raise LookupError(msg)


SHOWN_ERRORS = frozenset({*ERRORS.values(), "InconsistentUtilityResults", "RequestStreamClosed"})
"""Errors of ours that a caller of vLLM's client can tell apart. The last one it never gets: whose
stream closes without an end waits for ever, and that is judged."""
FIRST_ONLY = frozenset({"collective_rpc"})
"""Methods of which the first engine's result is returned, by design."""
_LITERALS = (("True", "true"), ("False", "false"), ("None", "null"), ("'", '"'))


def error_message(name: str, message: str) -> str:
    """Return the message, values of engines written as JSON, as the other clients do."""
    if error_name(name, message) == "InconsistentUtilityResults":
        for python, plain in _LITERALS:
            message = message.replace(python, plain)
    return message


def error_name(name: str, message: str) -> str:
    """Return the class of ours that means what vLLM raised, or its own name."""
    if name == "RuntimeError" and message.startswith(_DIFFERENT):
        return "InconsistentUtilityResults"
    return ERRORS.get(name, name)
