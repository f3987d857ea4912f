"""Sizes that a client is told."""

from __future__ import annotations

import pytest

from harness.scenario.model import Topology
from harness.targets.sizes import Sizes, sizes_of

BOOTSTRAPPED = {"transport": "bootstrapped"}


@pytest.mark.parametrize(
    ("topology", "sizes"),
    [
        ({"engines": 3}, Sizes(3, 0, 3)),
        ({"engines": 2, "start_rank": 4, **BOOTSTRAPPED}, Sizes(2, 4, 6)),
        ({"ranks": [5, 7], **BOOTSTRAPPED}, Sizes(2, 5, 7)),
        ({"engines": 2, "data_parallel_size": 8, **BOOTSTRAPPED}, Sizes(2, 0, 8)),
        ({"engines": 2, "config": {"engine_count": 0}}, Sizes(0, 0, 0)),
        ({"engines": 2, "config": {"data_parallel_size": 9}}, Sizes(2, 0, 9)),
        (
            {"engines": 2, "config": {"engine_start_index": 3, "engine_count": 1}, **BOOTSTRAPPED},
            Sizes(1, 3, 4),
        ),
    ],
)
def test_sizes_follow_from_ranks_unless_the_scenario_gives_them(topology, sizes) -> None:
    assert sizes_of(Topology.model_validate(topology)) == sizes
