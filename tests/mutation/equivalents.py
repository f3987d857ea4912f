"""The reviewed list of mutants that no test can tell from the original, each with its argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.mutation.mutants import ROOT, Mutant, of_module

LIST = Path(__file__).with_name("equivalents.yaml")

BOUND = 25
"""At most so many: 5 % of the sample."""


@dataclass(frozen=True)
class Equivalent:
    """A mutant by file, operator, place and text of its line, and why nothing can tell it."""

    file: str
    operator: str
    within: str
    line: str
    argument: str
    nth: int = 0

    def names(self, mutant: Mutant) -> bool:
        """Whether this entry is about that mutant."""
        mine = (self.file, self.operator, self.within, self.line, self.nth)
        return mine == (mutant.file, mutant.operator, mutant.within, mutant.line, mutant.nth)


def listed(path: Path = LIST) -> list[Equivalent]:
    """The entries of the list.

    Raises:
        ValueError: an entry lacks a key or has one too many; the message names the entry.
    """
    found = []
    for number, entry in enumerate(yaml.safe_load(path.read_text(encoding="utf-8")) or [], 1):
        try:
            found.append(Equivalent(**entry))
        except TypeError as error:
            raise ValueError(f"{path.name}: entry {number}: {error}") from error
    return found


def mutants_of(equivalent: Equivalent, root: Path = ROOT) -> Sequence[Mutant]:
    """The mutants that an entry names in the tree as it is: exactly one, or the entry is stale."""
    source = (root / equivalent.file).read_text(encoding="utf-8")
    found = of_module(equivalent.file, source, [equivalent.operator])
    return [mutant for mutant in found if equivalent.names(mutant)]
