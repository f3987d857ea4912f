"""Admin routes: which exist in a release, what they call, how they show the result.

Source: protocol page, section 10; bodies and texts as measured on 0.22.0 to 0.33.0.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from client.engine_client import EngineClient
from client.errors import ClientError, ProfileAlreadyActive
from client.protocol.codec_values import U64_MAX
from client.protocol.profiles import Profile
from harness.numerals import number_of
from harness.reference_frontend.adapters import Adapters
from harness.reference_frontend.call import Call, Reply, json_reply, text_reply
from harness.reference_frontend.generation import Generation
from harness.reference_frontend.requests import field_of, mistyped
from harness.reference_frontend.texts import (
    BAD_REQUEST,
    CONFLICT,
    PROFILE_ACTIVE_TEXT,
    SERVER_ERROR,
    Refusal,
    client_error_text,
    since,
)

Handler = Callable[[Call], Awaitable[Reply]]
PAUSE_MODES = ("abort", "wait", "keep")
_QUERY = "Failed to deserialize query string: "


@dataclass(frozen=True, slots=True)
class AdminRoute:
    """One route. ``opened_by``: ``dev``, ``lora`` or ``profiler``."""

    verb: str
    path: str
    since: str
    handler: Handler
    opened_by: str = "dev"


class Admin:
    """The routes of one server."""

    def __init__(
        self,
        client: EngineClient,
        profile: Profile,
        generation: Generation,
        adapters: Adapters,
    ) -> None:
        self._client = client
        self._profile = profile
        self._generation = generation
        self._adapters = adapters

    def routes(self) -> tuple[AdminRoute, ...]:
        """Return all routes of all releases."""
        return (
            AdminRoute("GET", "/is_sleeping", "0.22", self._is_sleeping),
            AdminRoute("POST", "/sleep", "0.22", self._sleep),
            AdminRoute("POST", "/wake_up", "0.22", self._wake_up),
            AdminRoute("POST", "/reset_prefix_cache", "0.22", self._reset_prefix_cache),
            AdminRoute("POST", "/reset_mm_cache", "0.22", self._plain("reset_mm_cache")),
            AdminRoute("POST", "/reset_encoder_cache", "0.22", self._plain("reset_encoder_cache")),
            AdminRoute("POST", "/collective_rpc", "0.22", self._collective_rpc),
            AdminRoute("POST", "/abort_requests", "0.24", self._abort_requests),
            AdminRoute("POST", "/pause", "0.24", self._pause),
            AdminRoute("POST", "/resume", "0.24", self._resume),
            AdminRoute("GET", "/is_paused", "0.24", self._is_paused),
            AdminRoute("GET", "/weight_info", "0.30", self._weight_info),
            AdminRoute("POST", "/update_weight_version", "0.30", self._update_weight_version),
            AdminRoute("POST", "/release_kv_cache_memory", "0.31", self._release_kv_cache),
            AdminRoute("POST", "/v1/load_lora_adapter", "0.23", self._load_lora, "lora"),
            AdminRoute("POST", "/v1/unload_lora_adapter", "0.23", self._unload_lora, "lora"),
            AdminRoute("POST", "/start_profile", "0.25", self._start_profile, "profiler"),
            AdminRoute("POST", "/stop_profile", "0.25", self._stop_profile, "profiler"),
        )

    async def _do(self, route: str, work: Awaitable[Any]) -> Any:
        """Await a utility call and turn its error into the route's answer."""
        try:
            return await work
        except ProfileAlreadyActive as error:
            raise Refusal(CONFLICT, PROFILE_ACTIVE_TEXT) from error
        except ClientError as error:
            text = client_error_text(error, self._profile)
            raise Refusal(SERVER_ERROR, f"failed to call {route}: {text}") from error

    def _plain(self, name: str) -> Handler:
        """Return a handler without arguments and without a result."""

        async def handler(_call: Call) -> Reply:
            await self._do(name, getattr(self._client, name)())
            return Reply()

        return handler

    # --- state ---

    async def _is_sleeping(self, _call: Call) -> Reply:
        value = await self._do("is_sleeping", self._client.is_sleeping())
        return json_reply({"is_sleeping": value})

    async def _sleep(self, call: Call) -> Reply:
        level = self._number(call, "level", 1)
        mode = self._mode(call, None if since(self._profile, "0.32") else "mode")
        await self._do("sleep", self._client.sleep(level, mode))
        if since(self._profile, "0.32"):
            return json_reply({"status": "sleeping", "level": level})
        return Reply()

    async def _wake_up(self, call: Call) -> Reply:
        tags = [value for key, value in call.query if key == "tags"] or None
        if tags is not None and not since(self._profile, "0.31"):
            text = f"{_QUERY}tags: invalid type: string {tags[0]!r}, expected a sequence"
            return text_reply(text, BAD_REQUEST)
        awake = await self._do("wake_up", self._client.wake_up(tags))
        if since(self._profile, "0.32"):
            return json_reply({"status": "awake" if awake else "sleeping", "tags": tags})
        return Reply()

    async def _pause(self, call: Call) -> Reply:
        mode = self._mode(call, "mode")
        clear = self._flag(call, "clear_cache", default=True)
        await self._do("pause", self._client.pause(mode, clear))
        return json_reply({"status": "paused"})

    async def _resume(self, _call: Call) -> Reply:
        await self._do("resume", self._client.resume())
        return json_reply({"status": "resumed"})

    async def _is_paused(self, _call: Call) -> Reply:
        return json_reply({"is_paused": await self._do("is_paused", self._client.is_paused())})

    # --- caches ---

    async def _reset_prefix_cache(self, call: Call) -> Reply:
        running = self._flag(call, "reset_running_requests", default=False)
        external = self._flag(call, "reset_external", default=False)
        work = self._client.reset_prefix_cache(running, external)
        done = await self._do("reset_prefix_cache", work)
        return json_reply({"success": done}) if since(self._profile, "0.26") else Reply()

    async def _release_kv_cache(self, _call: Call) -> Reply:
        work = self._client.release_kv_cache_memory()
        await self._do("release_kv_cache_memory", work)
        if since(self._profile, "0.32"):
            return json_reply({"status": "kv_cache_released"})
        return Reply()

    # --- the rest ---

    async def _collective_rpc(self, call: Call) -> Reply:
        body = call.json()
        if body.get("method") is None:
            text = "Missing 'method' in request body"
            raise Refusal(BAD_REQUEST, text, "method")
        work = self._client.collective_rpc(
            field_of(body, "method", str),
            field_of(body, "timeout", (int, float)),
            field_of(body, "args", list, []),
            field_of(body, "kwargs", dict, {}),
        )
        return json_reply({"results": await self._do("collective_rpc", work)})

    async def _abort_requests(self, call: Call) -> Reply:
        ids = field_of(call.json(), "request_ids", list)
        if ids is None and not since(self._profile, "0.26"):
            text = "Missing 'request_ids' in request body"
            raise Refusal(BAD_REQUEST, text, "request_ids")
        if ids is not None and not all(isinstance(each, str) for each in ids):
            msg = "request_ids: expected strings"
            raise mistyped(msg)
        await self._do("abort_requests", self._generation.abort(ids))
        return Reply()

    async def _weight_info(self, _call: Call) -> Reply:
        work = self._client.get_weight_version()
        return json_reply({"weight_version": await self._do("weight_info", work)})

    async def _update_weight_version(self, call: Call) -> Reply:
        version = field_of(call.json(), "new_version", str)
        if version is None:
            msg = "missing field `new_version`"
            raise mistyped(msg)
        await self._do("update_weight_version", self._client.set_weight_version(version))
        return json_reply({"success": True, "new_version": version})

    async def _start_profile(self, call: Call) -> Reply:
        body = call.json() if call.body else {}
        numbers = [field_of(body, name, int) for name in ("delay_iterations", "max_iterations")]
        prefix = field_of(body, "profile_prefix", str) if since(self._profile, "0.32") else None
        await self._do("start_profile", self._client.profile(True, prefix, *numbers))
        return Reply()

    async def _stop_profile(self, _call: Call) -> Reply:
        await self._do("stop_profile", self._client.profile(False))
        return Reply()

    async def _load_lora(self, call: Call) -> Reply:
        body = call.json()
        name, path = (field_of(body, key, str) for key in ("lora_name", "lora_path"))
        if name is None or path is None:
            missing = "lora_name" if name is None else "lora_path"
            msg = f"missing field `{missing}`"
            raise mistyped(msg)
        in_place = field_of(body, "load_inplace", bool, False)
        work = self._adapters.load(name, path, in_place=in_place)
        await self._do("load_lora_adapter", work)
        return text_reply(f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload_lora(self, call: Call) -> Reply:
        name = field_of(call.json(), "lora_name", str)
        if name is None:
            msg = "missing field `lora_name`"
            raise mistyped(msg)
        await self._do("unload_lora_adapter", self._adapters.unload(name))
        return text_reply(f"Success: LoRA adapter '{name}' removed successfully.")

    # --- query parameters ---

    def _query_refused(self, what: str, param: str | None) -> Refusal:
        return Refusal(BAD_REQUEST, f"{_QUERY}{what}", param)

    def _number(self, call: Call, name: str, default: int) -> int:
        text = call.parameter(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdecimal():
            msg = f"{name}: invalid digit found in string"
            raise self._query_refused(msg, None if since(self._profile, "0.32") else "mode")
        number = number_of(text, U64_MAX)
        if number is None:
            msg = f"{name}: number too large to fit in target type"
            raise self._query_refused(msg, None if since(self._profile, "0.32") else "mode")
        return number

    def _mode(self, call: Call, param: str | None) -> str:
        """Read a pause mode; up to 0.23 it is passed through unchecked."""
        mode = call.parameter("mode") or "abort"
        if mode not in PAUSE_MODES and since(self._profile, "0.24"):
            expected = ", ".join(PAUSE_MODES)
            what = f"mode: invalid pause mode `{mode}`; expected one of: {expected}"
            raise self._query_refused(what, param)
        return mode

    def _flag(self, call: Call, name: str, *, default: bool) -> bool:
        text = call.parameter(name)
        if text is None:
            return default
        if text not in ("true", "false"):
            msg = f"{name}: provided string was not `true` or `false`"
            raise self._query_refused(msg, None)
        return text == "true"
