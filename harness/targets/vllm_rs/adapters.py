"""Which LoRA adapter has which id: the routes go by name, utility calls by number.

The frontend counts ids from 1 and uses one up for a failed load too (protocol page, section 10).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.numerals import number_of
from harness.targets.vllm_rs.admin_routes import Request


class Adapters:
    """Names by id, in the order in which loads were sent."""

    def __init__(self, folder: Path) -> None:
        """``folder``: an existing folder that adapters may be loaded from."""
        self._folder = folder
        self._names: list[str] = []

    def complete(self, request: Request) -> Request:
        """Give a LoRA request the body that its route wants; others pass unchanged."""
        if request.adapter is None:
            return request
        if request.path.endswith("/load_lora_adapter"):
            self._names.append(request.adapter)
            body: dict[str, Any] = {
                "lora_name": request.adapter,
                "lora_path": str(self._folder),
            }
        else:
            body = {"lora_name": self._name(request.adapter)}
        return Request(request.verb, request.path, request.query, body)

    def _name(self, adapter: str) -> str:
        """Return the name of an adapter given by id or by name."""
        number = number_of(adapter, len(self._names))
        return self._names[number - 1] if number else adapter
