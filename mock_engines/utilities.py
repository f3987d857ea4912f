"""The utility methods of a well-behaved engine, with the state that they change. Pure.

Results have the types of the release: a value where nil is due is as wrong for a strict client
as nil where bool is due.

Source: vLLM ``v1/engine/core.py`` (EngineCore methods), Rust ``engine-core-client`` (expected
result types); protocol page, sections 9.3, 10 and 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from client.protocol.profiles import Profile
from mock_engines.lockstep.elastic import (
    COMMIT_METHOD,
    METHODS,
    PREPARE_METHOD,
    Elastic,
    ElasticError,
)
from mock_engines.lockstep.rules import rules_of

SLEEP_TAGS = ("weights", "kv_cache")
"""Memory that level 1 and above puts to sleep; the tag ``scheduling`` is for the scheduler."""
PAUSE_MODES = ("abort", "wait", "keep")
DEFAULT_WEIGHT_VERSION = "default"


class UtilityFailedError(Exception):
    """The engine answers with this text as failure message."""


class UtilityState(msgspec.Struct):
    """What utilities of one engine have changed.

    ``paused``: ``None``, ``"new"`` (running requests go on) or ``"all"``.
    ``rejects``: new requests are answered with an error instead of being queued (0.33).
    ``asleep``: tags of sleeping memory.
    ``elastic``: the change of the number of engines that it takes part in.
    """

    loras: dict[int, str] = msgspec.field(default_factory=dict)
    pinned: dict[int, None] = msgspec.field(default_factory=dict)
    paused: str | None = None
    rejects: bool = False
    asleep: dict[str, None] = msgspec.field(default_factory=dict)
    sleep_level: int | None = None
    weight_version: str = DEFAULT_WEIGHT_VERSION
    profiling: bool = False
    kv_cache_released: bool = False
    prefix_cache_resets: int = 0
    mm_cache_resets: int = 0
    encoder_cache_resets: int = 0
    elastic: Elastic = msgspec.field(default_factory=lambda: Elastic(0))

    @property
    def sleeping(self) -> bool:
        """Paused in any way, or memory asleep: a plain pause reads as sleeping too."""
        return self.paused is not None or bool(self.asleep)

    def view(self) -> dict[str, Any]:
        """Return the state as plain values, for scripts and reports."""
        return {
            "loras": sorted(self.loras),
            "pinned": sorted(self.pinned),
            "paused": self.paused is not None,
            "pause_state": self.paused or "none",
            "rejects": self.rejects,
            "sleeping": self.sleeping,
            "asleep": list(self.asleep),
            "sleep_level": self.sleep_level,
            "weight_version": self.weight_version,
            "profiling": self.profiling,
            "kv_cache_released": self.kv_cache_released,
            "prefix_cache_resets": self.prefix_cache_resets,
            "mm_cache_resets": self.mm_cache_resets,
            "encoder_cache_resets": self.encoder_cache_resets,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one method.

    Attributes:
        value: what the reply carries.
        changed: keys of ``UtilityState.view`` that the method sets; empty = it only reads.
        abort_running: requests under way are to be ended with finish reason ``abort``.
        wait_drained: the reply is due only once no running request is left.
    """

    value: Any = None
    changed: tuple[str, ...] = ()
    abort_running: bool = False
    wait_drained: bool = False


Args = Sequence[Any]
Method = Callable[[UtilityState, Profile, Args], Outcome]
_METHODS: dict[str, Method] = {}


def _method(name: str) -> Callable[[Method], Method]:
    def add(function: Method) -> Method:
        _METHODS[name] = function
        return function

    return add


def known_methods(profile: Profile) -> list[str]:
    """Return the methods that an engine of this release answers, sorted."""
    return [name for name in sorted(_METHODS) if _exists(name, profile)]


def call(state: UtilityState, profile: Profile, method: str, args: Args) -> Outcome:
    """Run a method against the state.

    Raises:
        UtilityFailedError: there is no such method, or its arguments are wrong; the text names
            method and cause, and the state is unchanged.
    """
    function = _METHODS.get(method)
    if function is None or not _exists(method, profile):
        msg = f"call to {method} failed: engine core has no utility method {method!r}"
        raise UtilityFailedError(msg)
    try:
        return function(state, profile, args)
    except (TypeError, ValueError, LookupError) as error:
        msg = f"call to {method} failed: {type(error).__name__}: {error}"
        raise UtilityFailedError(msg) from error


def _exists(method: str, profile: Profile) -> bool:
    if method in METHODS:
        return rules_of(profile).changes_size
    return method != "pause_generation" or profile.pause_method == method


def _arity(args: Args, least: int, most: int) -> None:
    if not least <= len(args) <= most:
        span = str(least) if least == most else f"{least} to {most}"
        msg = f"takes {span} arguments, got {len(args)}"
        raise TypeError(msg)


def _lora_id(args: Args) -> int:
    _arity(args, 1, 1)
    return int(args[0])


# --- pause and sleep ------------------------------------------------------------------------


@_method("is_sleeping")
def _is_sleeping(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    return Outcome(state.sleeping)


@_method("is_scheduler_paused")
def _is_scheduler_paused(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    return Outcome(state.paused is not None)


def _pause(state: UtilityState, mode: str, *, rejects: bool, changed: tuple[str, ...]) -> Outcome:
    if mode not in PAUSE_MODES:
        msg = f"invalid pause mode {mode!r}"
        raise ValueError(msg)
    state.paused = "all" if mode == "keep" else "new"
    state.rejects = rejects and mode != "keep"
    return Outcome(
        changed=("paused", *changed),
        abort_running=mode == "abort",
        wait_drained=mode == "wait",
    )


@_method("pause_scheduler")
def _pause_scheduler(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 2)
    return _pause(state, str(args[0]) if args else "abort", rejects=False, changed=())


@_method("pause_generation")
def _pause_generation(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 2)
    return _pause(state, str(args[0]) if args else "abort", rejects=True, changed=("rejects",))


@_method("resume_scheduler")
def _resume_scheduler(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    state.paused = None
    state.rejects = False
    return Outcome(changed=("paused",))


@_method("sleep")
def _sleep(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 2)
    level = int(args[0]) if args else 1
    mode = str(args[1]) if len(args) > 1 else "abort"
    outcome = _pause(state, mode, rejects=False, changed=("sleeping", "sleep_level"))
    state.sleep_level = level
    if level >= 1:
        state.asleep = dict.fromkeys(SLEEP_TAGS)
    return outcome


@_method("wake_up")
def _wake_up(state: UtilityState, profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 1)
    tags = None if not args or args[0] is None else [str(tag) for tag in args[0]]
    if tags is None:
        state.asleep = {}
    else:
        state.asleep = {tag: None for tag in state.asleep if tag not in tags}
    awake = not state.asleep
    if awake:
        state.paused = None
        state.rejects = False
        state.sleep_level = None
    return Outcome(awake if profile.wake_up_returns_bool else None, ("sleeping", "sleep_level"))


@_method("release_kv_cache_memory")
def _release_kv_cache_memory(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    if state.paused is None or state.asleep:
        msg = "needs a completed pause and an executor that is awake"
        raise ValueError(msg)
    state.kv_cache_released = True
    return Outcome(changed=("kv_cache_released",))


# --- caches ---------------------------------------------------------------------------------


@_method("reset_prefix_cache")
def _reset_prefix_cache(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 2)
    state.prefix_cache_resets += 1
    return Outcome(value=True, changed=("prefix_cache_resets",))


@_method("reset_mm_cache")
def _reset_mm_cache(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    state.mm_cache_resets += 1
    return Outcome(changed=("mm_cache_resets",))


@_method("reset_encoder_cache")
def _reset_encoder_cache(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    state.encoder_cache_resets += 1
    return Outcome(changed=("encoder_cache_resets",))


# --- adapters -------------------------------------------------------------------------------


@_method("add_lora")
def _add_lora(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 1, 1)
    name, number = str(args[0][0]), int(args[0][1])
    if number < 1:
        msg = f"id must be at least 1, got {number}"
        raise ValueError(msg)
    state.loras[number] = name
    return Outcome(value=True, changed=("loras",))


@_method("remove_lora")
def _remove_lora(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    number = _lora_id(args)
    state.pinned.pop(number, None)
    return Outcome(state.loras.pop(number, None) is not None, ("loras",))


@_method("pin_lora")
def _pin_lora(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    number = _lora_id(args)
    if number in state.loras:
        state.pinned[number] = None
    return Outcome(number in state.loras, ("pinned",))


@_method("list_loras")
def _list_loras(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    return Outcome(sorted(state.loras))


# --- another number of engines --------------------------------------------------------------


def _change_size(state: UtilityState, method: str, args: Args) -> Outcome:
    try:
        return Outcome(state.elastic.answer(method, tuple(args)))
    except ElasticError as error:
        msg = f"call to {method} failed: {error}"
        raise UtilityFailedError(msg) from error


@_method(PREPARE_METHOD)
def _prepare_change(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 1, 1)
    return _change_size(state, PREPARE_METHOD, args)


@_method(COMMIT_METHOD)
def _commit_change(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    return _change_size(state, COMMIT_METHOD, args)


# --- the rest -------------------------------------------------------------------------------


@_method("profile")
def _profile_method(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 4)
    state.profiling = bool(args[0]) if args else True
    return Outcome(changed=("profiling",))


@_method("get_weight_version")
def _get_weight_version(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    return Outcome(state.weight_version)


@_method("set_weight_version")
def _set_weight_version(state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 1, 1)
    state.weight_version = str(args[0])
    return Outcome(changed=("weight_version",))


@_method("collective_rpc")
def _collective_rpc(_state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 1, 4)
    # A list of maps is what the checksum route merges; other methods return one nil per worker.
    return Outcome([{}] if args[0] == "compute_weight_checksums" else [None])


@_method("get_supported_tasks")
def _get_supported_tasks(_state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    return Outcome(["generate"])


@_method("execute_dummy_batch")
def _execute_dummy_batch(_state: UtilityState, _profile: Profile, args: Args) -> Outcome:
    _arity(args, 0, 0)
    return Outcome()
