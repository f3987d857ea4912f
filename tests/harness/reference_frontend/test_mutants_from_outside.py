"""Each mutant that a black box shows is killed through HTTP or gRPC, by its own invariant.

The same scenario holds without the mutant, so that what is seen is the mutant and not the path.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.mutants import discover, find_mutant, seen_from_outside
from harness.runner import RunOptions, run_scenario
from harness.scenario import selection
from harness.scenario.loader import load

pytestmark = [
    pytest.mark.zmq,
    pytest.mark.skipif(sys.platform != "linux", reason="the frontend's process ends with ours"),
]
CONTROL_BUDGET_S = 2.0
FLOOD = Path(__file__).parent / "short-flood-of-waves.yaml"
KILLERS = {
    "abort-to-every-engine": ["requests/dropped-stream", "requests/left-before-the-first-token"],
    "coordinator-rewinds": [FLOOD],
    "fail-fast-fan-out": ["utility/settles-all-ok", "utility/settles-and"],
    "first-engine-only-is-sleeping": ["utility/is-sleeping-disagrees"],
    "rank-truncated": ["routing/rank-is-never-truncated", "routing/grpc-rank-not-connected"],
    "stream-dropped-without-abort": [
        "requests/left-before-the-first-token",
        "requests/grpc-stream-left-while-the-engine-is-silent",
    ],
    "utility-waiter-leaked-on-cancel": ["utility/cancelled-then-late-replies"],
}
PAIRS = [(mutant, where) for mutant, found in KILLERS.items() for where in found]
RELEASES = {FLOOD: "0.32.0"}
"""First requests ended with 0.32; everything else is played in the newest release."""


def loaded(where):
    if isinstance(where, Path):
        return load(where)
    (one,) = selection.load_all(selection.select([where]))
    return one


def played(where, mutant, out):
    frontend = f"reference:{RELEASES.get(where, '0.33.0')}"
    options = RunOptions(
        target="vllm-rs",
        frontend=frontend,
        mutant=mutant,
        out=out,
        # With a mutant the first trial that shows it is the last; without, all would be played.
        race_budget_s=CONTROL_BUDGET_S if mutant is None else None,
    )
    return run_scenario(loaded(where), options)


def named(where):
    return where.stem if isinstance(where, Path) else where


def test_three_mutants_show_inside_the_client_only_and_say_why():
    hidden = {mutant.id: mutant.hidden_because for mutant in discover() if mutant.hidden_because}
    assert sorted(hidden) == [
        "first-request-leaves-running-false",
        "request-leaked-on-cancel-before-send",
        "stale-first-request-leaves-out-target",
    ]
    assert {find_mutant(name).visible() for name in hidden} == {"white-box"}
    assert len(seen_from_outside()) + len(hidden) == len(discover())


def test_every_mutant_that_a_black_box_shows_has_a_scenario_here_and_no_other():
    assert sorted(KILLERS) == [mutant.id for mutant in seen_from_outside()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "where"), PAIRS, ids=[f"{mutant} by {named(where)}" for mutant, where in PAIRS]
)
def test_mutant_is_killed_from_outside_by_its_own_invariant(mutant, where, tmp_path):
    result = played(where, mutant, tmp_path)
    killed_by = find_mutant(mutant).killed_by
    violated = {v.invariant for v in result.verdicts if v.verdict == "violated"}
    assert (result.status, result.error) == ("violated", None)
    assert killed_by in violated
    assert killed_by in Path(result.failure_file).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("where", dict.fromkeys(where for _, where in PAIRS), ids=named)
def test_scenario_that_kills_holds_without_a_mutant(where, tmp_path):
    result = played(where, None, tmp_path)
    assert (result.status, result.error, result.reason) == ("held", None, None)
    assert result.known == ()
    assert list(tmp_path.iterdir()) == []
