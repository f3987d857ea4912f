"""Maps utility methods to the admin routes of a release, and their answers to results.

A method is named as in the client's API (``pause``) or as on the wire (``pause_scheduler``).
What has no route on a release says so; nothing is sent then.

Source: protocol page, section 10; vLLM ``rust/src/server/src/routes``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.scenario.model import UtilityStep
from harness.targets.vllm_rs.releases import at_least

Query = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. ``adapter``: the LoRA name that is loaded or unloaded."""

    verb: str
    path: str
    query: Query = ()
    body: Any = None
    adapter: str | None = None


Build = Callable[[Sequence[Any]], Request]
Value = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Route:
    """How one method is reached.

    ``since``: first release with the route; ``value_since``: first one whose answer shows the
    result (``None``: there is no result to show).
    """

    since: str
    build: Build
    value: Value = lambda _body: None
    value_since: str | None = None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(verb: str, path: str, names: Sequence[str] = ()) -> Build:
    """Build a request whose arguments travel in the query, in order; nil ones are left out."""

    def build(args: Sequence[Any]) -> Request:
        pairs = zip(names, args, strict=False)
        query = tuple((name, _text(value)) for name, value in pairs if value is not None)
        return Request(verb, path, query)

    return build


def _key(name: str) -> Value:
    return lambda body: body.get(name) if isinstance(body, dict) else None


def _wake_up(args: Sequence[Any]) -> Request:
    tags = args[0] if args and args[0] is not None else []
    return Request("POST", "/wake_up", tuple(("tags", str(tag)) for tag in tags))


def _awake(body: Any) -> Any:
    return body.get("status") == "awake" if isinstance(body, dict) else None


def _collective_rpc(args: Sequence[Any]) -> Request:
    names = ("method", "timeout", "args", "kwargs")
    body = {name: value for name, value in zip(names, args, strict=False) if value is not None}
    return Request("POST", "/collective_rpc", body=body)


def _profile(args: Sequence[Any]) -> Request:
    if not args or args[0]:
        prefix = args[1] if len(args) > 1 else None
        return Request(
            "POST", "/start_profile", body=None if prefix is None else {"profile_prefix": prefix}
        )
    return Request("POST", "/stop_profile")


def _set_weight_version(args: Sequence[Any]) -> Request:
    return Request("POST", "/update_weight_version", body={"new_version": args[0]})


def _adapter_name(args: Sequence[Any]) -> str:
    """Return the name: given alone, or first in a LoRA request array."""
    first = args[0]
    return str(first[0] if isinstance(first, list | tuple) else first)


def _add_lora(args: Sequence[Any]) -> Request:
    return Request("POST", "/v1/load_lora_adapter", adapter=_adapter_name(args))


def _remove_lora(args: Sequence[Any]) -> Request:
    return Request("POST", "/v1/unload_lora_adapter", adapter=str(args[0]))


def _always_true(_body: Any) -> bool:
    return True


_PAUSE = _plain("POST", "/pause", ("mode", "clear_cache"))
_RESUME = _plain("POST", "/resume")
_IS_PAUSED = _plain("GET", "/is_paused")
ROUTES: dict[str, Route] = {
    "is_sleeping": Route(
        "0.22.0", _plain("GET", "/is_sleeping"), _key("is_sleeping"), value_since="0.22.0"
    ),
    "sleep": Route("0.22.0", _plain("POST", "/sleep", ("level", "mode"))),
    "wake_up": Route("0.22.0", _wake_up, _awake, value_since="0.32.0"),
    "reset_prefix_cache": Route(
        "0.22.0",
        _plain("POST", "/reset_prefix_cache", ("reset_running_requests", "reset_external")),
        _key("success"),
        value_since="0.26.0",
    ),
    "reset_mm_cache": Route("0.22.0", _plain("POST", "/reset_mm_cache")),
    "reset_encoder_cache": Route("0.22.0", _plain("POST", "/reset_encoder_cache")),
    "collective_rpc": Route("0.22.0", _collective_rpc, _key("results"), value_since="0.22.0"),
    "add_lora": Route("0.23.0", _add_lora, _always_true, value_since="0.23.0"),
    "remove_lora": Route("0.23.0", _remove_lora, _always_true, value_since="0.23.0"),
    "pause": Route("0.24.0", _PAUSE),
    "resume": Route("0.24.0", _RESUME),
    "is_paused": Route("0.24.0", _IS_PAUSED, _key("is_paused"), value_since="0.24.0"),
    "profile": Route("0.25.0", _profile),
    "get_weight_version": Route(
        "0.30.0", _plain("GET", "/weight_info"), _key("weight_version"), value_since="0.30.0"
    ),
    "set_weight_version": Route("0.30.0", _set_weight_version),
    "release_kv_cache_memory": Route("0.31.0", _plain("POST", "/release_kv_cache_memory")),
}
_WIRE_NAMES = {
    "pause_scheduler": "pause",
    "pause_generation": "pause",
    "resume_scheduler": "resume",
    "is_scheduler_paused": "is_paused",
}
_WAKE_UP_BOOL_SINCE = "0.31.0"
_WAKE_UP_TAGS_SINCE = "0.31.0"
_PAUSE_GENERATION_SINCE = "0.33.0"
_CONSENSUS = frozenset({"is_sleeping", "is_paused", "get_weight_version"})


def api_name(method: str) -> str:
    """Return the API name of a method, given by its API or its wire name."""
    return _WIRE_NAMES.get(method, method)


def methods(release: str) -> tuple[str, ...]:
    """Return the API names of methods that have a route on this release, sorted."""
    return tuple(sorted(n for n, route in ROUTES.items() if at_least(release, route.since)))


def shows_value(method: str, release: str) -> bool:
    """Whether the answer shows the aggregated result, or there is none to show."""
    name = api_name(method)
    route = ROUTES[name]
    if name == "wake_up" and not at_least(release, _WAKE_UP_BOOL_SINCE):
        return True
    return route.value_since is None or at_least(release, route.value_since)


def unsupported(step: UtilityStep, release: str) -> str | None:
    """Return why this utility step has no route on this release, ``None`` if it has one."""
    name = api_name(step.method)
    route = ROUTES.get(name)
    if route is None:
        return f"no admin route calls {step.method!r}"
    if not at_least(release, route.since):
        return f"the admin route of {step.method!r} exists since {route.since}"
    if step.method in ("pause_scheduler", "pause_generation"):
        newer = at_least(release, _PAUSE_GENERATION_SINCE)
        if newer != (step.method == "pause_generation"):
            return f"/pause does not call {step.method} on {release}"
    if step.via == "raw" and name != "collective_rpc":
        return "the frontend has no route for one result per engine"
    if step.via == "consensus" and name not in _CONSENSUS:
        return f"the frontend has no consensus route for {step.method!r}"
    if step.timeout_s is not None:
        return "the frontend has no overall timeout of a utility call"
    if step.unencodable:
        return "a value that cannot be encoded cannot reach the frontend"
    if (
        name == "wake_up"
        and step.args
        and step.args[0]
        and not at_least(release, _WAKE_UP_TAGS_SINCE)
    ):
        return f"/wake_up takes tags since {_WAKE_UP_TAGS_SINCE}"
    return None


def request_of(step: UtilityStep) -> Request:
    """Return the request of a supported step.

    Raises:
        KeyError: the method has no route on any release.
    """
    return ROUTES[api_name(step.method)].build(step.args)


def value_of(method: str, body: Any, release: str) -> Any:
    """Return the result that a successful answer shows, ``None`` if it shows none."""
    if not shows_value(method, release):
        return None
    return ROUTES[api_name(method)].value(body)
