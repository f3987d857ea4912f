"""Engines that step together behind the real frontend: where ranks wait for each other for ever."""

from __future__ import annotations

import pytest

from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.targets.vllm_rs.fetch import available
from harness.verdict import HELD, VIOLATED

pytestmark = pytest.mark.vllm_rs


@pytest.mark.parametrize(
    ("scenario", "release", "status"),
    [
        ("lockstep/left-before-the-first-step", "0.32.0", VIOLATED),
        ("lockstep/left-before-the-first-step", "0.33.0", HELD),
        ("lockstep/resumed-twice", "0.33.0", VIOLATED),
        ("skew/first-request-at-older-engines", "0.33.0", VIOLATED),
        ("skew/all-ranks-have-work-at-older-engines", "0.33.0", HELD),
    ],
)
def test_ranks_behind_a_real_frontend_wait_alone_where_the_rules_lead_to_it(
    scenario, release, status, tmp_path
):
    if available(release) is None:
        pytest.skip(f"no binary of the frontend {release}")
    (loaded,) = selection.load_all(selection.select([scenario]))
    result = run_scenario(loaded, RunOptions(target="vllm-rs", frontend=release, out=tmp_path))
    assert result.status == status
    alone = {v.verdict for v in result.verdicts if v.invariant == "lockstep.no-rank-waits-alone"}
    assert alone == {status}
