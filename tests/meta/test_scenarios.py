"""The scenario collection: enough of them, each about something of its own."""

from __future__ import annotations

import json

import pytest
from packaging.version import Version

from client.protocol.profiles import RELEASES
from harness.invariants import discover
from harness.scenario import selection
from harness.scenario.loader import LoadedScenario, builtin_dir
from harness.scenario.model import Scenario
from tests.support.collection import every_scenario

CHAPTERS = (
    "answers",
    "elastic",
    "findings",
    "handshake",
    "hostile",
    "lifecycle",
    "lockstep",
    "requests",
    "routing",
    "skew",
    "surfaces",
    "utility",
    "waves",
)
ALL = every_scenario()


def test_there_are_at_least_forty_in_all_chapters() -> None:
    assert len(ALL) >= 40
    assert sorted({loaded.id.split("/")[0] for loaded in ALL}) == list(CHAPTERS)
    assert sorted(p.name for p in builtin_dir().iterdir() if p.is_dir()) == list(CHAPTERS)


@pytest.mark.parametrize("field", ["title", "promise"])
def test_no_two_say_the_same(field: str) -> None:
    texts = [getattr(loaded.scenario, field) for loaded in ALL]
    assert sorted(texts) == sorted(set(texts))


def substance(scenario: Scenario) -> str:
    """Topology, behaviours, what is sent by script, expectations; operations are named by place."""
    dump = scenario.model_dump(mode="json", exclude_unset=True)
    started = (s.call or s.utility or s.http or s.grpc or s.scale for s in scenario.steps)
    ops = [step.id for step in started if step is not None]
    expects = [s["expect"] for s in dump["steps"] if "expect" in s]
    for expect in expects:
        if expect.get("op") in ops:
            expect["op"] = ops.index(expect["op"])
    told = {"coordinator", "engine", "signal", "http", "grpc"}
    sent = [s for s in dump["steps"] if told & s.keys()]
    asked = ("surface", "body", "stop", "headers", "prompt")
    sent += [
        {k: s["call"][k] for k in asked if k in s["call"]} for s in dump["steps"] if "call" in s
    ]
    parts = [dump.get("topology"), dump.get("engines"), dump.get("profiles"), sent, expects]
    return json.dumps(parts, sort_keys=True)


def test_no_two_have_the_same_topology_behaviours_and_expectations() -> None:
    seen: dict[str, str] = {}
    for loaded in ALL:
        key = substance(loaded.scenario)
        assert key not in seen, f"{loaded.id} repeats {seen[key]}"
        seen[key] = loaded.id


@pytest.mark.parametrize("loaded", ALL, ids=lambda loaded: loaded.id)
def test_scenario_judges_something_of_its_own(loaded: LoadedScenario) -> None:
    assert any(step.expect is not None for step in loaded.scenario.steps) or (
        loaded.scenario.invariants
    )


def test_known_faults_name_an_invariant_or_an_expectation() -> None:
    names = {cls.id for cls in discover()} | {"expectation"}
    for loaded in ALL:
        for known in loaded.scenario.known:
            assert known.invariant in names, f"{loaded.id}: {known.invariant}"


def test_external_coordinator_has_at_least_six() -> None:
    external = [x for x in ALL if x.scenario.topology.coordinator == "external"]
    assert len(external) >= 6


def test_known_fault_was_measured_where_it_is_and_where_it_is_not() -> None:
    lacking = []
    for loaded in ALL:
        for known in loaded.scenario.known:
            bad = [row for row in known.measured if row.violations]
            good = [row for row in known.measured if not row.violations]
            first = known.introduced_in
            clean_before = first is not None and any(
                selection.applies(loaded.scenario, release) and Version(release) < Version(first)
                for release in RELEASES
            )
            if not bad or (not good and (known.fixed_in is not None or clean_before)):
                lacking.append((loaded.id, known.invariant))
    assert lacking == []


def test_measured_rows_agree_with_the_bounds_of_their_fault() -> None:
    for loaded in ALL:
        for known in loaded.scenario.known:
            for row in known.measured:
                release = Version(row.release)
                before = known.introduced_in and release < Version(known.introduced_in)
                after = known.fixed_in and release >= Version(known.fixed_in)
                assert (row.violations > 0) != bool(before or after), (loaded.id, row)
