"""A scenario with an engine less. Pure; see ``closures`` for its form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.scenario.model import Topology
from harness.shrink.closures import Data, verb_of, words

ENGINES_DEFAULT = Topology().engines


def ranks(data: Data) -> list[int]:
    """Global ranks, the last first."""
    return Topology.model_validate(data.get("topology", {})).rank_list[::-1]


def without_rank(data: Data, rank: int) -> dict[str, Any]:
    """The scenario without the engine of a rank, and without what is told to it alone.

    Where ranks are not named one by one, those above it move down. A call that asks for it asks
    for none.
    """
    topology = dict(data.get("topology", {}))
    named = topology.get("ranks") is not None
    count = len(ranks(data))
    if named:
        topology["ranks"] = [one for one in topology["ranks"] if one != rank]
    else:
        topology["engines"] = count - 1
    if topology.get("data_parallel_size") == count:
        topology["data_parallel_size"] = count - 1
    move = _Move(rank, shift=not named)
    made = {**data, "topology": topology}
    entries = [move.entry(entry) for entry in data.get("engines", [])]
    made["engines"] = [entry for entry in entries if entry is not None]
    steps = [move.step(step) for step in data["steps"]]
    made["steps"] = [step for step in steps if step is not None]
    if not made["engines"]:
        del made["engines"]
    return made


class _Move:
    """Numbers of engines once one of them is gone."""

    def __init__(self, rank: int, *, shift: bool) -> None:
        self._rank = rank
        self._shift = shift

    def number(self, value: Any) -> Any:
        """The new number; ``None``: there is none any more."""
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        if value == self._rank:
            return None
        return value - 1 if self._shift and value > self._rank else value

    def entry(self, entry: Data) -> Data | None:
        """An entry of ``engines``, or what an engine step says; ``None``: it is about nobody."""
        if "engine" not in entry:
            return entry
        named = entry["engine"]
        left = [number for one in words(named) if (number := self.number(one)) is not None]
        if not left:
            return None
        return {**entry, "engine": left if isinstance(named, list) else left[0]}

    def step(self, step: Data) -> Data | None:
        """A step; ``None``: it is about the engine that is gone."""
        verb = verb_of(step)
        value = step[verb]
        if not isinstance(value, Mapping):
            return step
        if verb in {"engine", "link", "wait"}:
            changed = self.entry(value)
            return step if changed == value else (None if changed is None else {verb: changed})
        if "rank" in value:
            left = {key: one for key, one in value.items() if key != "rank"}
            number = self.number(value["rank"])
            return {verb: left if number is None else {**left, "rank": number}}
        return self._expect(step) if verb == "expect" else step

    def _expect(self, step: Data) -> Data | None:
        value = self.entry(step["expect"])
        if value is None:
            return None
        count = value.get("count")
        if count is not None:
            if (changed := self.entry(count)) is None:
                return None
            value = {**value, "count": changed}
        if "order" in value:
            matches = [self.entry(match) for match in value["order"]]
            if any(match is None for match in matches):
                return None
            value = {**value, "order": matches}
        return step if value == step["expect"] else {"expect": value}
