"""Who takes part in a generated scenario: parts that go together, and that the target has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.generate.drafts import Can, Draft
from harness.generate.fields import Data


def topology_of(drawn: Mapping[str, Data], can: Can) -> dict[str, Any]:
    """A topology whose parts go together, and which the target has."""
    topology = dict(drawn)
    kind = topology["coordinator"]
    if f"coordinator.{kind}" not in can.capabilities:
        kind = "none"
    if topology.get("frontends", 1) > 1:
        if "topology.two-frontends" not in can.capabilities:
            del topology["frontends"]
        elif kind == "in-process":
            kind = "external"
    bootstrapped = kind == "external" or topology.get("frontends", 1) > 1
    topology["coordinator"] = kind
    if bootstrapped:
        topology["transport"] = "bootstrapped"
        topology.pop("ranks", None)
        topology.setdefault("engines", 2)
    if "topology.any-ranks" not in can.capabilities:
        topology.pop("ranks", None)
        topology.pop("start_rank", None)
        topology.setdefault("engines", 2)
    if kind == "none":
        topology.pop("waves", None)
        topology.pop("lockstep", None)
    return topology


def ranks_of(topology: Mapping[str, Data]) -> list[int]:
    """Global ranks, in index order."""
    if "ranks" in topology:
        return list(topology["ranks"])
    start = topology.get("start_rank", 0)
    return [start + number for number in range(topology["engines"])]


def methods_of(draft: Draft) -> list[str]:
    """Methods that the story calls."""
    named = [phrase.step["utility"]["method"] for phrase in draft.story if "utility" in phrase.step]
    return list(dict.fromkeys(named))
