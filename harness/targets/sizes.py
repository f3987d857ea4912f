"""What a client is told of the deployment's sizes: what the topology implies, or a wrong value."""

from __future__ import annotations

from dataclasses import dataclass

from harness.scenario.model import Topology


@dataclass(frozen=True, slots=True)
class Sizes:
    """Settings of a client; ``engine_start_index`` counts for a bootstrapped one."""

    engine_count: int
    engine_start_index: int
    data_parallel_size: int


def sizes_of(topology: Topology) -> Sizes:
    """Return the sizes that a scenario gives, else those that follow from its ranks."""
    ranks, given = topology.rank_list, topology.config
    count = len(ranks) if given.engine_count is None else given.engine_count
    start = ranks[0] if given.engine_start_index is None else given.engine_start_index
    size = given.data_parallel_size
    if size is None:
        size = topology.data_parallel_size
    if size is None:
        size = count if topology.transport == "handshake-owner" else start + count
    return Sizes(count, start, size)
