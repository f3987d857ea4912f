"""Routes that reach no engine: health, load, versions, sizes, models, metrics.

Source: bodies of the real frontend as measured; protocol page, sections 7.4 and 10.
"""

from __future__ import annotations

from typing import Any

from packaging.version import Version

from client.engine_client import EngineClient
from harness.reference_frontend.adapters import Adapters
from harness.reference_frontend.admin import AdminRoute
from harness.reference_frontend.call import Call, Reply, json_reply
from harness.reference_frontend.clock import now
from harness.reference_frontend.load import Load
from harness.reference_frontend.metrics import CONTENT_TYPE, Metrics
from harness.reference_frontend.options import ServeSettings
from harness.reference_frontend.texts import UNAVAILABLE, since

_OWNER = "wavecheck"


class Info:
    """The routes of one server."""

    def __init__(
        self,
        settings: ServeSettings,
        client: EngineClient,
        adapters: Adapters,
        load: Load,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._client = client
        self._adapters = adapters
        self._load = load
        self._metrics = metrics
        self._started = int(now())

    def routes(self) -> tuple[AdminRoute, ...]:
        """Return all routes of all releases; those of ``always`` need no dev mode."""
        return (
            AdminRoute("GET", "/health", "0.22", self._health, "always"),
            AdminRoute("GET", "/load", "0.22", self._server_load, "always"),
            AdminRoute("GET", "/metrics", "0.22", self._show_metrics, "always"),
            AdminRoute("GET", "/v1/models", "0.22", self._models, "always"),
            AdminRoute("GET", "/version", "0.23", self._version, "always"),
            AdminRoute("GET", "/server_info", "0.23", self._server_info),
            AdminRoute("GET", "/get_world_size", "0.24", self._world_size),
        )

    async def _health(self, _call: Call) -> Reply:
        return Reply() if self._client.is_healthy else Reply(UNAVAILABLE)

    async def _server_load(self, _call: Call) -> Reply:
        return json_reply({"server_load": self._load.generations})

    async def _show_metrics(self, _call: Call) -> Reply:
        ranks = self._client.engine_indices()
        return Reply(body=self._metrics.exposition(ranks), content_type=CONTENT_TYPE)

    async def _version(self, _call: Call) -> Reply:
        release = self._settings.profile.release
        told = self._client.first("vllm_version") or release
        older = self._settings.profile.version < Version("0.29")
        return json_reply({"version": told, "rust_frontend_version": "0.1.0" if older else release})

    async def _world_size(self, call: Call) -> Reply:
        """The configured size counts since 0.28; engine 0's own word before."""
        include = call.parameter("include_dp") != "false"
        if since(self._settings.profile, "0.28") or not include:
            return json_reply({"world_size": self._client.world_size(include_dp=include)})
        own = self._client.world_size(include_dp=False)
        size = self._client.first("data_parallel_size")
        known = isinstance(own, int) and isinstance(size, int)
        return json_reply({"world_size": own * size if known else own})

    async def _server_info(self, _call: Call) -> Reply:
        settings = self._settings
        shown = {
            "model": settings.model,
            "served_model_name": list(settings.names),
            "engine_count": settings.engine_count,
            "data_parallel_size": self._client.data_parallel_size,
            "coordinator": "in-process" if settings.in_process_coordinator else "none",
            "release": settings.profile.release,
            "mutant": settings.mutant,
        }
        lines = "\n".join(f"{name}={value}" for name, value in shown.items())
        return json_reply({"vllm_config": lines})

    async def _models(self, _call: Call) -> Reply:
        found = [self._model(name, self._settings.model, None) for name in self._settings.names]
        parent = self._settings.names[0]
        found += [self._model(each.name, each.path, parent) for each in self._adapters]
        return json_reply({"object": "list", "data": found})

    def _model(self, name: str, root: str, parent: str | None) -> dict[str, Any]:
        shown: dict[str, Any] = {"id": name, "object": "model", "created": 0, "owned_by": _OWNER}
        if since(self._settings.profile, "0.24"):
            longest = self._client.max_model_len() if parent is None else None
            shown |= {
                "created": self._started,
                "root": root,
                "parent": parent,
                "max_model_len": longest,
            }
        return shown
