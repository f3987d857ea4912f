"""What the client's events do not tell: reported loads, and whom a reply was for.

The client is built from classes that can be replaced; two of them are replaced by subclasses that
also tell us what they did. A mutant's class is kept, as the base of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from client.components import Components


class Watch:
    """Looks over the shoulder of one client's parts.

    Attributes:
        loads: ``(running, waiting)`` by rank, as engines reported them last.
    """

    def __init__(self) -> None:
        self.loads: dict[int, tuple[int, int]] = {}
        self._last_reply: tuple[int, bool] | None = None

    def was_expected(self, call_id: int) -> bool:
        """Whether the last reply was to this call id, and somebody was registered for it."""
        return self._last_reply == (call_id, True)

    def over(self, components: Components) -> Components:
        """Return components that do the same and tell us."""
        watch = self

        class Routing(components.routing):  # type: ignore[name-defined,misc]
            """Shows the loads that it takes over."""

            def apply_stats(self, engine_index: int, stats: Mapping[str, Any]) -> bool:
                """Take over stats."""
                taken: bool = super().apply_stats(engine_index, stats)
                if taken:
                    running, waiting = stats["num_running_reqs"], stats["num_waiting_reqs"]
                    watch.loads[engine_index] = (running, waiting)
                return taken

        class Utilities(components.utilities):  # type: ignore[name-defined,misc]
            """Shows whether a reply found a waiter."""

            def resolve(self, call_id: int) -> Any:
                """Take out the waiter that a reply is for."""
                waiter = super().resolve(call_id)
                watch._last_reply = (call_id, waiter is not None)
                return waiter

        return replace(components, routing=Routing, utilities=Utilities)
