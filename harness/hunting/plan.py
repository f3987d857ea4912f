"""Which scenarios may kill a mutant, and in which release, the likeliest first. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet

from client.protocol.profiles import RELEASES, Profile, profile_for
from harness.mutants.base import Mutant
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Scenario
from harness.scenario.needs import needs
from harness.verdict import predicted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scenario that may kill a mutant, played as ``release``."""

    loaded: LoadedScenario
    release: str

    @property
    def scenario(self) -> str:
        """Its id."""
        return self.loaded.id


def candidates(
    mutant: type[Mutant], loaded: Sequence[LoadedScenario], capabilities: Collection[str]
) -> list[Candidate]:
    """Scenarios in which the fault can show, in the order in which they are tried.

    Those that name the invariant which is to kill the mutant come first, then those of the
    chapter of that invariant, then the rest; equals keep their order.

    Args:
        mutant: what is hunted.
        loaded: scenarios, by id.
        capabilities: what the target can do.
    """
    found = [
        Candidate(one, profile.release)
        for one in loaded
        if needs(one.scenario) <= set(capabilities)
        and (profile := release_for(mutant, one.scenario)) is not None
    ]
    chapter = mutant.killed_by.partition(".")[0]

    def place(candidate: Candidate) -> tuple[bool, bool]:
        own = mutant.killed_by in candidate.loaded.scenario.invariants
        return not own, not candidate.scenario.startswith((f"{chapter}/", f"{chapter}s/"))

    return sorted(found, key=place)


def release_for(mutant: type[Mutant], scenario: Scenario) -> Profile | None:
    """The newest release to which a scenario applies and in which the fault can show.

    Not one in which the rules of the release themselves break the scenario's promise: what is broken
    without the mutant proves nothing.
    """
    applies = SpecifierSet(scenario.profiles)
    newest_first = (profile_for(release) for release in reversed(RELEASES))
    return next(
        (
            profile
            for profile in newest_first
            if profile.version in applies
            and not mutant.unseen_because(profile, black_box=False)
            and not predicted(scenario.known, profile.version, target="")
        ),
        None,
    )
