"""Where a scenario can be played, and who judges it there: releases, capabilities, invariants.

Read from what targets declare, so nothing is opened or fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from client.protocol.profiles import RELEASES, Profile, profile_for
from harness.hunting.killers import KILLERS
from harness.hunting.plan import release_for
from harness.invariants import discover as discover_invariants
from harness.invariants.base import bench_for
from harness.mutants import discover as discover_mutants
from harness.mutants.base import Mutant
from harness.scenario.loader import LoadedScenario
from harness.scenario.model import Expect, Scenario
from harness.scenario.needs import needs
from harness.targets import client_frontend
from harness.targets.capability_table import Sets
from harness.targets.reference import SimTarget, ZmqTarget
from harness.targets.vllm_py import client_part, coordinator_part
from harness.targets.vllm_rs.capabilities import capabilities as of_release
from harness.targets.vllm_rs.reference import reference_capabilities

HIDDEN: Mapping[str, str] = {
    "in_flight": "see.registries",
    "pending_utility_calls": "see.registries",
    "coordinator_wave": "see.coordinator",
    "coordinator_running": "see.coordinator",
    "health_error": "see.health-error",
}
"""Keys of an expectation → what a target must show; elsewhere that one is not judged."""


COORDINATOR_OF = {"coordinator": "in-process", "external coordinator": "external"}
"""Families of mutants that change one kind of coordinator → that kind."""


@dataclass(frozen=True, slots=True)
class Place:
    """A target, as far as one scenario goes.

    Attributes:
        kind: what ``--target`` takes, or another name of that kind of frontend.
        releases: those to which the scenario applies and in which it can be played there.
        lacking: capabilities that it never has, which is why there is none.
        here: whether it can be played in the release that is told.
        capabilities: in the release that is told.
    """

    kind: str
    releases: tuple[str, ...]
    lacking: tuple[str, ...]
    here: bool
    capabilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class Bench:
    """Who judges at one place.

    Attributes:
        judging: ids of invariants that judge.
        skipped: id → why it does not.
        unseen: number of a step, from 1, → what the place must show and does not, so that this
            expectation is not judged.
    """

    judging: tuple[str, ...]
    skipped: Mapping[str, str]
    unseen: Mapping[int, tuple[str, ...]]


def _sets(scenario: Scenario) -> Mapping[str, Sets]:
    """Capabilities of each kind of target, by release."""
    ours = client_frontend.CAPABILITIES
    external = scenario.topology.coordinator == "external"
    part = (coordinator_part if external else client_part).CAPABILITIES
    return {
        "sim": lambda _release: ours | SimTarget.extra,
        "zmq": lambda _release: ours | ZmqTarget.extra,
        "adapter (ours)": lambda _release: ours,
        "vllm-rs": of_release,
        "vllm-rs --frontend reference": reference_capabilities,
        "vllm-py": lambda _release: part,
    }


def places(scenario: Scenario, applying: Sequence[str], release: str) -> list[Place]:
    """Each kind of target.

    Args:
        scenario: what is to be played.
        applying: releases to which it applies.
        release: the one that is told.
    """
    wanted = needs(scenario)
    found = []
    for kind, sets in _sets(scenario).items():
        having = tuple(one for one in applying if wanted <= sets(one))
        never = wanted - frozenset().union(*(sets(one) for one in applying))
        lacking = tuple(sorted(never or wanted - sets(release))) if not having else ()
        found.append(Place(kind, having, lacking, release in having, sets(release)))
    return found


def bench_at(place: Place, scenario: Scenario, release: str) -> Bench:
    """Who judges a scenario at a place where it can be played."""
    bench = bench_for(
        tuple(discover_invariants()),
        Version(release),
        place.capabilities,
        scenario.topology.waves,
    )
    unseen = {
        number: hidden
        for number, step in enumerate(scenario.steps, start=1)
        if step.expect is not None and (hidden := _hidden(step.expect, place.capabilities))
    }
    return Bench(
        tuple(cls.id for cls in bench.judging),
        {verdict.invariant: verdict.reason for verdict in bench.skipped},
        unseen,
    )


def _hidden(expect: Expect, capabilities: frozenset[str]) -> tuple[str, ...]:
    wanted = {HIDDEN[key] for key in expect.model_fields_set if key in HIDDEN}
    return tuple(sorted(wanted - capabilities))


def killed(loaded: LoadedScenario) -> list[type[Mutant]]:
    """Mutants that a built-in scenario is known to kill."""
    return [mutant for mutant in discover_mutants() if KILLERS.get(mutant.id) == loaded.id]


def may_kill(scenario: Scenario) -> list[type[Mutant]]:
    """Mutants of an invariant that the file is about, which can show in it."""
    ours = client_frontend.CAPABILITIES | SimTarget.extra
    if not needs(scenario) <= ours:
        return []
    return [
        mutant
        for mutant in discover_mutants()
        if mutant.killed_by in scenario.invariants
        and COORDINATOR_OF.get(mutant.family) in {None, scenario.topology.coordinator}
        and release_for(mutant, scenario) is not None
    ]


def profile_of(release: str | None, applying: Sequence[str]) -> Profile:
    """The release that is told: the one asked for, else the newest that applies, else the newest."""
    return profile_for(release or (applying[-1] if applying else RELEASES[-1]))
