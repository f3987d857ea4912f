"""Checks of scenarios in which the number of engines changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from harness.scenario.finding import Finding
from harness.scenario.model import Scenario

SINCE = "0.27"
"""First release whose engines change over in two stages, the only way that is modelled."""


def check_elastic(scenario: Scenario, releases: Sequence[str]) -> Iterator[Finding]:
    """What a change of the number of engines needs."""
    topology = scenario.topology
    if scenario.elastic:
        yield from _topology(scenario)
    steps = [(i, step.scale) for i, step in enumerate(scenario.steps) if step.scale is not None]
    most = len(topology.rank_list) + topology.later
    for i, scale in steps:
        if scale.to > most:
            yield Finding(
                ("steps", i, "scale", "to"),
                f"there are {most} engines at most",
                f"1 to {most} (topology.engines + topology.later)",
            )
    if steps:
        yield from _releases(scenario, releases)
    elif topology.later:
        yield Finding(
            ("topology", "later"),
            "no step starts these engines",
            "a step scale: {id: grow, to: N}",
            on_key=True,
        )


def _topology(scenario: Scenario) -> Iterator[Finding]:
    topology = scenario.topology
    if topology.rank_list != list(range(len(topology.rank_list))):
        yield Finding(
            ("topology",),
            "where the number of engines changes, ranks begin with 0 and leave none out",
            "no start_rank, and no ranks",
        )
    if len(topology.rank_list) + topology.later > 64:
        yield Finding(("topology", "later"), "there are too many engines", "64 at most")
    if topology.frontends > 1:
        yield Finding(
            ("topology", "frontends"),
            "only one frontend can change the number of its engines",
            "frontends: 1",
        )
    if topology.coordinator == "none":
        yield Finding(
            ("topology",),
            "engines that come and go need a coordinator",
            "key 'coordinator': in-process or external",
        )
    for i, spec in enumerate(scenario.engines):
        if spec.process:
            yield Finding(
                ("engines", i, "process"),
                "an engine that may come or go lives in the harness's own process",
                "process: false, or no such key",
            )


def _releases(scenario: Scenario, releases: Sequence[str]) -> Iterator[Finding]:
    try:
        fits = SpecifierSet(scenario.profiles)
    except InvalidSpecifier:
        return  # told already
    old = [r for r in releases if r in fits and Version(r) < Version(SINCE)]
    if old:
        yield Finding(
            ("profiles",),
            f"{old[0]} does not change the number of engines in two stages",
            f"'>={SINCE}'",
        )
