"""Starts engines of a run while it goes on: what an engine manager is in a real deployment."""

from __future__ import annotations

from collections.abc import Sequence

from mock_engines.cluster import Cluster


class ClusterLauncher:
    """Implements ``Launcher`` for the engines of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def start(self, ranks: Sequence[int], size: int) -> None:
        """Start engines of a deployment of ``size``; return once they have joined."""
        await self._cluster.grow(ranks, size)

    async def stop(self, ranks: Sequence[int]) -> None:
        """Release engines that have ended."""
        await self._cluster.removed(ranks)
