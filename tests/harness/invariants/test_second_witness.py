"""The wire alone: what the client tells of itself is thrown away, and the verdicts stand.

A client that leaks would not report its leak. So its faults must show on the wire too, and a
correct client must not look faulty to a checker that sees the wire only.
"""

from pathlib import Path

import pytest

from client.events import ClientEvent
from client.protocol.profiles import Profile
from harness.invariants import discover
from harness.invariants.base import Judge, RunContext, Verdict
from harness.play import play
from harness.runner import cached_target, choose_profile, make_spec
from harness.scenario.loader import load
from harness.scenario.model import Scenario
from harness.scenario.needs import needs
from harness.strategies import make_strategy
from harness.tape import Recorder as TapeRecorder
from harness.targets.client_frontend import CAPABILITIES
from harness.targets.request import TargetRequest
from harness.trace.events import Snapshot
from harness.verdict import predicted
from tests.support.collection import every_scenario

ROOT = Path(__file__).parents[3] / "scenarios"
SCENARIOS = sorted(
    loaded.id
    for loaded in every_scenario()
    if not needs(loaded.scenario) - CAPABILITIES - {"world.virtual-time"}
)
"""Those that the reference client can play."""
WALKS = 5
WIRE = frozenset({"see.wire", "see.results", "see.health"})


def the_story(name: str) -> tuple[Scenario, Profile]:
    scenario = load(ROOT / f"{name}.yaml").scenario
    profile = choose_profile(cached_target(TargetRequest("sim")), scenario, None)
    assert profile is not None
    return scenario, profile


def judged_by_the_wire(name: str, mutant: str | None = None, walk: int = 0) -> list[Verdict]:
    """``walk``: the number of a random walk; 0 = in plain order."""
    target = cached_target(TargetRequest("sim"))
    scenario, profile = the_story(name)
    strategy = TapeRecorder(make_strategy("random" if walk else "fifo", 0, walk))
    played = play(make_spec(scenario, target, profile, mutant), target.world(strategy))
    judge = Judge(discover(), wire_only(scenario, profile))
    for record in played.records:
        if not isinstance(record.event, ClientEvent | Snapshot):
            judge.feed(record)
    return judge.verdicts()


def wire_only(scenario: Scenario, profile: Profile) -> RunContext:
    return RunContext(scenario, profile.version, WIRE, tuple(scenario.topology.rank_list))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_correct_client_violates_nothing_that_the_wire_shows(name: str):
    found = [v for v in judged_by_the_wire(name) if (v.verdict, v.level) == ("violated", "must")]
    scenario, profile = the_story(name)
    faults_of_the_protocol = predicted(scenario.known, profile.version, "")
    assert [v for v in found if v.invariant not in faults_of_the_protocol] == []


@pytest.mark.parametrize(
    ("mutant", "name", "invariant"),
    [
        ("abort-to-every-engine", "requests/dropped-stream", "request.abort-only-to-owner"),
        ("coordinator-rewinds", "waves/rewind-under-a-flood-of-waves", "wave.never-rewinds"),
        (
            "fail-fast-fan-out",
            "utility/failing-beside-hanging",
            "utility.settles-before-return",
        ),
        (
            "first-engine-only-is-sleeping",
            "utility/is-sleeping-disagrees",
            "utility.aggregation",
        ),
        ("rank-truncated", "routing/rank-is-never-truncated", "routing.explicit-rank"),
        (
            "request-leaked-on-cancel-before-send",
            "requests/cancelled-once-the-add-left",
            "request.every-add-ends",
        ),
        (
            "stale-first-request-leaves-out-target",
            "waves/stale-first-request",
            "wave.stale-first-request-wakes-all",
        ),
        ("stream-dropped-without-abort", "requests/dropped-stream", "request.every-add-ends"),
    ],
)
def test_a_known_fault_shows_on_the_wire(mutant: str, name: str, invariant: str):
    # Which of a few orders it is that shows it is a matter of single turns of the loop.
    orders = (judged_by_the_wire(name, mutant, walk) for walk in range(WALKS))
    assert any((v.invariant, v.verdict) == (invariant, "violated") for vs in orders for v in vs)
