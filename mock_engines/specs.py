"""Which parts of a behaviour file concern which engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from client.protocol.ids import RANKS_MAX
from mock_engines.behaviours.model import Action, EngineSpec, Join, Rule

PLAIN_JOIN = Join()
"""How an engine joins that no entry speaks of."""


@dataclass(frozen=True, slots=True)
class EngineScript:
    """What one engine does: how it joins, its rules in order of precedence.

    ``process``: run as a child; ``None`` leaves it to the world.
    """

    join: Join
    rules: tuple[Rule, ...]
    process: bool | None

    @property
    def vanishes(self) -> bool:
        """Whether a rule makes the engine's process disappear."""
        return any(action.die == "vanish" for rule in self.rules for action in rule.do)

    @property
    def needs_process(self) -> bool:
        """Whether a rule does to the engine what only happens to whole processes."""
        return any(happens_to_processes(rule.do) for rule in self.rules)


PLAIN_SCRIPT = EngineScript(PLAIN_JOIN, (), None)
"""What an engine does that no entry speaks of."""


def happens_to_processes(actions: Iterable[Action]) -> bool:
    """Whether one of these actions lets an engine vanish or stall."""
    return any(action.die == "vanish" or action.stall is not None for action in actions)


def _specificity(spec: EngineSpec) -> int:
    if spec.engine == "all":
        return 2
    return 1 if isinstance(spec.engine, list) else 0


def _concerns(spec: EngineSpec, rank: int) -> bool:
    if spec.engine == "all":
        return True
    return rank in spec.engine if isinstance(spec.engine, list) else rank == spec.engine


def script_for(rank: int, specs: Sequence[EngineSpec]) -> EngineScript:
    """Merge the entries that concern ``rank``, a global rank.

    Entries for one engine come before those for a list, and these before ``all``; equals keep
    the file's order. Rules are strung together; ``join`` and ``process`` come from the first
    entry that has them.
    """
    if not specs:
        return PLAIN_SCRIPT
    mine = sorted((spec for spec in specs if _concerns(spec, rank)), key=_specificity)
    joins = [spec.join for spec in mine if "join" in spec.model_fields_set]
    choices = [spec.process for spec in mine if spec.process is not None]
    return EngineScript(
        join=joins[0] if joins else PLAIN_JOIN,
        rules=tuple(rule for spec in mine for rule in spec.rules),
        process=choices[0] if choices else None,
    )


def named_ranks(specs: Sequence[EngineSpec]) -> list[int]:
    """Return the ranks that entries name, in order of appearance, without repeats."""
    found: dict[int, None] = {}
    for spec in specs:
        if isinstance(spec.engine, int):
            found[spec.engine] = None
        elif isinstance(spec.engine, list):
            found.update(dict.fromkeys(spec.engine))
    return list(found)


def check_ranks(ranks: Sequence[int], specs: Sequence[EngineSpec]) -> None:
    """Check that the ranks exist, differ, and that no entry names another.

    Raises:
        ValueError: no rank, a double one, one beyond two bytes, or an entry for a stranger.
    """
    if not ranks:
        msg = "a cluster needs at least one engine"
        raise ValueError(msg)
    if max(ranks) >= RANKS_MAX or min(ranks) < 0:
        worst = max(ranks) if max(ranks) >= RANKS_MAX else min(ranks)
        msg = (
            f"rank {worst} exceeds the two-byte engine identity limit: start rank + number of"
            f" engines must be at most {RANKS_MAX}"
        )
        raise ValueError(msg)
    if len(set(ranks)) != len(ranks):
        double = next(rank for place, rank in enumerate(ranks) if rank in ranks[:place])
        msg = f"rank {double} is given twice"
        raise ValueError(msg)
    strangers = [rank for rank in named_ranks(specs) if rank not in ranks]
    if strangers:
        there = ", ".join(str(rank) for rank in ranks)
        msg = f"a behaviour names engine {strangers[0]}, which does not take part (ranks: {there})"
        raise ValueError(msg)
