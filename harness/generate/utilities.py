"""Utility calls that a program could make: methods of the API with their arguments, or any method."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from client.protocol.profiles import RELEASES, profile_for
from harness.generate.fields import VALUES, Strategy, weighted
from harness.scenario.checks_utilities import api_methods
from mock_engines.utilities import known_methods

_LORA = ["adapter", 1, "/adapters/1", None, False, False]
ARGUMENTS: Mapping[str, tuple[Any, ...]] = {
    "level": (0, 1, 2),
    "mode": ("abort", "wait", "keep"),
    "tags": (None, ["weights"], ["kv_cache"]),
    "lora_request": (_LORA, ["other", 2, "/adapters/2", None, False, False]),
    "lora_id": (1, 2),
    "method": ("echo", "compute_weight_checksums"),
    "timeout": (None, 1.0),
    "args": ([], [1]),
    "kwargs": (None, {}),
    "prefix": (None, "p"),
    "delay_iterations": (None, 1),
    "max_iterations": (None, 2),
    "version": ("v1", "v2"),
}
"""Values of an argument by its name; others have the values of their type."""
ASKED = frozenset(
    {"is_sleeping", "is_paused", "get_weight_version", "list_loras", "collective_rpc"}
    | {"reset_prefix_cache", "add_lora", "remove_lora", "pin_lora", "wake_up"}
)
"""Methods whose answers are put together by a rule: more often than those that only succeed."""
PAUSING = frozenset({"sleep", "pause", "pause_generation", "pause_scheduler"})
"""Methods after which engines serve nothing until they are told to."""
RESULTS = ("any", "bool", "none", "int", "str", "list")
DEADLINES = (0.5, 5.0)
RAW_METHODS = tuple(
    sorted(
        {
            name
            for release in RELEASES
            for name in known_methods(profile_for(release))
            if name not in PAUSING
        }
        | {"no_such_method"}
    )
)


_BROKEN = st.just({"method": "no_such_method", "via": "raw", "unencodable": True})
"""An argument that nothing can encode; a method of the API would refuse it before it is sent."""


def step(new: Strategy, frontend: Strategy) -> Strategy:
    """Utility steps. ``new``: a name for the operation; ``frontend``: which frontend is asked."""
    methods = [(3 if name in ASKED else 1, _call(name)) for name in api_methods()]
    calls = weighted(
        [(5, weighted(methods)), (1, _general("raw")), (1, _general("consensus")), (1, _BROKEN)]
    )
    extras = weighted(
        [
            (12, st.just({})),
            (1, st.sampled_from([{"timeout_s": limit} for limit in DEADLINES])),
            (2, frontend.map(lambda one: {"frontend": one})),
        ]
    )
    parts = st.tuples(new, calls, extras)
    return parts.map(lambda three: {"id": three[0], **three[1], **three[2]})


def _general(via: str) -> Strategy:
    parts = st.tuples(st.sampled_from(RAW_METHODS), st.sampled_from(RESULTS))
    return parts.map(lambda pair: {"method": pair[0], "via": via, "result": pair[1]})


def _call(name: str) -> Strategy:
    """Arguments as the method takes them; those with a default are mostly left out."""
    method = api_methods()[name]
    hints = typing.get_type_hints(method)
    needed: list[Strategy] = []
    more: list[Strategy] = []
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name == "self" or parameter.kind is parameter.KEYWORD_ONLY:
            continue
        known = ARGUMENTS.get(parameter.name)
        values = known if known is not None else _values(hints[parameter.name])
        group = needed if parameter.default is parameter.empty else more
        group.append(st.sampled_from(values))
    few = st.tuples(*needed).map(list)
    every = st.tuples(*needed, *more).map(list)
    args = weighted([(3, few), (1, every)]) if more else few
    return args.map(lambda given: {"method": name, **({"args": given} if given else {})})


def _values(hint: Any) -> tuple[Any, ...]:
    if hint is bool:
        return (True, False)
    if hint is int:
        return (0, 1, 2)
    return tuple(value for value in VALUES if isinstance(value, hint)) if hint is str else (None,)
