"""What a mutant is: a known bug, kept alive as a small variant of one part of what runs."""

from __future__ import annotations

from typing import ClassVar, Literal

from client.components import Components
from client.protocol.profiles import RELEASES, Profile, profile_for
from mock_engines.parts import EngineParts

FAMILIES = (
    "fan-out",
    "waiters",
    "registry",
    "streams and aborts",
    "routing",
    "aggregation",
    "coordinator",
    "external coordinator",
    "handshake",
    "codec",
    "engine wave rules",
    "lockstep",
    "elastic changes",
    "health",
    "shutdown",
)
"""What mutants are sorted by, in the order of their page."""

Visibility = Literal["black-box", "white-box"]
"""Whether a fault shows on the wire and in answers, or only inside the client."""


class Mutant:
    """Base of all mutants.

    Attributes:
        id: kebab-case, never changed.
        family: the part of the protocol that it breaks; one of ``FAMILIES``.
        title: the fault, in a few words.
        bug: what happened because of it, in one sentence.
        source: where it comes from.
        killed_by: id of the invariant that must catch it.
        hidden_because: why that invariant cannot catch it in a frontend of which only the wire,
            the answers and the log are seen; ``""`` if it can.
        needs: flag of a profile without which the faulty part is never used; ``""`` if none.
    """

    id: ClassVar[str]
    family: ClassVar[str]
    title: ClassVar[str]
    bug: ClassVar[str]
    source: ClassVar[str]
    killed_by: ClassVar[str]
    hidden_because: ClassVar[str] = ""
    needs: ClassVar[str] = ""

    @classmethod
    def visible(cls) -> Visibility:
        """Where the fault shows."""
        return "white-box" if cls.hidden_because else "black-box"

    @classmethod
    def unseen_because(cls, profile: Profile, *, black_box: bool) -> str:
        """Why nothing can show this fault in a target; ``""`` if something can.

        Args:
            profile: of the release that the target speaks or imitates.
            black_box: whether it is judged from outside alone.
        """
        if cls.needs and not getattr(profile, cls.needs):
            having = [name for name in RELEASES if getattr(profile_for(name), cls.needs)]
            return (
                f"{profile.release} makes no use of the part that it changes; "
                f"{having[0]} to {having[-1]} do"
            )
        return cls.hidden_because if black_box else ""

    @classmethod
    def components(cls, base: Components) -> Components:
        """Return ``base`` with one part replaced by its faulty variant."""
        return base

    @classmethod
    def engine_parts(cls, base: EngineParts) -> EngineParts:
        """The same for the mock engines; a mutant changes one of the two."""
        return base
