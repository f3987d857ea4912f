"""How one model of a scenario file is put into words: a head, and a clause for each further key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

VALUE_MAX = 200
"""Characters of a value that are shown; frames and prompts may be far longer."""
RANKS_NAMED_MAX = 6
"""From more ranks in a row only the first and the last are named."""

Clause = Callable[[Any], str]
"""From the value of a key to its words; ``""``: it adds nothing."""


def nothing(_item: Any) -> str:
    """The head of a model whose keys say it all."""
    return ""


@dataclass(frozen=True, slots=True)
class Told:
    """How a mapping with several keys is told.

    Attributes:
        model: whose keys these are.
        head: the words of ``of_head``, from the whole mapping.
        clauses: of each other key, told where the file gives it, in this order.
        nulls: keys of which null is something to tell.
        behind_head: what stands between the head and the first clause.
    """

    model: type[BaseModel]
    head: Clause = nothing
    of_head: tuple[str, ...] = ()
    clauses: Mapping[str, Clause] = field(default_factory=dict)
    nulls: frozenset[str] = frozenset()
    behind_head: str = ", "

    @property
    def keys(self) -> frozenset[str]:
        """Keys that have words."""
        return frozenset({*self.of_head, *self.clauses})

    def parts(self, item: BaseModel) -> list[str]:
        """The head and the clauses, without empty ones."""
        found = [self.head(item)]
        for key, clause in self.clauses.items():
            value = getattr(item, key)
            if key in item.model_fields_set and (value is not None or key in self.nulls):
                found.append(clause(value))
        return [part for part in found if part]

    def say(self, item: BaseModel) -> str:
        """All of it as one phrase."""
        head, *rest = self.parts(item) or [""]
        if not rest or not self.head(item):
            return ", ".join([head, *rest])
        return f"{head}{self.behind_head}{', '.join(rest)}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """How a mapping with exactly one key is told: by that key."""

    model: type[BaseModel]
    words: Mapping[str, Clause]

    @property
    def keys(self) -> frozenset[str]:
        """Keys that have words."""
        return frozenset(self.words)

    def say(self, item: BaseModel) -> str:
        """The words of the key that is set."""
        (key,) = item.model_fields_set
        return self.words[key](getattr(item, key))


# --- phrases --------------------------------------------------------------------------------


def code(text: object) -> str:
    """A name as it stands in the file."""
    return f"`{text}`"


def shown(value: Any) -> str:
    """A value in JSON form, cut where it is very long."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= VALUE_MAX:
        return text
    return f"{text[:VALUE_MAX]}… ({len(text)} characters)"


def listed(words: Iterable[object], last: str = "and") -> str:
    """Join words: ``a``, ``a and b``, ``a, b and c``."""
    every = [str(word) for word in words]
    if len(every) < 2:
        return "".join(every)
    return f"{', '.join(every[:-1])} {last} {every[-1]}"


def codes(names: Iterable[object], last: str = "and") -> str:
    """Join names as they stand in the file."""
    return listed((code(name) for name in names), last)


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 0``, ``ranks 0 and 1``, ``ranks 0 to 15``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    in_a_row = list(ranks) == list(range(ranks[0], ranks[0] + len(ranks)))
    if in_a_row and len(ranks) > RANKS_NAMED_MAX:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {listed(ranks)}"


def who(engine: int | list[int] | str) -> str:
    """The engines that an entry or a step is about, as a singular subject."""
    if engine == "all":
        return "every engine"
    if isinstance(engine, list):
        names = listed(engine)
        return f"engine {names}" if len(engine) == 1 else f"each of engines {names}"
    return f"engine {engine}"


def times(count: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def ordinal(number: int) -> str:
    """``1st``, ``2nd``, ``11th``."""
    ending = "th" if number % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"


def fields(where: Mapping[str, Any]) -> str:
    """``wave = 2 and exclude = null``."""
    return listed(f"{name} = {shown(value)}" for name, value in where.items())


def yes(words: str) -> Clause:
    """Words of a switch, told only where it is on."""
    return lambda value: words if value else ""


def by_word(words: Mapping[Any, str]) -> Clause:
    """Words for each value that a key may have."""
    return lambda value: words[value]


def capital(text: str) -> str:
    """A phrase as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
