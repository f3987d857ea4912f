"""Mock engines as a test in Python has them: with their trace, and with ways to wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from harness.launching import ClusterLauncher
from harness.scenario.model import EventMatch, Topology
from harness.targets.client_frontend import ClientFrontend
from harness.trace.events import Record
from harness.trace.kinds import class_of
from harness.trace.recorder import Recorder
from mock_engines.cluster import Cluster


class Engines(Cluster):
    """Mock engines of a story, and the trace of all that they and their client do.

    Attributes:
        topology: what they are.
        trace: every event so far; still there when the story is over.
    """

    topology: Topology
    trace: Recorder
    frontend: ClientFrontend | None = None
    settle: Callable[[], Awaitable[None]]

    async def fence(self) -> None:
        """Return once everything that was sent before has arrived and been acted on.

        What did *not* happen is asserted behind it, never after a pause. Engines that hang or
        stall are not waited for. With a frontend of your own only engines are waited for.
        """
        await self.settle()

    @property
    def records(self) -> list[Record]:
        """The events, numbered, in order."""
        return self.trace.records

    @property
    def launcher(self) -> ClusterLauncher:
        """Starts and stops engines for ``EngineClient.scale``; there must be ``later`` ones."""
        return ClusterLauncher(self)

    def matching(self, event: str, **wanted: Any) -> list[Record]:
        """Events so far of a kind, as scenarios name them.

        Args:
            event: ``add``, ``abort``, ``utility`` and so on; see docs/scenarios.md.
            wanted: ``engine``, ``method``, ``request``, and ``where``: field to exact value.

        Raises:
            ValueError: there is no such kind or key.
        """
        return self.trace.matching(_match(event, wanted))

    async def wait_for(self, event: str, count: int = 1, **wanted: Any) -> list[Record]:
        """Return once so many events match (see ``matching``), and these events.

        Raises:
            ValueError: there is no such kind or key.
        """
        match = _match(event, wanted)
        found = self.trace.matching(match)
        if len(found) >= count:
            return found
        enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def look(record: Record) -> None:
            if self.trace.match(record, match):
                found.append(record)
                if len(found) >= count and not enough.done():
                    enough.set_result(None)

        unsubscribe = self.trace.subscribe(look, class_of(match.event))
        try:
            await enough
        finally:
            unsubscribe()
        return found


def _match(event: str, wanted: Mapping[str, Any]) -> EventMatch:
    match = EventMatch.model_validate({"event": event, **wanted})
    class_of(match.event)
    return match
