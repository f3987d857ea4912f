"""Every invariant is a citizen: id, four parts, own file, own tests that hold and fail."""

import ast
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from harness.invariants import discover
from harness.invariants.base import Invariant
from harness.targets.capabilities import unknown
from harness.trace.kinds import EVENT_CLASSES

ROOT = Path(__file__).parents[2]
INVARIANTS = discover()
PARTS = ["statement", "reason", "source", "limits"]
REQUIRED = {
    "wave.never-rewinds",
    "wave.stale-first-request-wakes-all",
    "wave.current-first-request-excludes-holder",
    "wave.first-request-marks-running",
    "wave.engine-start-rebroadcast-once",
    "wave.complete-advances-once",
    "wave.add-stamp-not-ahead",
    "wave.only-engines-start",
    "utility.settles-before-return",
    "utility.error-lowest-engine",
    "utility.result-order",
    "utility.no-waiter-outlives-call",
    "utility.aggregation",
    "utility.unique-call-ids",
    "utility.late-replies-dropped",
    "request.every-add-ends",
    "request.abort-only-to-owner",
    "request.no-registration-outlives-end",
    "request.no-output-after-end",
    "request.outputs-own-only",
    "request.unique-in-flight-ids",
    "request.accepted-ends",
    "request.add-once",
    "routing.explicit-rank",
    "routing.unconnected-rank-refused",
    "routing.score-matches",
    "health.sticky-first",
    "health.fails-all-open-work",
    "lifecycle.shutdown-leaves-nothing",
    "handshake.gate-before-ready",
    "engine.utility-effects-settled",
    "answer.finish-is-the-engines",
    "answer.failure-has-a-cause",
    "wave.ends-when-idle",
    "health.failure-has-a-cause",
    "lockstep.no-rank-waits-alone",
    "lockstep.waves-agree",
    "lockstep.wave-completes-once",
    "lockstep.paused-runs-nothing",
    "lockstep.pause-returns-at-rest",
    "lockstep.comes-to-rest",
    "lockstep.agrees-at-rest",
    "lockstep.counts-converge",
    "lockstep.resume-runs-what-waits",
    "elastic.only-members-get-requests",
    "elastic.leaving-rank-loses-nothing",
    "elastic.coordinator-follows",
}
"""Ids are given once: reports, failure files and filters hold on to them."""

each = pytest.mark.parametrize("cls", INVARIANTS, ids=lambda cls: cls.id)


def test_no_id_that_was_given_is_missing():
    assert {cls.id for cls in INVARIANTS} >= REQUIRED


@each
def test_an_invariant_stands_in_the_file_of_its_id(cls: type[Invariant]):
    name = cls.id.replace(".", "_").replace("-", "_")
    assert cls.__module__ == f"harness.invariants.{name}"


@each
def test_an_invariant_says_its_four_parts(cls: type[Invariant]):
    doc = cls.doc()
    assert list(doc) == PARTS
    assert all(len(text) > 20 for text in doc.values())


@each
def test_an_invariant_reads_known_events_once_and_needs_known_capabilities(cls: type[Invariant]):
    assert cls.handles
    assert len(set(cls.handles)) == len(cls.handles)
    assert set(cls.handles) <= set(EVENT_CLASSES)
    assert not unknown(cls.needs)
    assert all(name.startswith(("see.", "world.")) for name in cls.needs)
    SpecifierSet(cls.profiles)


@each
def test_an_invariant_has_tests_that_hold_fail_and_stay_unjudged(cls: type[Invariant]):
    name = cls.id.replace(".", "_").replace("-", "_")
    path = ROOT / "tests" / "harness" / "invariants" / f"test_{name}.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bodies = [
        {node.func.id for node in ast.walk(test) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        for test in tree.body
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
    ]  # fmt: skip
    for proof in ("held", "violated", "unexercised"):
        assert any(proof in called for called in bodies), f"{path.name} has no test that is {proof}"
    judged_black = "black=True" in path.read_text(encoding="utf-8")
    assert judged_black, f"{path.name} never judges a black box"
