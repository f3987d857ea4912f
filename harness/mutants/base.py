"""What a mutant is: a known bug, kept alive as a small variant of one part of the client."""

from __future__ import annotations

import abc
from typing import ClassVar

from client.components import Components


class Mutant(abc.ABC):
    """Base of all mutants.

    Attributes:
        id: kebab-case, never changed.
        title: the fault, in a few words.
        bug: what happened because of it, in one sentence.
        source: where it comes from.
        killed_by: id of the invariant that must catch it.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    bug: ClassVar[str]
    source: ClassVar[str]
    killed_by: ClassVar[str]

    @classmethod
    @abc.abstractmethod
    def components(cls, base: Components) -> Components:
        """Return ``base`` with one part replaced by its faulty variant."""
