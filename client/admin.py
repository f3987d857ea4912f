"""The named utility methods: arguments, result types, and how the engines' answers are joined.

Sources: Rust ``engine-core-client/src/client.rs``; PR #43429 (consensus and AND); protocol page,
sections 9.3 and 10.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from client.aggregation import Aggregation
from client.errors import ProfileAlreadyActive
from client.protocol.profiles import Profile
from client.utility import CONFIGURED, NIL, IdList, Timeout

T = TypeVar("T")


class AdminMethods(abc.ABC):
    """Mixed into the client, which brings ``call_utility``.

    ``timeout_s`` is the overall limit of a call, in seconds: ``None`` for none; by default the
    one of the configuration, which is off unless set.
    """

    _profile: Profile
    _aggregation: Aggregation
    _profiling = False

    @abc.abstractmethod
    async def call_utility(
        self,
        method: str,
        args: Sequence[Any],
        result_type: type[T],
        *,
        timeout_s: Timeout = CONFIGURED,
        only: Sequence[int] | None = None,
    ) -> list[T]:
        """Call a method on all engines."""

    async def call_utility_consensus(
        self,
        method: str,
        args: Sequence[Any],
        result_type: type[T],
        *,
        timeout_s: Timeout = CONFIGURED,
    ) -> T:
        """Call a method on all engines and return the value on which they agree.

        Raises:
            InconsistentUtilityResults: they disagree; it names all values, in engine order.
        """
        values = await self.call_utility(method, args, result_type, timeout_s=timeout_s)
        return self._aggregation.consensus(method, values)

    async def _all_true(self, method: str, args: Sequence[Any], timeout_s: Timeout) -> bool:
        values = await self.call_utility(method, args, bool, timeout_s=timeout_s)
        return self._aggregation.conjunction(method, values)

    async def _all_ok(self, method: str, args: Sequence[Any], timeout_s: Timeout) -> None:
        await self.call_utility(method, args, NIL, timeout_s=timeout_s)

    # --- state ---

    async def is_sleeping(self, *, timeout_s: Timeout = CONFIGURED) -> bool:
        """Whether the engines sleep (a plain pause reads as sleeping too). Consensus."""
        return await self.call_utility_consensus("is_sleeping", (), bool, timeout_s=timeout_s)

    async def is_paused(self, *, timeout_s: Timeout = CONFIGURED) -> bool:
        """Whether the schedulers are paused. Consensus."""
        return await self.call_utility_consensus(
            "is_scheduler_paused", (), bool, timeout_s=timeout_s
        )

    async def sleep(
        self, level: int = 1, mode: str = "abort", *, timeout_s: Timeout = CONFIGURED
    ) -> None:
        """Put all engines to sleep. ``mode``: ``abort``, ``wait`` or ``keep``."""
        await self._all_ok("sleep", (level, mode), timeout_s)

    async def wake_up(
        self, tags: Sequence[str] | None = None, *, timeout_s: Timeout = CONFIGURED
    ) -> bool | None:
        """Wake all engines; ``tags`` limits what is woken.

        Returns:
            Whether all of them are awake now (≥ 0.31, AND); ``None`` before.
        """
        args = (None if tags is None else list(tags),)
        if self._profile.wake_up_returns_bool:
            return await self._all_true("wake_up", args, timeout_s)
        await self._all_ok("wake_up", args, timeout_s)
        return None

    async def pause(
        self, mode: str = "abort", clear_cache: bool = True, *, timeout_s: Timeout = CONFIGURED
    ) -> None:
        """Pause all schedulers (``pause_scheduler`` ≤ 0.32, ``pause_generation`` in 0.33)."""
        await self._all_ok(self._profile.pause_method, (mode, clear_cache), timeout_s)

    async def resume(self, *, timeout_s: Timeout = CONFIGURED) -> None:
        """Resume all schedulers."""
        await self._all_ok("resume_scheduler", (), timeout_s)

    # --- caches ---

    async def reset_prefix_cache(
        self,
        reset_running_requests: bool = False,
        reset_external: bool = False,
        *,
        timeout_s: Timeout = CONFIGURED,
    ) -> bool:
        """Reset the prefix cache; whether every engine did (AND)."""
        args = (reset_running_requests, reset_external)
        return await self._all_true("reset_prefix_cache", args, timeout_s)

    async def reset_mm_cache(self, *, timeout_s: Timeout = CONFIGURED) -> None:
        """Reset the multimodal cache of all engines."""
        await self._all_ok("reset_mm_cache", (), timeout_s)

    async def reset_encoder_cache(self, *, timeout_s: Timeout = CONFIGURED) -> None:
        """Reset the encoder cache of all engines."""
        await self._all_ok("reset_encoder_cache", (), timeout_s)

    async def release_kv_cache_memory(self, *, timeout_s: Timeout = CONFIGURED) -> None:
        """Release the KV cache of engines that are paused and awake."""
        await self._all_ok("release_kv_cache_memory", (), timeout_s)

    # --- LoRA ---

    async def add_lora(
        self, lora_request: Sequence[Any], *, timeout_s: Timeout = CONFIGURED
    ) -> bool:
        """Load an adapter; whether every engine did (AND).

        Args:
            lora_request: the array of the wire: name, id ≥ 1, path, base model name, (tensorizer
                configuration, ≤ 0.32), load in place, 3D weights.
            timeout_s: see the class.
        """
        return await self._all_true("add_lora", (list(lora_request),), timeout_s)

    async def remove_lora(self, lora_id: int, *, timeout_s: Timeout = CONFIGURED) -> bool:
        """Unload an adapter; whether every engine did (AND)."""
        return await self._all_true("remove_lora", (lora_id,), timeout_s)

    async def pin_lora(self, lora_id: int, *, timeout_s: Timeout = CONFIGURED) -> bool:
        """Keep an adapter loaded; whether every engine does (AND)."""
        return await self._all_true("pin_lora", (lora_id,), timeout_s)

    async def list_loras(self, *, timeout_s: Timeout = CONFIGURED) -> list[int]:
        """Ids of loaded adapters, ascending, on which all engines agree.

        Engines send a set, whose order means nothing, so the ids are compared sorted.
        """
        ids = await self.call_utility_consensus("list_loras", (), IdList, timeout_s=timeout_s)
        return list(ids)

    # --- the rest ---

    async def collective_rpc(
        self,
        method: str,
        timeout: float | None = None,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        timeout_s: Timeout = CONFIGURED,
    ) -> list[Any]:
        """Call a worker method on all workers of all engines; results are flattened.

        ``timeout`` is in seconds and for the workers: the client itself does not act on it, but
        on ``timeout_s``.
        """
        limit = None if timeout is None else float(timeout)
        wire_args = (method, limit, list(args), dict(kwargs or {}))
        return self._aggregation.flatten(
            await self.call_utility("collective_rpc", wire_args, object, timeout_s=timeout_s)
        )

    async def profile(
        self,
        start: bool = True,
        prefix: str | None = None,
        delay_iterations: int | None = None,
        max_iterations: int | None = None,
        *,
        timeout_s: Timeout = CONFIGURED,
    ) -> None:
        """Start or stop the profiler.

        The iteration numbers exist since 0.32.

        Raises:
            ProfileAlreadyActive: started twice without a stop (≥ 0.32); nothing was sent.
        """
        if not start:
            await self._all_ok("profile", (False, None), timeout_s)
            self._profiling = False
            return
        if not self._profile.refuses_second_profile:
            await self._all_ok("profile", (True, prefix), timeout_s)
            return
        if self._profiling:
            raise ProfileAlreadyActive
        self._profiling = True
        try:
            await self._all_ok(
                "profile", (True, prefix, delay_iterations, max_iterations), timeout_s
            )
        except BaseException:
            self._profiling = False
            raise

    async def get_weight_version(self, *, timeout_s: Timeout = CONFIGURED) -> str:
        """Version of the weights. Consensus."""
        return await self.call_utility_consensus("get_weight_version", (), str, timeout_s=timeout_s)

    async def set_weight_version(self, version: str, *, timeout_s: Timeout = CONFIGURED) -> None:
        """Name the version of the weights on all engines."""
        await self._all_ok("set_weight_version", (version,), timeout_s)
