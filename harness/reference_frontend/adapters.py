"""LoRA adapters by name: the routes go by name, engines by number.

Ids count from 1 and a failed load uses one up; a rejected load is not undone on the engines that
accepted it, as upstream.

Source: protocol page, section 10; texts as measured.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.engine_client import EngineClient
from client.protocol.profiles import Profile
from harness.reference_frontend.requests import unknown_model
from harness.reference_frontend.texts import BAD_REQUEST, SERVER_ERROR, Refusal, since


@dataclass(frozen=True, slots=True)
class Adapter:
    """A loaded adapter."""

    name: str
    number: int
    path: str
    wire: tuple[Any, ...]


class Adapters:
    """Loads and unloads adapters on all engines."""

    def __init__(self, client: EngineClient, profile: Profile, prefixes: tuple[str, ...]) -> None:
        """``prefixes``: folders below which local adapters may lie."""
        self._client = client
        self._profile = profile
        self._prefixes = prefixes
        self._next = 1
        self._loaded: dict[str, Adapter] = {}

    def __iter__(self) -> Any:
        return iter(tuple(self._loaded.values()))

    def get(self, name: str) -> Adapter | None:
        """Return a loaded adapter."""
        return self._loaded.get(name)

    async def load(self, name: str, path: str, *, in_place: bool) -> Adapter:
        """Load on all engines.

        Raises:
            Refusal: loaded already, path not allowed, or an engine rejected it.
            ClientError: an engine failed.
        """
        known = self._loaded.get(name)
        if known is not None and not in_place:
            said = (
                f"LoRA adapter `{name}` is already loaded."
                if since(self._profile, "0.29")
                else f"The lora adapter '{name}' has already been loaded."
            )
            text = f"{said} If you want to load the adapter in place, set 'load_inplace' to true."
            raise Refusal(BAD_REQUEST, text, "lora_name")
        self._check_path(path)
        number = self._next if known is None else known.number
        if known is None:
            self._next += 1
        adapter = Adapter(name, number, path, self._wire(name, number, path, in_place=in_place))
        if not await self._client.add_lora(adapter.wire):
            text = (
                f"one or more engine ranks rejected LoRA adapter `{name}`"
                if since(self._profile, "0.29")
                else f"failed to load LoRA adapter '{name}': engine rejected the adapter"
            )
            raise Refusal(SERVER_ERROR, text)
        self._loaded[name] = adapter
        return adapter

    async def unload(self, name: str) -> None:
        """Unload on all engines.

        Raises:
            Refusal: not loaded, or an engine did not have it.
            ClientError: an engine failed.
        """
        adapter = self._loaded.get(name)
        if adapter is None:
            raise unknown_model(name)
        removed = await self._client.remove_lora(adapter.number)
        self._loaded.pop(name, None)
        if not removed:
            text = f"one or more engine ranks rejected LoRA adapter `{name}`"
            raise Refusal(SERVER_ERROR, text)

    def _check_path(self, path: str) -> None:
        if (why := self._why_not(path)) is not None:
            text = f"Local LoRA adapter paths {why}."
            raise Refusal(BAD_REQUEST, text, "lora_path")

    def _why_not(self, path: str) -> str | None:
        """What does not look like a path here is a name in a hub, and the engines' affair."""
        if not _is_local(path):
            return None
        if not self._prefixes:
            return "need prefixes below which they may lie; none is configured"
        if not Path(path).is_absolute():
            return "must be absolute"
        try:
            resolved = Path(path).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # not there, in a circle, no path
            return "must exist and be accessible"
        if any(resolved.is_relative_to(os.path.realpath(each)) for each in self._prefixes):
            return None
        return "must lie below one of the allowed prefixes"

    def _wire(self, name: str, number: int, path: str, *, in_place: bool) -> tuple[Any, ...]:
        head: tuple[Any, ...] = (name, number, path, None)
        if self._profile.lora_request_fields > 6:
            head = (*head, None)  # configuration of a tensorizer
        return (*head, in_place, False)


def _is_local(path: str) -> bool:
    return Path(path).is_absolute() or path[:1] in ("~", ".") or ".." in Path(path).parts
