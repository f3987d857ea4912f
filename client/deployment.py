"""What a client knows of the engines that it is connected to.

Source: Rust ``engine-core-client/src/client.rs``; PR #51178 (the configured data-parallel size);
protocol page, sections 3.4 and 7.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from client.config import ClientConfig
from client.errors import ClientError
from client.inner import ClientInner
from client.protocol.ids import Identity
from client.protocol.messages import ReadyResponse


class Deployment:
    """Mixed into the client: health, engines, ready responses and their aggregates."""

    _config: ClientConfig
    _inner: ClientInner

    @property
    def is_healthy(self) -> bool:
        """Whether no fatal error was seen and the client is open."""
        return self._inner.health_error is None

    @property
    def health_error(self) -> ClientError | None:
        """The first fatal error; it never changes."""
        return self._inner.health_error

    def engine_indices(self) -> tuple[int, ...]:
        """Global ranks, in engine order."""
        return tuple(self._inner.ranks[each] for each in self._inner.connected())

    def engine_identities(self) -> tuple[Identity, ...]:
        """Identities, in engine order: by bytes, or by index in bootstrapped mode."""
        return self._inner.connected()

    def ready_responses(self) -> tuple[ReadyResponse, ...]:
        """What each engine said of itself, in engine order."""
        return tuple(engine.ready for engine in self._inner.engines)

    def max_model_len(self) -> int | None:
        """Smallest ``max_model_len`` of all engines."""
        known = self._reported("max_model_len")
        return min(known) if known else None

    def num_gpu_blocks(self) -> int:
        """GPU blocks of all engines together."""
        return sum(self._reported("num_gpu_blocks"))

    def first(self, key: str) -> Any:
        """A value of the first engine: ``vllm_version``, ``dtype``, ``world_size``."""
        return self._inner.engines[0].ready.get(key)

    def dp_stats_address(self) -> str | None:
        """First external coordinator address that an engine reports."""
        known = self._reported("dp_stats_address")
        return known[0] if known else None

    def _reported(self, key: str) -> list[Any]:
        values = (engine.ready.get(key) for engine in self._inner.engines)
        return [value for value in values if value is not None]

    @property
    def data_parallel_size(self) -> int:
        """The *configured* size: dense engines behave as one replica each and report 1."""
        return self._config.mode.data_parallel_size

    def world_size(self, *, include_dp: bool = True) -> int | None:
        """Engine 0's world size, times the configured data-parallel size if asked for."""
        own = self.first("world_size")
        if not isinstance(own, int):
            return None
        return own * self.data_parallel_size if include_dp else own

    def server_info(self) -> Mapping[str, Any]:
        """Sizes and versions of the deployment.

        Source: PR #51178: the frontend is the only place that knows the data-parallel size.
        """
        return {
            "data_parallel_size": self.data_parallel_size,
            "engine_count": len(self._inner.engines),
            "world_size": self.world_size(),
            "world_size_without_dp": self.world_size(include_dp=False),
            "max_model_len": self.max_model_len(),
            "num_gpu_blocks": self.num_gpu_blocks(),
            "vllm_version": self.first("vllm_version"),
            "dtype": self.first("dtype"),
        }
