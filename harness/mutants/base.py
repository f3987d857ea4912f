"""What a mutant is: a known bug, kept alive as a small variant of one part of the client."""

from __future__ import annotations

import abc
from typing import ClassVar, Literal

from client.components import Components

Visibility = Literal["black-box", "white-box"]
"""Whether a fault shows on the wire and in answers, or only inside the client."""


class Mutant(abc.ABC):
    """Base of all mutants.

    Attributes:
        id: kebab-case, never changed.
        title: the fault, in a few words.
        bug: what happened because of it, in one sentence.
        source: where it comes from.
        killed_by: id of the invariant that must catch it.
        hidden_because: why that invariant cannot catch it in a frontend of which only the wire,
            the answers and the log are seen; ``""`` if it can.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    bug: ClassVar[str]
    source: ClassVar[str]
    killed_by: ClassVar[str]
    hidden_because: ClassVar[str] = ""

    @classmethod
    def visible(cls) -> Visibility:
        """Where the fault shows."""
        return "white-box" if cls.hidden_because else "black-box"

    @classmethod
    @abc.abstractmethod
    def components(cls, base: Components) -> Components:
        """Return ``base`` with one part replaced by its faulty variant."""
