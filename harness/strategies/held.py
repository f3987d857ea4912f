"""An entry that is left out until nothing else can run."""

from __future__ import annotations

from harness.sim.handles import Entry, label_of


class Held:
    """Stands on the ready list in the place of an entry that is left out.

    It runs that entry and is equal to it, so whoever takes the entry back finds it.
    """

    __slots__ = ("entry",)

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def __call__(self) -> object:
        """Run the entry (the loop calls this)."""
        return self.entry()

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.entry or other == self.entry

    def __hash__(self) -> int:
        return hash(self.entry)

    @property
    def label(self) -> str:
        """The entry's own name."""
        return label_of(self.entry)
