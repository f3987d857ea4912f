"""vLLM's AsyncLLM and DP client: what holds, what is known to be broken, and since when."""

from __future__ import annotations

import pytest

from harness.targets.vllm_py.probes import ask
from harness.verdict import HELD, VIOLATED

from .conftest import RELEASES

pytestmark = [pytest.mark.vllm_rs, pytest.mark.slow]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    "scenario",
    [
        "requests/stream-to-the-end",
        "requests/cancelled-while-streaming",
        "routing/explicit-rank",
        "utility/is-sleeping-agrees",
        "lifecycle/engine-core-dead",
    ],
)
def test_client_keeps_its_promises(run, scenario, release):
    result = run(scenario, release)
    assert (result.error, result.status) == (None, HELD)


@pytest.mark.parametrize(("release", "status"), [("0.30.0", VIOLATED), ("0.33.0", HELD)])
def test_disagreeing_engines_are_noticed_by_newer_clients_only(run, release, status):
    result = run("utility/is-sleeping-disagrees", release)
    assert (result.error, result.status) == (None, status)


@pytest.mark.parametrize("release", RELEASES)
def test_fan_out_of_the_python_client_stops_at_the_first_failure(run, release):
    result = run("utility/settles-consensus", release)
    broken = {v.invariant for v in result.verdicts if v.verdict == VIOLATED}
    assert broken == {"utility.settles-before-return", "utility.no-waiter-outlives-call"}


@pytest.mark.parametrize(
    ("release", "picks"),
    [("0.22.0", [0, 0, 0, 0]), ("0.24.0", [0, 0, 0, 0]), ("0.25.0", [0, 1, 0, 1]),
     ("0.33.0", [0, 1, 0, 1])],
)  # fmt: skip
def test_ties_go_to_one_rank_until_0_24(tree, release, picks):
    assert ask(tree(release), "ties") == picks


@pytest.mark.parametrize("release", RELEASES)
def test_stats_that_never_stop_starve_the_publish(tree, release):
    """At a pause now and then it publishes: the probe can tell the two apart."""
    assert ask(tree(release), "starved") == {"busy": 0, "relaxed": 4}


@pytest.mark.parametrize("release", RELEASES)
def test_request_whose_hand_over_fails_stays_registered(tree, release):
    assert ask(tree(release), "rollback") == {"failed": 1, "cancelled": 1}
