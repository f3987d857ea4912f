"""Checks of values: what can never be equal, true or false is no expectation."""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from client.errors import error_tree
from harness.numerals import number_of
from harness.scenario.finding import Finding
from harness.scenario.model import (
    CountExpect,
    EventMatch,
    Expect,
    Scenario,
    Step,
    Surface,
    UtilityStep,
)
from harness.scenario.positions import Path
from harness.scenario.problems import did_you_mean, one_of, show
from harness.targets.vllm_py import log_patterns as vllm_py_lines
from harness.targets.vllm_rs import log_patterns as vllm_rs_lines
from harness.trace.kinds import UnknownKindError, class_of
from mock_engines.behaviours.model import FinishName

_ABOUT_REQUESTS = frozenset({"op", "ops", "external_id", "request_id", "request_ids"})
"""Fields by which an event belongs to a call; see ``trace.kinds.matches``."""
_ANY_ANSWER = ("outcome", "error")
KEYS_OF_OP: Mapping[str, tuple[str, ...]] = {
    "call": (
        *_ANY_ANSWER,
        *("message", "tokens", "finish", "kv_transfer_params", "engine", "status", "text", "body"),
    ),
    "utility": (*_ANY_ANSWER, "value", "message"),
    "http": (*_ANY_ANSWER, "status", "body", "body_text"),
    "grpc": (*_ANY_ANSWER, "status", "body", "body_text"),
}
"""What can be expected of an operation, by the step that starts it."""
_GRPC_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
_HTTP_STATUS = range(100, 600)
STATE_KEYS = (
    *(
        "alive",
        "joined",
        "stalled",
        "rules_met",
        "requests",
        "request_ids",
        "wave",
        "running",
        "loras",
        "pinned",
    ),
    *("paused", "pause_state", "rejects", "sleeping", "asleep", "sleep_level", "weight_version"),
    *("profiling", "kv_cache_released", "prefix_cache_resets", "mm_cache_resets"),
    "encoder_cache_resets",
)
INFO_KEYS = (
    *("data_parallel_size", "engine_count", "world_size", "world_size_without_dp"),
    *("max_model_len", "num_gpu_blocks", "vllm_version", "dtype"),
)
"""What ``server_info`` can be asked for; a black box shows some of it."""
"""What ``state`` of an engine can be asked for; a test compares it with an engine."""
_OF_ANSWERS = (
    *("StreamCut", "StreamOverrun", "AnswerFailed", "ConnectionLost", "ConnectionRefused"),
    *("Timeout", "ValueDecode", "Io", "FrontendStartError", "ClientStartError"),
    "AdapterStartError",
)
"""Errors that no class of the client has: what became of an answer, and of a start."""


def check_values(scenario: Scenario) -> Iterator[Finding]:
    """Expectations and matches can hold, and can fail."""
    kinds: dict[str, Step] = {}
    for i, step in enumerate(scenario.steps):
        base: Path = ("steps", i, step.verb)
        started = step.call or step.utility or step.http or step.grpc
        if started is not None:
            kinds.setdefault(started.id, step)
        for path, match in matches_of(base, step):
            yield from _match(path, match)
        if step.expect is not None:
            yield from _expect(base, step.expect, kinds)


def matches_of(base: Path, step: Step) -> Iterator[tuple[Path, EventMatch]]:
    """Every selection of events in a step, with its place."""
    if step.wait is not None:
        yield base, step.wait
    if step.expect is not None:
        if step.expect.count is not None:
            yield (*base, "count"), step.expect.count
        for j, match in enumerate(step.expect.order or []):
            yield (*base, "order", j), match


# --- events ---------------------------------------------------------------------------------


@cache
def _types_of(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _match(path: Path, match: EventMatch) -> Iterator[Finding]:
    try:
        kind = class_of(match.event)
    except UnknownKindError:  # reported by the check of events
        return
    hints = _types_of(kind)
    if match.request is not None and _ABOUT_REQUESTS.isdisjoint(hints):
        title = f"event '{match.event}' is not about a request, so it is never of '{match.request}'"
        yield Finding((*path, "request"), title, "no key 'request'")
    yield from check_where((*path, "where"), match.where, hints, f"event '{match.event}'")


@cache
def _words() -> Mapping[str, tuple[str, ...]]:
    """Fields of events that hold one of a few words."""
    patterns = {pattern.id for pattern in vllm_rs_lines.PATTERNS}
    patterns |= {name for name, _ in vllm_py_lines.PATTERNS}
    return {
        "outcome": ("cancelled", "failed", "finished"),
        "finish": typing.get_args(FinishName),
        "notice": ("complete", "start"),
        "pattern": (*sorted(patterns), vllm_rs_lines.OTHER),
        "via": typing.get_args(UtilityStep.model_fields["via"].annotation),
        "surface": typing.get_args(Surface),
        "verb": tuple(Step.model_fields),
    }


def check_where(
    path: Path, where: Mapping[str, Any], hints: Mapping[str, Any], what: str
) -> Iterator[Finding]:
    """A value of another type is equal to nothing, so it would select nothing without a word."""
    for name, value in where.items():
        if name not in hints:
            continue  # reported by the check of fields
        title = f"field '{name}' of {what} is never {show(value)}"
        choices = _words().get(name, ())
        if not can_equal(value, hints[name]):
            yield Finding((*path, name), title, said(hints[name]), seen=show(value))
        elif choices and isinstance(value, str) and value not in choices:
            yield Finding((*path, name), title, one_of(choices), did_you_mean(value, choices))


def can_equal(value: Any, hint: Any) -> bool:
    """Whether a value of a file can be equal to one of this type."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return any(can_equal(value, one) for one in typing.get_args(hint))
    if origin in (tuple, list) or hint in (tuple, list):
        inner = [one for one in typing.get_args(hint) if one is not ...]
        return isinstance(value, list) and (
            len(inner) != 1 or all(can_equal(item, inner[0]) for item in value)
        )
    if hint is type(None) or hint is None:
        return value is None
    if origin is collections.abc.Sequence:
        return isinstance(value, list)
    if origin is collections.abc.Mapping:
        return isinstance(value, dict)
    if hint in (int, float, bool):
        return isinstance(value, int | float)
    if hint in (str, bytes):
        return isinstance(value, hint)
    if typing.get_origin(hint) is typing.Literal:
        return value in typing.get_args(hint)
    supertype = getattr(hint, "__supertype__", None)
    return True if supertype is None else can_equal(value, supertype)


_WORDS = {int: "a number", float: "a number", bool: "true or false", str: "text", bytes: "bytes"}


def said(hint: Any) -> str:
    """What a value of this type is called in a message."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(said(one) for one in typing.get_args(hint)))
    if origin in (tuple, list, collections.abc.Sequence):
        return "a list"
    if origin is collections.abc.Mapping:
        return "a mapping"
    if origin is typing.Literal:
        return one_of(str(word) for word in typing.get_args(hint))
    if hint is type(None):
        return "null"
    return _WORDS.get(getattr(hint, "__supertype__", hint), "a value of another type")


# --- expectations ---------------------------------------------------------------------------


def _expect(base: Path, expect: Expect, kinds: Mapping[str, Step]) -> Iterator[Finding]:
    if expect.count is not None:
        yield from _bounds((*base, "count"), expect.count)
    for key in ("error", "health_error"):
        if (name := getattr(expect, key)) is not None:
            yield from _error((*base, key), name)
    for key in ("message", "body_text"):
        if getattr(expect, key) == "":
            yield Finding((*base, key), f"'{key}' is empty, and so in every text", "a fragment")
    for key in ("state", "server_info", "kv_transfer_params"):
        if getattr(expect, key) == {}:
            yield Finding((*base, key), f"'{key}' is empty, so it claims nothing", "key: value")
    for key, choices, what in (
        ("state", STATE_KEYS, "an engine's state has"),
        ("server_info", INFO_KEYS, "the frontend's sizes have"),
    ):
        for name in getattr(expect, key) or {}:
            if name not in choices:
                title, path = f"{what} no '{name}'", (*base, key, name)
                yield Finding(
                    path, title, one_of(choices), did_you_mean(name, choices), on_key=True
                )
    started = kinds.get(expect.op or "")
    if started is not None:
        yield from _of_op(base, expect, started)


def _of_op(base: Path, expect: Expect, started: Step) -> Iterator[Finding]:
    """What the operation can show, and its status in its own words."""
    known = KEYS_OF_OP[started.verb]
    for key in sorted(expect.model_fields_set - {"op", "when"} - set(known)):
        every = {name for names in KEYS_OF_OP.values() for name in names}
        if key in every:
            title = f"'{key}' is nothing that a {started.verb} step shows"
            yield Finding((*base, key), title, one_of(sorted(known)))
    if expect.status is None or "status" not in known:
        return
    call = started.call
    over_grpc = started.grpc is not None or (call is not None and call.surface.startswith("grpc"))
    if over_grpc and expect.status not in _GRPC_CODES:
        yield Finding(
            (*base, "status"),
            f"no gRPC call has status {show(expect.status)}",
            one_of(_GRPC_CODES),
            did_you_mean(expect.status, _GRPC_CODES),
        )
    elif not over_grpc and expect.status not in _HTTP_STATUS:
        title = f"no HTTP answer has status {show(expect.status)}"
        yield Finding((*base, "status"), title, "a number from 100 to 599")


def _bounds(path: Path, count: CountExpect) -> Iterator[Finding]:
    low, high = count.at_least, count.at_most
    if low is not None and high is not None and low > high:
        yield Finding((*path, "at_most"), f"no count is at least {low} and at most {high}")
    if count.equals is not None and (low is not None or high is not None):
        other = "at_least" if low is not None else "at_most"
        yield Finding((*path, other), f"equals and {other} exclude each other")


@cache
def error_names() -> tuple[str, ...]:
    """Names of errors that a caller can get, but for those with a status in them."""
    return tuple(sorted({*(cls.__name__ for cls in error_tree()), *_OF_ANSWERS}))


def _error(path: Path, name: str) -> Iterator[Finding]:
    coded = {"Grpc" + code.title().replace("_", "") for code in _GRPC_CODES}
    numbered = name.removeprefix("HttpError")
    by_status = name != numbered and number_of(numbered, max(_HTTP_STATUS)) in _HTTP_STATUS
    if name in error_names() or name in coded or by_status:
        return
    yield Finding(
        path,
        f"no error is called '{name}'",
        "a name of the tables in docs/scenarios.md, HttpError<status> or Grpc<Code>",
        did_you_mean(name, [*error_names(), *sorted(coded)]),
    )
